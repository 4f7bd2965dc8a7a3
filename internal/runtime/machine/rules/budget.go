package rules

import (
	"math"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Budgets (section 6). Zero is no limit everywhere. Counters are settled
// before anything else is decided: an input that leaves the run over a budget
// ends it BUDGET_EXHAUSTED whatever else the input asks for, be it a
// completion of a terminal state or a final failure; only Cancel and the
// guards of a state's entry come with an end of their own. What the input
// brought (output, answers, artifacts) is recorded all the same.

// overdue: the wall clock has run out, whether or not its timer fired yet.
func (t *txn) overdue() bool { return t.s.Deadline != 0 && t.in.At >= t.s.Deadline }

// overBudget returns the first budget that is exceeded, or "". N tool calls,
// tokens or micro-dollars are allowed exactly; one more exceeds.
func (t *txn) overBudget() string {
	b, limit := &t.g.Budget, LimitOf(t.g, t.s)
	switch {
	case t.overdue():
		return "max_wall_time_sec"
	case b.MaxToolCalls > 0 && t.s.ToolCalls > b.MaxToolCalls:
		return "max_tool_calls"
	case limit.Tokens > 0 && t.s.Tokens > limit.Tokens:
		return "max_tokens"
	case limit.CostMicro > 0 && t.s.CostMicro > limit.CostMicro:
		return "max_cost_usd"
	}
	return ""
}

// checkUsage refuses negative figures, which would give budget back, and parts that are
// more than the whole.
func checkUsage(u machine.Usage) error {
	refusal := &machine.Refusal{Code: machine.CodeInvalidArgument, Reason: "BAD_USAGE"}
	switch {
	case min(u.InputTokens, u.OutputTokens, u.CachedTokens, u.ReasoningTokens, u.CostMicro) < 0 || u.ToolCalls < 0:
		refusal.Reason, refusal.Field, refusal.Message = "NEGATIVE_USAGE", "usage", "usage figures must be 0 or more"
	case u.CachedTokens > u.InputTokens:
		refusal.Field, refusal.Message = "usage.cached_tokens", "are a part of input_tokens, and there are more of them"
		refusal.Limit, refusal.Got = u.InputTokens, u.CachedTokens
	case u.ReasoningTokens > u.OutputTokens:
		refusal.Field, refusal.Message = "usage.reasoning_tokens", "are a part of output_tokens, and there are more of them"
		refusal.Limit, refusal.Got = u.OutputTokens, u.ReasoningTokens
	default:
		return nil
	}
	return refusal
}

// settle adds what a turn consumed outside the sidecar; its cost was made by price.
func (t *txn) settle(u machine.Usage) {
	t.s.Tokens = addCapped(t.s.Tokens, addCapped(u.InputTokens, u.OutputTokens))
	t.s.CostMicro = addCapped(t.s.CostMicro, u.CostMicro)
	t.s.ToolCalls = int(addCapped(int64(t.s.ToolCalls), int64(u.ToolCalls)))
}

// addCapped adds two figures >= 0 and stops at the largest number, so that no
// report can wrap a counter round to "plenty left".
func addCapped(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// wallClock stops the clock while the run waits and starts it again
// (wall_time_excludes_waiting). Without that option the deadline stands.
func (t *txn) wallClock(waiting bool) {
	s := t.s
	if !t.g.WallExcludesWaiting {
		return
	}
	switch {
	case waiting && s.Deadline != 0:
		s.WallLeft, s.Deadline = s.Deadline-t.in.At, 0
	case !waiting && s.WallLeft != 0:
		s.Deadline, s.WallLeft = addCapped(t.in.At, s.WallLeft), 0
	}
}
