package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/pack"
)

const leasesPack = `{
  "id": "team", "name": "Team", "version": "1.0.0",
  "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "prompts": {
    "lead": {"id": "lead", "name": "Lead", "version": "1.0.0", "system_template": "Lead.", "tools": ["helper", "small"]},
    "helper": {"id": "helper", "name": "Helper", "version": "1.0.0", "system_template": "Help."},
    "small": {"id": "small", "name": "Small", "version": "1.0.0", "system_template": "Help.", "parameters": {"max_tokens": 100}}
  },
  "agents": {"entry": "lead", "members": {"lead": {}, "helper": {"description": "Helps"}, "small": {"description": "Helps"}}},
  "workflow": {
    "version": 2, "entry": "work", "engine": ENGINE,
    "states": {"work": {"prompt_task": "lead", "terminal": true}}
  }
}`

// TestLeases: what validate prints of an agent is what its first delegation is leased.
func TestLeases(t *testing.T) {
	t.Parallel()
	for engine, want := range map[string][]lease{
		`{}`:                                nil,
		`{"budget": {"max_tool_calls": 1}}`: {{Agent: "helper", Refused: "MAX_TOOL_CALLS"}, {Agent: "small", Refused: "MAX_TOOL_CALLS"}},
		`{"budget": {"max_tool_calls": 4}, "x_pawl": {"max_pending_steps": 4, "max_tokens": 1000}}`: {
			{Agent: "helper", Tokens: 1000, ToolCalls: 1}, {Agent: "small", Tokens: 250, ToolCalls: 1},
		},
		`{"budget": {"max_tool_calls": 41}, "x_pawl": {"max_tokens": 1000, "max_cost_usd": 0.8, "tools": {"small": {"cost": 0.5}}}}`: {
			{Agent: "helper", Tokens: 1000, CostMicroUSD: 100_000, ToolCalls: 5}, {Agent: "small", Tokens: 200, CostMicroUSD: 500_000, ToolCalls: 5},
		},
	} {
		p, found, err := pack.Load([]byte(strings.Replace(leasesPack, "ENGINE", engine, 1)), pack.Options{})
		if err != nil || p == nil {
			t.Fatalf("%s: %v, %v", engine, found, err)
		}
		if got, err := leasesOf(p); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", engine, got, err, want)
		}
	}
}
