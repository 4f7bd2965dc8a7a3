package rules

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// The ledger of a run checks the budget before each step. A run has a ledger if its pack declares costs of tools or
// sets on_budget, or if the run consumes a lease (a part of another run's budget).
//
// In a run with a ledger, a step is issued only if its maximum consumption fits in the budget. If the consumption is
// never reported, the maximum is counted. For agents, every run with a bound has a ledger: each agent gets a lease of a
// part of the budget, including tool calls.

// account returns a copy of the run's account in the new state, so that the caller may change it.
func (t *txn) account() *machine.Account {
	account := machine.Account{Limit: LimitOf(t.g, t.s)}
	if t.s.Account != nil {
		account = *t.s.Account
	}
	t.s.Account = &account
	return &account
}

// refusedBy returns the name of the budget or operator's account that cannot cover `more` in addition to what the run
// has consumed and reserved. It returns "" if all can cover it. The pending step at index i is left out. If local is
// true, the operator's accounts are not checked, because they count the agent's run itself.
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

// boundFor returns the maximum that a call of the tool may consume: the declared cost of a tool, or the lease of an
// agent. Without a ledger it is zero, except for an agent. If the pack sets no lease for an agent, the remaining
// budget is divided equally among the steps that could be pending at the same time.
func (t *txn) boundFor(tool *machine.Tool) machine.Amount {
	if !KeepsLedger(t.g, t.s) && !(t.rules.agentsAreLeased && tool.Agent) {
		return machine.Amount{}
	}
	bound := machine.Amount{CostMicro: tool.CostMicro}
	if !tool.Agent {
		return bound
	}
	limit, committed := LimitOf(t.g, t.s), CommittedAmount(t.s)
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

// callsLeft returns how many more tool calls the run may make. Calls that are leased to agents count as made, except
// those of the step at the index `but`. For a run without a bound it returns the largest int64.
func (t *txn) callsLeft(but int) int64 {
	limit := CallsOf(t.g, t.s)
	if limit == 0 {
		return math.MaxInt64
	}
	return limit - AddCapped(int64(t.s.ToolCalls), lentBut(t.s, but).ToolCalls)
}

// usageOfBound returns a usage that equals the given maximum. It is counted if the real usage is not known.
func usageOfBound(b machine.Amount) machine.Usage {
	return machine.Usage{InputTokens: b.Tokens, CostMicro: b.CostMicro, ToolCalls: int(b.ToolCalls)}
}

// answerUsage returns the usage that an answer to a step adds to the run. If the answer reports no usage, this is the
// reserved maximum. If an agent consumed more than its lease, answerUsage also returns an error that replaces the answer,
// and at most the lease is charged.
func answerUsage(step *machine.ToolStep, used machine.Usage, metered bool) (machine.Usage, *machine.Fault) {
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

// chargeMaximum charges the maximum consumption of a tool or agent step that is cancelled after it was sent, because its real
// consumption will never be reported. A step that was never sent consumed nothing. A model call is not charged: its
// reservation is kept, because its usage may still be reported.
func (t *txn) chargeMaximum(step *machine.ToolStep) (used machine.Usage) {
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

// whyBudget is the recorded reason of a turn that was closed because the run entered the state on_budget.
const whyBudget = "budget"

// wrapsUp reports whether a step that is refused for this reason makes the run enter the state x_pawl.on_budget. This
// happens once, and not from a terminal state.
func (t *txn) wrapsUp(reason string) bool {
	if t.g.OnBudget == "" || reason != "max_tokens" && reason != "max_cost_usd" && !strings.HasPrefix(reason, AccountExhausted) {
		return false
	}
	return t.s.Current != t.g.OnBudget && !t.node().Terminal && (t.s.Account == nil || !t.s.Account.WrappedUp)
}

// refusal returns the denial that is recorded for a requested step that exceeds a bound.
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

// closeFor ends the run because a requested step exceeds a bound. If the bound is one of tokens, cost or an account, and
// the pack sets x_pawl.on_budget, the run enters that state instead, at most once (see wrapsUp).
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

// notMade returns the denial for the requests that were not issued because an earlier request of the same input
// exceeded a bound.
func (t *txn) notMade() *machine.Denial {
	if undo := t.s.Undo; undo != nil {
		return &machine.Denial{Code: "RUN_TERMINAL", Message: fmt.Sprintf("the run ends %s (%s)", undo.Status, undo.Reason)}
	}
	if t.s.Status.Terminal() {
		return &machine.Denial{Code: "RUN_TERMINAL", Message: fmt.Sprintf("the run ended %s (%s)", t.s.Status, t.s.Reason)}
	}
	return &machine.Denial{Code: "VISIT_LEFT", Message: fmt.Sprintf("the run went to state %q, since its budget does not hold a step", t.s.Current)}
}

// raiseBudget raises the limits of the run. Steps that were refused may then be requested again. The state
// x_pawl.on_budget is not entered a second time, so that the number of visits stays bounded.
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

// checkRaise returns an error if the budget of the run cannot be raised: the run consumes a
// lease, no new limit is given, or a new limit is not above the current limit.
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
		case one.to == 0: // this limit stays
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

// The maximum of a model call without reported usage stays reserved, because the usage may be reported later. A later
// report replaces the reserved amount.

// keepReservation keeps the reservation of a model call that ends without reported usage. If there are too many of them,
// the oldest one is counted as consumed.
func (t *txn) keepReservation(step *machine.ToolStep) {
	if step.Model == nil || !t.keepsReservations() || BoundOf(step) == (machine.Amount{}) {
		return
	}
	account := t.account()
	account.Unreported = append(slices.Clip(account.Unreported), boundOfCall(step))
	if len(account.Unreported) > machine.MaxUnreportedUsage {
		oldest := account.Unreported[0]
		account.Unreported = slices.Clone(account.Unreported[1:])
		t.settleAtBound(oldest)
	}
}

// hasBudget reports whether the run has a budget of tokens or cost.
func (t *txn) hasBudget() bool { return LimitOf(t.g, t.s) != (machine.Amount{}) }

// keepsReservations reports whether the bound of a model call stays reserved until the usage of the
// call is reported.
func (t *txn) keepsReservations() bool {
	return KeepsLedger(t.g, t.s) || t.rules.silenceCosts && t.hasBudget()
}

// boundOfCall returns the maximum that the current attempt of a model call may consume.
func boundOfCall(step *machine.ToolStep) machine.UnreportedUsage {
	return machine.UnreportedUsage{Step: step.Step, Attempt: step.Attempt, Bound: BoundOf(step), Output: step.Model.Output}
}

// usageOfCall returns the reserved maximum of a model call as usage. It is counted if the call never reports its usage.
func (t *txn) usageOfCall(o machine.UnreportedUsage) machine.Usage {
	used := usageOfBound(o.Bound)
	if t.rules.silenceCosts {
		used.InputTokens, used.OutputTokens, used.Estimated = used.InputTokens-o.Output, o.Output, true
	}
	return used
}

// reported returns the usage of a model's answer, with each missing number replaced by the number of the reserved
// maximum. Every answer has consumed input tokens, and an answer with content has consumed output tokens. If the
// executor marks the usage as incomplete ([machine.Usage.Estimated]), the output is at least that of the reserved
// maximum.
func (t *txn) reported(c *machine.AnswerModel, bound machine.UnreportedUsage) machine.Usage {
	u := c.Usage
	noRead := u.InputTokens == 0 && (c.Answer != nil || u.Estimated)
	noWrite := u.Estimated || u.OutputTokens == 0 && c.Answer != nil && (AnswerBytes(c.Answer) > 0 || len(c.Answer.Calls) > 0)
	if !t.rules.silenceCosts || u.CountedBefore || !noRead && !noWrite || !t.hasBudget() && bound.Bound == (machine.Amount{}) {
		return u
	}
	all := t.usageOfCall(bound)
	u.Estimated = true
	if u.CostMicro == 0 {
		u.CostMicro = all.CostMicro
	}
	if bound.Bound.Tokens == 0 {
		all.InputTokens, all.OutputTokens = 1, 1 // the bound has no tokens
	}
	if noRead {
		u.InputTokens = all.InputTokens
	}
	if noWrite && all.OutputTokens == 0 { // the bound does not separate input and output
		all.OutputTokens = max(0, bound.Bound.Tokens-u.InputTokens)
	}
	if noWrite {
		u.OutputTokens = max(all.OutputTokens, u.OutputTokens)
	}
	if i := FindStep(t.s.Steps, c.Step); u.Model == "" && i >= 0 {
		u.Model = t.s.Steps[i].Tool
	}
	return u
}

// releasableStep returns the index of the step whose reservation a repeated request replaces. It returns -1 for a
// pending call of an earlier execution: the usage of that call is unknown, so its maximum stays reserved.
func (t *txn) releasableStep(i int) int {
	if i >= 0 && t.s.Steps[i].Status == machine.StepStatusPending && t.keepsReservations() {
		return -1
	}
	return i
}

// settleAtBound counts the reserved maximum of a model call as its usage, because its usage is not known.
func (t *txn) settleAtBound(o machine.UnreportedUsage) {
	used := t.usageOfCall(o)
	t.record(&machine.ModelUpdated{Step: o.Step, Attempt: o.Attempt, Usage: used})
	t.settleModel(o.Step, used)
}

// releaseReservation removes the reservation of a model call whose usage is now reported. had reports whether there was
// one. The reservation can belong to an earlier attempt, or to a call that waits for its next attempt.
func (t *txn) releaseReservation(step uint32, attempt int) (unreported machine.UnreportedUsage, had bool) {
	if !t.keepsReservations() {
		return unreported, false
	}
	if i := FindStep(t.s.Steps, step); i >= 0 && t.s.Steps[i].Status == machine.StepStatusPending && t.s.Steps[i].Attempt == attempt {
		unreported = boundOfCall(&t.s.Steps[i])
		m := t.model(i)
		m.Tokens, m.CostMicro, m.Output = 0, 0, 0
		return unreported, unreported.Bound != (machine.Amount{})
	}
	if t.s.Account == nil {
		return unreported, false
	}
	i := slices.IndexFunc(t.s.Account.Unreported, func(o machine.UnreportedUsage) bool { return o.Step == step && o.Attempt == attempt })
	if i < 0 {
		return unreported, false
	}
	account := t.account()
	unreported = account.Unreported[i]
	account.Unreported = slices.Delete(slices.Clone(account.Unreported), i, i+1)
	if len(account.Unreported) == 0 {
		account.Unreported = nil
	}
	return unreported, true
}

// settleOlder handles an answer to an attempt of a model call that is older than the pending attempt. The usage of the
// pending attempt is unknown and stays reserved.
func (t *txn) settleOlder(i, attempt int) {
	if step := &t.s.Steps[i]; attempt != step.Attempt {
		t.keepReservation(step)
		t.releaseReservation(step.Step, attempt)
	}
}

// closeAccount ends the reservations of a run that ends. If the run has a lease (a part of another run's budget), the
// reserved amounts are counted as consumed, because the run that gave the lease gets the usage now and no correction
// later.
func (t *txn) closeAccount() {
	if t.s.Account == nil || len(t.s.Account.Unreported) == 0 {
		return
	}
	account := t.account()
	unreported := account.Unreported
	account.Unreported = nil
	if !account.Leased {
		return
	}
	for _, o := range unreported {
		t.settleAtBound(o)
	}
}

// closedLease reports whether the run has ended and consumed a lease. If so, its usage was already reported to the run
// that gave the lease, and a later report must not change it.
func closedLease(s *machine.State) bool {
	return s.Status.Terminal() && s.Account != nil && s.Account.Leased
}

// noticeAt is the used share of a budget, in percent, at which the model gets a notice that the budget is nearly used
// up.
const noticeAt = 80

// addBudgetNotice adds a notice to the next model request when a budget of tokens or cost is nearly used up. It adds only
// one notice until the budget is raised, and none in a run without a ledger.
func (t *txn) addBudgetNotice() {
	if !KeepsLedger(t.g, t.s) || t.s.Account != nil && t.s.Account.BudgetNoticeAdded {
		return
	}
	limit, gone := LimitOf(t.g, t.s), CommittedAmount(t.s)
	var text string
	switch {
	case budgetLow(gone.CostMicro, limit.CostMicro):
		text = fmt.Sprintf("Of this run's budget of $%s, $%s is spent or reserved.", dollars(limit.CostMicro), dollars(gone.CostMicro))
	case budgetLow(gone.Tokens, limit.Tokens):
		text = fmt.Sprintf("Of this run's budget of %d tokens, %d are used or reserved.", limit.Tokens, gone.Tokens)
	default:
		return
	}
	t.account().BudgetNoticeAdded = true
	t.addNotice(machine.NoticeAdded{Code: "BUDGET_LOW", Text: text + " Bring the work to an end with what is left."}, false)
}

// budgetLow reports whether the used share of a limit has reached noticeAt percent. A limit of 0 means that there is no
// limit.
func budgetLow(gone, limit int64) bool {
	return limit > 0 && gone >= limit-limit/100*(100-noticeAt)-limit%100*(100-noticeAt)/100
}

func dollars(micro int64) string { return fmt.Sprintf("%d.%06d", micro/1_000_000, micro%1_000_000) }
