package rules

import (
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
	calls, limit := CallsOf(t.g, t.s), LimitOf(t.g, t.s)
	switch {
	case t.overdue():
		return "max_wall_time_sec"
	case calls > 0 && int64(t.s.ToolCalls) > calls:
		return "max_tool_calls"
	case limit.Tokens > 0 && t.s.Tokens > limit.Tokens:
		return "max_tokens"
	case limit.CostMicro > 0 && t.s.CostMicro > limit.CostMicro:
		return "max_cost_usd"
	}
	return ""
}

// settle adds what a turn consumed outside the sidecar; its cost was made by price.
func (t *txn) settle(u machine.Usage) {
	t.s.Tokens = AddCapped(t.s.Tokens, AddCapped(u.InputTokens, u.OutputTokens))
	t.s.CostMicro = AddCapped(t.s.CostMicro, u.CostMicro)
	if u.Estimated {
		t.s.EstimatedTokens = AddCapped(t.s.EstimatedTokens, AddCapped(u.InputTokens, u.OutputTokens))
	}
	t.s.ToolCalls = int(AddCapped(int64(t.s.ToolCalls), int64(u.ToolCalls)))
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
		s.Deadline, s.WallLeft = AddCapped(t.in.At, s.WallLeft), 0
	}
}
