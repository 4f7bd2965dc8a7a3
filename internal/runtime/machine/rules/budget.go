package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Budgets (semantics §6). A limit of zero means that there is no limit.
//
// The consumption is added before any other decision. If an input brings the run over a budget, the run
// ends as BUDGET_EXHAUSTED, even if the input enters a terminal state or reports a final failure. The
// exceptions are Cancel and the guards of a state's entry, which have their own end status. The data of
// the input (output, answers, artifacts) is recorded in every case.

// overdue reports whether the wall time is used up, even if its timer has not fired yet.
func (t *txn) overdue() bool { return t.s.Deadline != 0 && t.in.At >= t.s.Deadline }

// overBudget returns the name of the first budget that the run exceeds. It returns "" if the run
// exceeds none. A budget of N tool calls, tokens or micro-dollars allows exactly N.
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

// settle adds the usage of a turn to the run. The cost in u must already be computed by price.
func (t *txn) settle(u machine.Usage) {
	t.s.Tokens = AddCapped(t.s.Tokens, AddCapped(u.InputTokens, u.OutputTokens))
	t.s.CostMicro = AddCapped(t.s.CostMicro, u.CostMicro)
	if u.Estimated {
		t.s.EstimatedTokens = AddCapped(t.s.EstimatedTokens, AddCapped(u.InputTokens, u.OutputTokens))
	}
	t.s.ToolCalls = int(AddCapped(int64(t.s.ToolCalls), int64(u.ToolCalls)))
}

// wallClock stops the wall-time clock of the run if waiting is true, and starts it again if waiting is
// false. It does this only with the option wall_time_excludes_waiting. Without the option the deadline
// does not change.
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
