package rules

import (
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// stepBound returns the status and the reason with which the run ends if one more step is issued. It
// returns Running if the step is within all bounds.
func (t *txn) stepBound(a *ask) (machine.Status, string) {
	b, calls := &t.g.Budget, int64(1)
	if t.rules.agentsAreLeased && t.g.Tools[a.Tool].Agent {
		calls = 2 // the delegation, and at least one call of the agent itself
	}
	switch {
	case t.callsLeft(-1) < calls:
		return machine.BudgetExhausted, "max_tool_calls"
	case t.g.Tools[a.Tool].MaxCalls > 0 && CalledTimes(t.s, a.Tool) >= t.g.Tools[a.Tool].MaxCalls:
		return machine.BudgetExhausted, maxCalls + ":" + a.Tool
	case t.s.MaxSteps > 0 && ToolSteps(t.s) >= int64(t.s.MaxSteps):
		return machine.Escalated, "max_steps"
	case a.Reframe && b.MaxReframes > 0 && t.s.Reframes >= b.MaxReframes:
		return machine.Escalated, "max_reframes"
	}
	return machine.Running, ""
}

// issue gives the request the next step number of the run and makes the step pending.
func (t *txn) issue(a *ask, bound machine.Amount) machine.StepOutcome {
	tool := ToolOf(t.g, a.Tool)
	s, turn := t.s, t.turn()
	s.LastStep++
	s.ToolCalls = int(AddCapped(int64(s.ToolCalls), 1))
	turn.Calls++
	t.countCall(a.Tool, tool.MaxCalls)
	if a.Reframe {
		s.Reframes++
	}
	deadline := AddCapped(t.in.At, int64(tool.Timeout))
	asked := &machine.StepRequested{
		Step: s.LastStep, Key: a.key, Tool: a.Tool, TurnSeq: turn.Seq, Attempt: 1,
		Payload: a.Payload, Reframe: a.Reframe, Deadline: deadline, Delegation: tool.Agent, Call: a.Call,
		Bound: usageOfBound(bound), ByCaller: a.ByCaller,
	}
	if tool.Agent && t.rules.agentsAreLeased {
		asked.Policy = t.passOn(a.Policy)
	}
	asked.Local = t.countsItself(a)
	step := machine.ToolStep{
		Step: s.LastStep, Key: a.key, Tool: a.Tool, PayloadHash: a.PayloadHash,
		Status: machine.StepStatusPending, Attempt: 1, TurnSeq: turn.Seq,
		Deadline: deadline, Delegation: tool.Agent, Call: a.Call, Effect: a.Effect, Bound: bound, ByCaller: a.ByCaller, Local: asked.Local,
	}
	t.await(&step, asked, a.Holding)
	step.RequestSeq = t.record(asked)
	s.Steps = append(t.steps(), step)
	t.takeEffect(&s.Steps[len(s.Steps)-1])
	out := OutcomeOf(&step)
	out.Replayed, out.PayloadSeq = false, 0
	return out
}

// maxCalls is the first part of the reason of a run that ended because a tool has no calls left
// (x_pawl.tools.NAME.max_calls). The name of the tool is the second part.
const maxCalls = "max_calls"

// countCall counts a call of a tool that has its own bound of calls. If limit is 0, the tool has no
// such bound, and countCall does nothing.
func (t *txn) countCall(tool string, limit int) {
	if limit == 0 {
		return
	}
	s := t.s
	s.Called = slices.Clone(s.Called)
	i := slices.IndexFunc(s.Called, func(c machine.Count) bool { return c.State == tool })
	if i < 0 {
		s.Called = append(s.Called, machine.Count{State: tool, N: 1})
		return
	}
	s.Called[i].N++
}

// OutcomeOf returns the answer to a repeated request: the current outcome of the step.
func OutcomeOf(s *machine.ToolStep) machine.StepOutcome {
	out := machine.StepOutcome{Key: s.Key, Step: s.Step, Replayed: true, Status: s.Status, AnswerSeq: s.AnswerSeq}
	if s.HeldForApproval() {
		out.Held, out.Digest = true, s.Approval.Digest
	}
	if s.Call != nil || s.PayloadSeq() != s.RequestSeq {
		out.PayloadSeq = s.PayloadSeq()
	}
	return out
}

// defaultKey returns the default key of a request. The key is the ordinal of the request among the
// requests of the turn. In later turns of a visit, the key begins with the number of the turn, because
// keys must be unique in the visit.
func (t *txn) defaultKey(ordinal int) string {
	if turn := KeysOf(t.s); turn != 0 {
		return strconv.FormatUint(turn, 10) + "." + strconv.Itoa(ordinal)
	}
	return strconv.Itoa(ordinal)
}
