package machine

import "time"

// Remaining contains the remaining amount of each budget of a run. A field is nil if the run has no
// such budget.
type Remaining struct {
	// Visits is the remaining number of entries into states. ToolCalls is the remaining number of tool
	// calls. Steps is the remaining part of max_steps.
	Visits, ToolCalls, Steps *int64
	Tokens, CostMicro        *int64
	WallTime                 *time.Duration
}
