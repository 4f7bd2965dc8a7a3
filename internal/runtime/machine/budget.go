package machine

import "time"

// Remaining is what is left of each budget of a run; nil = it has no such bound.
type Remaining struct {
	// Visits are further entries into states, Steps further tool calls by step.
	Visits, ToolCalls, Steps *int64
	Tokens, CostMicro        *int64
	WallTime                 *time.Duration
}
