package machine

import "time"

// Remaining is what is left of each budget of a run; nil = the run has no budget of that kind.
type Remaining struct {
	// Visits are further entries into states, ToolCalls further tool calls, Steps what remains of max_steps.
	Visits, ToolCalls, Steps *int64
	Tokens, CostMicro        *int64
	WallTime                 *time.Duration
}
