package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// This file has the part of the naive implementation for the ledger.

// firstLimit returns the budget of the pack, or the lease where it is smaller.
func (n *naive) firstLimit(start machine.Start) machine.Amount {
	less := func(pack, lease int64) int64 {
		if pack == 0 || lease > 0 && lease < pack {
			return lease
		}
		return pack
	}
	b := n.g.Budget
	return machine.Amount{Tokens: less(b.MaxTokens, start.Lease.Tokens), CostMicro: less(b.MaxCostMicroUSD, start.Lease.CostMicro)}
}

// mostCalls returns how many tool calls the run may make: the bound of the pack, or that of the
// lease where it is smaller.
func (n *naive) mostCalls(start machine.Start) int64 {
	if lease := start.Lease.ToolCalls; lease > 0 && (n.g.Budget.MaxToolCalls == 0 || lease < int64(n.g.Budget.MaxToolCalls)) {
		return lease
	}
	return int64(n.g.Budget.MaxToolCalls)
}

// lentCalls returns how many tool calls the agents of pending steps may make. The step that is
// passed as but does not count (nil: all steps count).
func (v *view) lentCalls(but *vstep) (calls int64) {
	for _, i := range v.pending() {
		if s := v.step(i); but == nil || s.n != but.n {
			calls += s.bound.ToolCalls
		}
	}
	return calls
}

// bindsAgents reports whether a delegation passes bounds and lists on to the agent.
func (n *naive) bindsAgents() bool { return n.now.Semantics >= 6 }

// leased reports whether the run spends from a lease of its parent.
func (n *naive) leased() bool {
	start, ok := n.now.Command.(machine.Start)
	if len(n.entries) > 0 {
		start, ok = n.start(), true
	}
	return ok && start.Lease != (machine.Amount{})
}

// reservesBudget reports whether steps reserve parts of the budget.
func (n *naive) reservesBudget() bool {
	return n.g.Ledger || n.leased()
}

// takenAmounts returns what is consumed, and what pending steps reserve. The step that is passed as
// but does not count (nil: all steps count).
func (v *view) takenAmounts(but *vstep) (tokens, cost int64) {
	tokens, cost = v.tokens, v.cost
	for _, i := range v.pending() {
		s := v.step(i)
		if but != nil && s.n == but.n {
			continue
		}
		tokens, cost = tokens+s.bound.Tokens, cost+s.bound.CostMicro
		if s.model.is {
			tokens, cost = tokens+s.model.tokens, cost+s.model.cost
		}
	}
	for _, o := range v.unreported {
		tokens, cost = tokens+o.Bound.Tokens, cost+o.Bound.CostMicro
	}
	return tokens, cost
}

// owe keeps the bound of a call of a model whose usage was not reported.
func (n *naive) owe(v *view, s *vstep) {
	bound := machine.Amount{Tokens: s.model.tokens, CostMicro: s.model.cost}
	if s.model.is && n.keepsUnreported(v) && bound != (machine.Amount{}) {
		v.unreported = append(v.unreported, machine.UnreportedUsage{Step: s.n, Attempt: s.attempt, Bound: bound, Output: s.model.output})
	}
}

// keepsUnreported reports whether the bound of a call stays reserved until its usage is reported.
func (n *naive) keepsUnreported(v *view) bool {
	return n.reservesBudget() || v.version >= 5 && v.limit.Tokens+v.limit.CostMicro > 0
}

// unreportedUsage returns the usage that counts for a call whose usage was not reported.
func (v *view) unreportedUsage(o machine.UnreportedUsage) machine.Usage {
	if v.version < 5 {
		return asUsage(o.Bound)
	}
	return machine.Usage{InputTokens: o.Bound.Tokens - o.Output, OutputTokens: o.Output, CostMicro: o.Bound.CostMicro, Estimated: true}
}

// boundUsage replaces the numbers that the answer to a call does not report with those of the bound.
func (v *view) boundUsage(c machine.AnswerModel, bound machine.UnreportedUsage) machine.Usage {
	u := c.Usage
	noRead, noWrite := u.Estimated && u.InputTokens == 0, u.Estimated
	if c.Answer != nil {
		noRead, noWrite = u.InputTokens == 0, noWrite || u.OutputTokens == 0 && (naiveAnswer(c.Answer) > 0 || len(c.Answer.Calls) > 0)
	}
	if v.version < 5 || u.CountedBefore || !noRead && !noWrite || v.limit.Tokens+v.limit.CostMicro+bound.Bound.Tokens+bound.Bound.CostMicro == 0 {
		return u
	}
	u.Estimated = true
	if s := v.step(c.Step); s != nil && u.Model == "" {
		u.Model = s.tool
	}
	if noRead {
		u.InputTokens = bound.Bound.Tokens - bound.Output
		if bound.Bound.Tokens == 0 {
			u.InputTokens = 1
		}
	}
	if noWrite {
		most := bound.Output
		switch {
		case bound.Bound.Tokens == 0:
			most = 1
		case most == 0 && bound.Bound.Tokens > u.InputTokens:
			most = bound.Bound.Tokens - u.InputTokens
		}
		u.OutputTokens = max(most, u.OutputTokens)
	}
	if u.CostMicro == 0 {
		u.CostMicro = bound.Bound.CostMicro
	}
	return u
}

func (n *naive) toldOf(v *view, step uint32, attempt int) (machine.UnreportedUsage, bool) {
	if !n.keepsUnreported(v) {
		return machine.UnreportedUsage{}, false
	}
	if s := v.step(step); s != nil && s.status == machine.StepStatusPending && s.attempt == attempt {
		had := machine.UnreportedUsage{Step: step, Attempt: attempt, Bound: machine.Amount{Tokens: s.model.tokens, CostMicro: s.model.cost}, Output: s.model.output}
		s.model.tokens, s.model.cost, s.model.output = 0, 0, 0
		return had, had.Bound.Tokens+had.Bound.CostMicro > 0
	}
	for i, o := range v.unreported {
		if o.Step == step && o.Attempt == attempt {
			v.unreported = append(append([]machine.UnreportedUsage(nil), v.unreported[:i]...), v.unreported[i+1:]...)
			return o, true
		}
	}
	return machine.UnreportedUsage{}, false
}

// noticeBudget adds a notice for models when four fifths of a limit are consumed or
// reserved, once for each limit.
func (n *naive) noticeBudget() {
	v := n.view()
	if v.ended != nil || v.undo != nil || v.noticed || !n.reservesBudget() {
		return
	}
	tokens, cost := v.takenAmounts(nil)
	if v.limit.CostMicro > 0 && 5*cost >= 4*v.limit.CostMicro {
		n.add(&machine.NoticeAdded{Code: "BUDGET_LOW", Text: fmt.Sprintf(
			"Of this run's budget of $0.%06d, $0.%06d is spent or reserved. Bring the work to an end with what is left.", v.limit.CostMicro, cost)})
	} else if v.limit.Tokens > 0 && 5*tokens >= 4*v.limit.Tokens {
		n.add(&machine.NoticeAdded{Code: "BUDGET_LOW", Text: fmt.Sprintf(
			"Of this run's budget of %d tokens, %d are used or reserved. Bring the work to an end with what is left.", v.limit.Tokens, tokens)})
	}
}

// missingBudget names the budget that has no room for the additional amount.
func (v *view) missingBudget(more machine.Amount, but *vstep) string {
	tokens, cost := v.takenAmounts(but)
	if v.mostCalls > 0 && more.ToolCalls > 0 && int64(v.calls)+v.lentCalls(but)+more.ToolCalls > v.mostCalls {
		return "max_tool_calls"
	}
	if v.limit.Tokens > 0 && more.Tokens > 0 && tokens+more.Tokens > v.limit.Tokens {
		return "max_tokens"
	}
	if v.limit.CostMicro > 0 && more.CostMicro > 0 && cost+more.CostMicro > v.limit.CostMicro {
		return "max_cost_usd"
	}
	return ""
}

// boundOf returns what a call of a tool reserves.
func (n *naive) boundOf(name string) machine.Amount {
	var bound machine.Amount
	tool, v := n.g.Tools[name], n.view()
	if !n.reservesBudget() && !(tool.Agent && n.bindsAgents()) {
		return bound
	}
	bound.CostMicro = tool.CostMicro
	if !tool.Agent {
		return bound
	}
	places := int64(8)
	if n.g.MaxPendingSteps > 0 {
		places = int64(n.g.MaxPendingSteps)
	}
	places = max(1, places-int64(len(v.ofTurns())))
	tokens, cost := v.takenAmounts(nil)
	if bound.CostMicro == 0 && v.limit.CostMicro > 0 {
		bound.CostMicro = max(1, (v.limit.CostMicro-cost)/places)
	}
	if v.limit.Tokens > 0 {
		left := v.limit.Tokens - tokens
		bound.Tokens = max(1, left/places)
		turn := int64(8192)
		if tool.TurnTokens > 0 {
			turn = tool.TurnTokens
		}
		if n.bindsAgents() && bound.Tokens < turn && left > bound.Tokens {
			bound.Tokens = min(turn, left)
		}
	}
	if n.bindsAgents() && v.mostCalls > 0 {
		bound.ToolCalls = max(1, (v.mostCalls-int64(v.calls)-v.lentCalls(nil)-1)/places)
	}
	return bound
}

func asUsage(a machine.Amount) machine.Usage {
	return machine.Usage{InputTokens: a.Tokens, CostMicro: a.CostMicro, ToolCalls: int(a.ToolCalls)}
}

// close ends the run, or enters on_budget if a budget of tokens or cost is exceeded.
func (n *naive) close(status machine.Status, reason string) {
	v := n.view()
	to := n.g.OnBudget
	if to == "" || v.wrapped || v.current == to || n.g.States[v.current].Terminal || reason != "max_tokens" && reason != "max_cost_usd" {
		n.end(status, reason, nil, nil)
		return
	}
	n.abandon("budget")
	n.enter(n.g.States[v.current], "", to, machine.CauseBudget, nil)
}

// settledUsage returns the usage that an answer settles, and the error message if the agent exceeded its lease.
func (s *vstep) settledUsage(u machine.Usage, metered, agent bool) (machine.Usage, string) {
	if s.bound == (machine.Amount{}) {
		return u, ""
	}
	if leased := s.bound.ToolCalls > 0; !metered && u.InputTokens+u.OutputTokens+u.CostMicro == 0 && !(leased && u.ToolCalls > 0) {
		u.InputTokens, u.CostMicro = s.bound.Tokens, s.bound.CostMicro
		if leased {
			u.ToolCalls = int(s.bound.ToolCalls)
		}
		return u, ""
	}
	tokens := u.InputTokens + u.OutputTokens
	busy := s.bound.ToolCalls > 0 && int64(u.ToolCalls) > s.bound.ToolCalls
	many, dear := s.bound.Tokens > 0 && tokens > s.bound.Tokens, s.bound.CostMicro > 0 && u.CostMicro > s.bound.CostMicro
	if !agent || !many && !dear && !busy {
		return u, ""
	}
	message := fmt.Sprintf("the agent says that it consumed %d tokens and %d micro-dollars, its lease is %d and %d (0: no bound)",
		tokens, u.CostMicro, s.bound.Tokens, s.bound.CostMicro)
	if s.bound.ToolCalls > 0 {
		message += fmt.Sprintf("; it made %d tool calls, its lease is %d", u.ToolCalls, s.bound.ToolCalls)
	}
	if busy {
		u.ToolCalls = int(s.bound.ToolCalls)
	}
	if many {
		u.InputTokens, u.OutputTokens, u.CachedTokens, u.ReasoningTokens = s.bound.Tokens, 0, 0, 0
	}
	if dear {
		u.CostMicro = s.bound.CostMicro
	}
	return u, message
}

// forgoneUsage returns the usage that counts for a cancelled step. It is the bound of the step if a
// worker could have had this attempt before the present input.
func (n *naive) forgoneUsage(step *vstep) machine.Usage {
	before := &naive{g: n.g, entries: n.entries}
	if len(n.entries) == 0 || step.model.is {
		return machine.Usage{}
	}
	was := before.view().step(step.n)
	if was == nil || was.status != machine.StepStatusPending || was.attempt != step.attempt || was.awaitsApproval() {
		return machine.Usage{}
	}
	return asUsage(step.bound)
}

func (n *naive) raise(c machine.RaiseBudget) *machine.Error {
	if r := n.refuse(false, 0, 0, 0); r != nil {
		return r
	}
	v := n.view()
	refuse := func(reason, field string, limit, got int64) *machine.Error {
		return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: reason, Field: field, Limit: limit, Got: got}
	}
	if n.start().Lease != (machine.Amount{}) {
		return refuse("BUDGET_LEASED", "run_id", 0, 0)
	}
	if c.To.Tokens == 0 && c.To.CostMicro == 0 {
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "NO_BUDGET", Field: "max_cost_micro_usd"}
	}
	to := v.limit
	for _, part := range []struct {
		field   string
		to, set *int64
	}{{"max_tokens", &c.To.Tokens, &to.Tokens}, {"max_cost_micro_usd", &c.To.CostMicro, &to.CostMicro}} {
		switch {
		case *part.to == 0:
		case *part.to < 0:
			return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "NEGATIVE_BUDGET", Field: part.field, Limit: *part.set, Got: *part.to}
		case *part.set == 0:
			return refuse("BUDGET_UNLIMITED", part.field, 0, *part.to)
		case *part.to <= *part.set:
			return refuse("BUDGET_NOT_RAISED", part.field, *part.set, *part.to)
		default:
			*part.set = *part.to
		}
	}
	n.add(&machine.BudgetRaised{From: v.limit, To: to, Reason: c.Reason})
	return nil
}

// owedFact returns the unreported usage that the machine keeps.
func owedFact(s *machine.State) []machine.UnreportedUsage {
	if s.Account == nil {
		return nil
	}
	return s.Account.Unreported
}
