package rules

import (
	"fmt"
	"math"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// What costs is kept a ledger of where the pack says what its tools cost or what follows
// when the budget does not hold a step, and in every run that spends of a lease. There
// nothing is asked for that could pass the budget, and what nobody tells of counts as
// consumed to the full. That of agents is kept in every run with a bound: it leases each of
// them a part, of tool calls too.

// account returns the run's account for changing.
func (t *txn) account() *machine.Account {
	account := machine.Account{Limit: LimitOf(t.g, t.s)}
	if t.s.Account != nil {
		account = *t.s.Account
	}
	t.s.Account = &account
	return &account
}

// refusedBy is the budget, or the operator's account, that does not hold so much beside what was consumed and what
// pending steps but the one at index i may; "" = it fits. What is local is in no account of the
// run: the agent's run is.
func (t *txn) refusedBy(i int, more machine.Amount, local bool) string {
	limit := LimitOf(t.g, t.s)
	if more.ToolCalls > 0 && t.callsLeft(i) < more.ToolCalls {
		return "max_tool_calls"
	}
	tokens, cost := Reserved(t.s, i)
	tokens, cost = AddCapped(AddCapped(t.s.Tokens, tokens), more.Tokens), AddCapped(AddCapped(t.s.CostMicro, cost), more.CostMicro)
	switch {
	case limit.Tokens > 0 && more.Tokens > 0 && tokens > limit.Tokens:
		return "max_tokens"
	case limit.CostMicro > 0 && more.CostMicro > 0 && cost > limit.CostMicro:
		return "max_cost_usd"
	case local:
		return ""
	}
	return t.exhausted(i, more)
}

// boundFor is what a call of the tool may consume: its cost, or the agent's lease. What the
// pack does not say of an agent is its share of what is left: as much as for every other
// step that could be pending with it.
func (t *txn) boundFor(tool *machine.Tool) machine.Amount {
	if !KeepsLedger(t.g, t.s) && !(t.rules.agentsAreLeased && tool.Agent) {
		return machine.Amount{}
	}
	bound := machine.Amount{CostMicro: tool.CostMicro}
	if !tool.Agent {
		return bound
	}
	limit, committed := LimitOf(t.g, t.s), Committed(t.s)
	free := max(1, int64(OrDefault(t.g.MaxPendingSteps, machine.DefaultMaxPendingSteps)-OfTurns(t.s)))
	if bound.CostMicro == 0 && limit.CostMicro > 0 {
		bound.CostMicro = max(1, (limit.CostMicro-committed.CostMicro)/free)
	}
	if left := limit.Tokens - committed.Tokens; limit.Tokens > 0 {
		bound.Tokens = max(1, left/free)
		if t.rules.agentsAreLeased { // one turn, if there is so much
			bound.Tokens = max(bound.Tokens, min(left, OrDefault(tool.TurnTokens, machine.DefaultTurnTokens)))
		}
	}
	if t.rules.agentsAreLeased && CallsOf(t.g, t.s) > 0 {
		bound.ToolCalls = max(1, (t.callsLeft(-1)-1)/free) // one is the delegation itself
	}
	return bound
}

// callsLeft is how many tool calls the run and its agents may still make, beside those that
// agents have leased but for the step at an index; a run without a bound has no end of them.
func (t *txn) callsLeft(but int) int64 {
	limit := CallsOf(t.g, t.s)
	if limit == 0 {
		return math.MaxInt64
	}
	return limit - AddCapped(int64(t.s.ToolCalls), lentBut(t.s, but).ToolCalls)
}

// usageOfBound is a bound as usage.
func usageOfBound(b machine.Amount) machine.Usage {
	return machine.Usage{InputTokens: b.Tokens, CostMicro: b.CostMicro, ToolCalls: int(b.ToolCalls)}
}

// consumed is what an answer to a step settles, and the fault that takes the place of what
// it says: an agent that consumed more than its lease was not held to it, and no more is
// taken from the account than the lease.
func consumed(step *machine.ToolStep, told machine.Usage, metered bool) (machine.Usage, *machine.Fault) {
	lease := step.Bound
	if lease == (machine.Amount{}) {
		return told, nil
	}
	silent := !metered && told.InputTokens|told.OutputTokens|told.CostMicro == 0 && (lease.ToolCalls == 0 || told.ToolCalls == 0)
	if silent {
		told.InputTokens, told.CostMicro = lease.Tokens, lease.CostMicro
		if lease.ToolCalls > 0 {
			told.ToolCalls = int(lease.ToolCalls)
		}
		return told, nil
	}
	tokens, calls := AddCapped(told.InputTokens, told.OutputTokens), int64(told.ToolCalls)
	if !step.Delegation || (lease.Tokens == 0 || tokens <= lease.Tokens) && (lease.CostMicro == 0 || told.CostMicro <= lease.CostMicro) &&
		(lease.ToolCalls == 0 || calls <= lease.ToolCalls) {
		return told, nil
	}
	fault := &machine.Fault{Code: "LEASE_EXCEEDED", Message: fmt.Sprintf(
		"the agent says that it consumed %d tokens and %d micro-dollars, its lease is %d and %d (0: no bound)",
		tokens, told.CostMicro, lease.Tokens, lease.CostMicro)}
	if lease.ToolCalls > 0 {
		fault.Message += fmt.Sprintf("; it made %d tool calls, its lease is %d", calls, lease.ToolCalls)
		told.ToolCalls = int(min(calls, lease.ToolCalls))
	}
	if lease.Tokens > 0 && tokens > lease.Tokens {
		told.InputTokens, told.OutputTokens, told.CachedTokens, told.ReasoningTokens = lease.Tokens, 0, 0, 0
	}
	if lease.CostMicro > 0 {
		told.CostMicro = min(told.CostMicro, lease.CostMicro)
	}
	return told, fault
}

// forgo settles what a step of a tool or an agent may have consumed that is cancelled while
// it is out: nobody will tell any more. What never went out consumed nothing.
func (t *txn) forgo(step *machine.ToolStep) (used machine.Usage) {
	if step.Model != nil {
		t.keepReservation(step)
		return used
	}
	if t.old != nil && !step.HeldForApproval() && (StillOut(t.old.Steps, step) || step.Inquiry != 0) {
		used = usageOfBound(step.Bound)
		t.settleOf(step, used)
	}
	step.Bound = machine.Amount{}
	return used
}

// Closing a run, or a visit, for its budget.

const whyBudget = "budget"

// wrapsUp: a refusal for the reason leads to x_pawl.on_budget. A run that is at its end, or
// wraps up, has no other state to go to.
func (t *txn) wrapsUp(reason string) bool {
	if t.g.OnBudget == "" || reason != "max_tokens" && reason != "max_cost_usd" && !strings.HasPrefix(reason, AccountExhausted) {
		return false
	}
	return t.s.Current != t.g.OnBudget && !t.node().Terminal && (t.s.Account == nil || !t.s.Account.WrappedUp)
}

// refusal is what is recorded of a step that a bound does not hold.
func (t *txn) refusal(status machine.Status, reason string) *machine.Denial {
	bound, name, _ := strings.Cut(reason, ":")
	denial := &machine.Denial{Code: strings.ToUpper(bound), Message: fmt.Sprintf("the run's bound is reached: it ended %s", status)}
	switch bound {
	case AccountExhausted:
		denial.Message = fmt.Sprintf("the account %s does not hold it: the run ended %s", name, status)
	case maxCalls:
		limit := t.g.Tools[name].MaxCalls
		denial.Message = fmt.Sprintf("the tool %s has had its %d calls of the run (x_pawl.tools.%s.max_calls): it ended %s", name, limit, name, status)
	}
	if t.wrapsUp(reason) {
		denial.Message = fmt.Sprintf("the run's budget does not hold it: the run goes to state %q", t.g.OnBudget)
	}
	return denial
}

// closeFor ends the run for a bound that is reached, or enters x_pawl.on_budget, once.
func (t *txn) closeFor(status machine.Status, reason string) {
	if !t.wrapsUp(reason) {
		t.end(ending{status: status, reason: reason})
		return
	}
	t.account().WrappedUp = true
	t.abandonTurn(whyBudget)
	t.resetProgress()
	t.enter(entry{from: t.node(), target: t.g.OnBudget, cause: machine.CauseBudget})
}

// notMade is what the requests are told that come behind the refused one.
func (t *txn) notMade() *machine.Denial {
	if undo := t.s.Undo; undo != nil {
		return &machine.Denial{Code: "RUN_TERMINAL", Message: fmt.Sprintf("the run ends %s (%s)", undo.Status, undo.Reason)}
	}
	if t.s.Status.Terminal() {
		return &machine.Denial{Code: "RUN_TERMINAL", Message: fmt.Sprintf("the run ended %s (%s)", t.s.Status, t.s.Reason)}
	}
	return &machine.Denial{Code: "VISIT_LEFT", Message: fmt.Sprintf("the run went to state %q, since its budget does not hold a step", t.s.Current)}
}

// raiseBudget lets the run spend more. What was refused may be asked for again;
// x_pawl.on_budget is not entered again, so that the run's visits keep their bound.
func (t *txn) raiseBudget(c *machine.RaiseBudget) error {
	if err := First(t.checkOpen(), t.checkRaise(c)); err != nil {
		return err
	}
	account := t.account()
	raised := &machine.BudgetRaised{From: account.Limit, To: account.Limit, Reason: c.Reason}
	raised.To.Tokens, raised.To.CostMicro = max(raised.To.Tokens, c.To.Tokens), max(raised.To.CostMicro, c.To.CostMicro)
	account.Limit, account.BudgetNoticeAdded = raised.To, false
	t.record(raised)
	return nil
}

// checkRaise: each figure that is named is above the limit that holds.
func (t *txn) checkRaise(c *machine.RaiseBudget) error {
	limit := LimitOf(t.g, t.s)
	refuse := func(reason, field, message string, limit, got int64) error {
		return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: reason, Field: field, Message: message, Limit: limit, Got: got}
	}
	if t.s.Account != nil && t.s.Account.Leased {
		return refuse("BUDGET_LEASED", "run_id", "the run spends of the lease of the run that started it: raise that one's budget", 0, 0)
	}
	if c.To == (machine.Amount{}) {
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "NO_BUDGET", Field: "max_cost_micro_usd", Message: "say to what the budget is raised"}
	}
	for _, one := range []struct {
		field     string
		limit, to int64
	}{{"max_tokens", limit.Tokens, c.To.Tokens}, {"max_cost_micro_usd", limit.CostMicro, c.To.CostMicro}} {
		switch {
		case one.to == 0:
		case one.to < 0:
			return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "NEGATIVE_BUDGET", Field: one.field, Message: "must be above the limit that holds", Limit: one.limit, Got: one.to}
		case one.limit == 0:
			return refuse("BUDGET_UNLIMITED", one.field, "the run has no such limit: there is nothing to raise", 0, one.to)
		case one.to <= one.limit:
			return refuse("BUDGET_NOT_RAISED", one.field, fmt.Sprintf("a budget is only raised, and %d is the limit already", one.limit), one.limit, one.to)
		}
	}
	return nil
}
