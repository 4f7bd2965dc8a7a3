package rules

import (
	"fmt"
	"math"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// The ledger of a run. A run has a ledger if its pack declares costs of tools or sets on_budget, or if
// the run consumes a lease.
//
// In a run with a ledger, a step is issued only if its maximum consumption fits in the budget. If the
// consumption is never reported, the maximum is counted. For agents, every run with a bound has a
// ledger: each agent gets a lease of a part of the budget, including tool calls.

// account returns the run's account for modification.
func (t *txn) account() *machine.Account {
	account := machine.Account{Limit: LimitOf(t.g, t.s)}
	if t.s.Account != nil {
		account = *t.s.Account
	}
	t.s.Account = &account
	return &account
}

// refusedBy returns the budget or operator's account that cannot cover `more` in addition to the
// amounts that were consumed and the amounts that pending steps may consume. It returns "" if all can
// cover it. The pending step at index i is not counted. A local delegation is not charged to the run's
// accounts, because the agent's run is charged there.
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

// boundFor returns the maximum that a call of the tool may consume. For a tool this is its cost, for an
// agent its lease. If the pack sets no lease for an agent, the remaining budget is divided equally
// among the steps that could be pending at the same time.
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
		if t.rules.agentsAreLeased { // the lease covers one turn, if the budget has that much
			bound.Tokens = max(bound.Tokens, min(left, OrDefault(tool.TurnTokens, machine.DefaultTurnTokens)))
		}
	}
	if t.rules.agentsAreLeased && CallsOf(t.g, t.s) > 0 {
		bound.ToolCalls = max(1, (t.callsLeft(-1)-1)/free) // the delegation itself is one call
	}
	return bound
}

// callsLeft returns how many more tool calls the run and its agents may make. Calls that are leased to
// agents are subtracted, except the lease of the step at the index `but`. For a run without a bound it
// returns the largest int64.
func (t *txn) callsLeft(but int) int64 {
	limit := CallsOf(t.g, t.s)
	if limit == 0 {
		return math.MaxInt64
	}
	return limit - AddCapped(int64(t.s.ToolCalls), lentBut(t.s, but).ToolCalls)
}

// usageOfBound returns a bound as usage.
func usageOfBound(b machine.Amount) machine.Usage {
	return machine.Usage{InputTokens: b.Tokens, CostMicro: b.CostMicro, ToolCalls: int(b.ToolCalls)}
}

// consumed returns the usage that an answer to a step adds to the run. If an agent consumed more than
// its lease, consumed also returns an error that replaces the answer. In that case at most the lease is
// charged.
func consumed(step *machine.ToolStep, used machine.Usage, metered bool) (machine.Usage, *machine.Fault) {
	lease := step.Bound
	if lease == (machine.Amount{}) {
		return used, nil
	}
	silent := !metered && used.InputTokens|used.OutputTokens|used.CostMicro == 0 && (lease.ToolCalls == 0 || used.ToolCalls == 0)
	if silent {
		used.InputTokens, used.CostMicro = lease.Tokens, lease.CostMicro
		if lease.ToolCalls > 0 {
			used.ToolCalls = int(lease.ToolCalls)
		}
		return used, nil
	}
	tokens, calls := AddCapped(used.InputTokens, used.OutputTokens), int64(used.ToolCalls)
	if !step.Delegation || (lease.Tokens == 0 || tokens <= lease.Tokens) && (lease.CostMicro == 0 || used.CostMicro <= lease.CostMicro) &&
		(lease.ToolCalls == 0 || calls <= lease.ToolCalls) {
		return used, nil
	}
	fault := &machine.Fault{Code: "LEASE_EXCEEDED", Message: fmt.Sprintf(
		"the agent says that it consumed %d tokens and %d micro-dollars, its lease is %d and %d (0: no bound)",
		tokens, used.CostMicro, lease.Tokens, lease.CostMicro)}
	if lease.ToolCalls > 0 {
		fault.Message += fmt.Sprintf("; it made %d tool calls, its lease is %d", calls, lease.ToolCalls)
		used.ToolCalls = int(min(calls, lease.ToolCalls))
	}
	if lease.Tokens > 0 && tokens > lease.Tokens {
		used.InputTokens, used.OutputTokens, used.CachedTokens, used.ReasoningTokens = lease.Tokens, 0, 0, 0
	}
	if lease.CostMicro > 0 {
		used.CostMicro = min(used.CostMicro, lease.CostMicro)
	}
	return used, fault
}

// forgo charges the maximum consumption of a tool or agent step that is cancelled after it was sent, because its real consumption will
// never be reported. A step that was never sent consumed nothing.
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

// whyBudget is the reason that is recorded when a turn or a visit is closed because of the budget.

const whyBudget = "budget"

// wrapsUp reports whether a refusal for this reason leads to the state x_pawl.on_budget. The result is
// false if the run is in a terminal state, or if it has already entered on_budget for this reason.
func (t *txn) wrapsUp(reason string) bool {
	if t.g.OnBudget == "" || reason != "max_tokens" && reason != "max_cost_usd" && !strings.HasPrefix(reason, AccountExhausted) {
		return false
	}
	return t.s.Current != t.g.OnBudget && !t.node().Terminal && (t.s.Account == nil || !t.s.Account.WrappedUp)
}

// refusal returns the denial that is recorded for a step that exceeds a bound.
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

// closeFor ends the run because of a bound. If the pack sets x_pawl.on_budget, closeFor enters that
// state instead, at most once.
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

// notMade returns the denial for the requests that were not made because an earlier request of the same
// input was refused.
func (t *txn) notMade() *machine.Denial {
	if undo := t.s.Undo; undo != nil {
		return &machine.Denial{Code: "RUN_TERMINAL", Message: fmt.Sprintf("the run ends %s (%s)", undo.Status, undo.Reason)}
	}
	if t.s.Status.Terminal() {
		return &machine.Denial{Code: "RUN_TERMINAL", Message: fmt.Sprintf("the run ended %s (%s)", t.s.Status, t.s.Reason)}
	}
	return &machine.Denial{Code: "VISIT_LEFT", Message: fmt.Sprintf("the run went to state %q, since its budget does not hold a step", t.s.Current)}
}

// raiseBudget raises the run's budget. Refused steps may be requested again. The state x_pawl.on_budget
// is not entered a second time, so that the number of the run's visits stays bounded.
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

// checkRaise requires that each given figure is above the current limit.
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
