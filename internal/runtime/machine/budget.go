package machine

import "time"

// Remaining contains what is left of each budget of a run. A field is nil if the run has no such budget.
type Remaining struct {
	// Visits is the number of entries into states that are left, ToolCalls the number of tool calls, and Steps what is left of max_steps.
	Visits, ToolCalls, Steps *int64
	Tokens, CostMicro        *int64
	WallTime                 *time.Duration
}
