package pack

// places maps each place in a pack to the property names that are allowed only there. Names that are
// allowed at several places, for example tools or retry, are not in it.
var places = map[string][]string{
	"workflow.engine":        {"x_pawl", "budget"},
	"workflow.engine.budget": {"max_total_visits", "max_tool_calls", "max_wall_time_sec"},
	"workflow.engine.x_pawl": {
		"compensate_on", "erasable", "lease_sec", "max_artifact_bytes", "max_cost_usd", "max_iterations", "max_pending_steps", "max_reframes",
		"max_run_artifact_bytes", "max_steps", "max_tokens", "model_calls", "no_progress", "on_budget", "outcome", "output_schema", "prices",
		"result_bindings", "sensitive", "timeouts", "wall_time_excludes_waiting",
	},
	"workflow.engine.x_pawl.tools.NAME": {
		"approval", "approve", "attempts", "compensate", "dedupe", "max_calls", "mcp_digest", "on_error", "on_unknown", "reconcile", "timeout_sec",
	},
	"workflow.states.NAME": {"max_visits", "on_event", "on_max_visits", "orchestration", "persistence", "prompt_task", "terminal"},
	"prompts.NAME":         {"system_template", "tool_policy", "tested_models"},
}

var placeOf = func() map[string]string {
	out := map[string]string{}
	for place, names := range places {
		for _, name := range names {
			out[name] = place
		}
	}
	return out
}()

// correctPlace returns the correct place of a misplaced property, for use in a message. It returns "" if the
// property does not exist or is allowed at several places.
func correctPlace(name string) string {
	if place := placeOf[name]; place != "" {
		return " (it belongs under " + place + ")"
	}
	return ""
}
