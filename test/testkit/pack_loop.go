package testkit

// LoopPack has a state of each orchestration, an event that stays, tools, and
// artifacts of both modes.
const LoopPack = `{
  "id": "loop", "name": "Loop", "version": "1.0.0",
  "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "fragments": {"tone": "Be {{style}}."},
  "prompts": {
    "worker": {
      "id": "worker", "name": "Worker", "version": "1.0.0",
      "system_template": "Goal: {{goal}}. {{fragments.tone}} Note: {{artifacts.note}} Log: {{artifacts.log}}",
      "variables": [
        {"name": "goal", "type": "string", "required": true},
        {"name": "style", "type": "string", "required": false, "default": "brief"}
      ],
      "tools": ["run_tests", "write_file"],
      "tool_policy": {"max_tool_calls_per_turn": 50}
    },
    "approver": {
      "id": "approver", "name": "Approver", "version": "1.0.0",
      "system_template": "Decide."
    }
  },
  "tools": {
    "run_tests": {"name": "run_tests", "description": "Runs tests", "parameters":
      {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}},
    "write_file": {"name": "write_file", "description": "Writes a file"}
  },
  "workflow": {
    "version": 2, "entry": "work",
    "engine": {
      "budget": {"max_wall_time_sec": 3600},
      "x_pawl": {"timeouts": {"gate": {"after_sec": 60, "event": "TimedOut"}}}
    },
    "states": {
      "work": {
        "prompt_task": "worker", "persistence": "persistent",
        "artifacts": {
          "note": {"type": "text/plain"},
          "log": {"type": "application/json", "mode": "append"}
        },
        "on_event": {"Again": "work", "Ask": "gate", "Share": "desk", "Finish": "done"}
      },
      "gate": {
        "prompt_task": "approver", "orchestration": "external",
        "on_event": {"Approved": "done", "Rejected": "work", "TimedOut": "work"}
      },
      "desk": {
        "prompt_task": "approver", "orchestration": "hybrid",
        "on_event": {"Taken": "work", "Round": "desk"}
      },
      "done": {"prompt_task": "worker", "terminal": true}
    }
  }
}`
