package rules

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// The bound of a model call without reported usage stays reserved in the ledger, because the usage may
// be reported later. A later report replaces the reserved bound.

// keepReservation keeps the reservation of a call that ends without reported usage.
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

// bounded reports whether the run has a budget of tokens or cost.
func (t *txn) bounded() bool { return LimitOf(t.g, t.s) != (machine.Amount{}) }

// keepsReservations reports whether the bound of a model call stays reserved until the usage of the
// call is reported.
func (t *txn) keepsReservations() bool {
	return KeepsLedger(t.g, t.s) || t.rules.silenceCosts && t.bounded()
}

// boundOfCall returns the maximum that a model call may consume.
func boundOfCall(step *machine.ToolStep) machine.UnreportedUsage {
	return machine.UnreportedUsage{Step: step.Step, Attempt: step.Attempt, Bound: BoundOf(step), Output: step.Model.Output}
}

// usageOfCall returns the bound of a call as a usage. It is used for calls without reported usage.
func (t *txn) usageOfCall(o machine.UnreportedUsage) machine.Usage {
	used := usageOfBound(o.Bound)
	if t.rules.silenceCosts {
		used.InputTokens, used.OutputTokens, used.Estimated = used.InputTokens-o.Output, o.Output, true
	}
	return used
}

// reported returns the complete usage of an answer. If the answer does not contain a figure, the figure
// of the bound is used, because an answer with text has consumed output tokens, and every answer has
// consumed input tokens. If the executor marks the usage as incomplete ([machine.Usage.Estimated]), the
// output is at least the output of the bound.
func (t *txn) reported(c *machine.AnswerModel, bound machine.UnreportedUsage) machine.Usage {
	u := c.Usage
	noRead := u.InputTokens == 0 && (c.Answer != nil || u.Estimated)
	noWrite := u.Estimated || u.OutputTokens == 0 && c.Answer != nil && (AnswerBytes(c.Answer) > 0 || len(c.Answer.Calls) > 0)
	if !t.rules.silenceCosts || u.CountedBefore || !noRead && !noWrite || !t.bounded() && bound.Bound == (machine.Amount{}) {
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

// releasableStep returns the index of the step whose reservation is released when the step is requested
// again. It returns -1 for a pending call whose execution has ended. The usage of that call is unknown,
// so its bound stays reserved.
func (t *txn) releasableStep(i int) int {
	if i >= 0 && t.s.Steps[i].Status == machine.StepStatusPending && t.keepsReservations() {
		return -1
	}
	return i
}

// settleAtBound counts the bound of a call as its usage, because the usage is not known.
func (t *txn) settleAtBound(o machine.UnreportedUsage) {
	used := t.usageOfCall(o)
	t.record(&machine.ModelUpdated{Step: o.Step, Attempt: o.Attempt, Usage: used})
	t.settle(used)
}

// releaseReservation releases the bound of a call whose usage was reported. had reports whether such a
// bound was reserved. releaseReservation also clears the bound of a pending round that waits to be
// requested again.
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

// settleOlder handles an answer to an attempt that is older than the pending attempt. The usage of the
// pending attempt is unknown and stays reserved.
func (t *txn) settleOlder(i, attempt int) {
	if step := &t.s.Steps[i]; attempt != step.Attempt {
		t.keepReservation(step)
		t.releaseReservation(step.Step, attempt)
	}
}

// closeAccount releases the reservations of a run that ends. If the run has a lease, the reservations
// are counted as consumed instead, because the run that gave the lease receives the usage now and gets
// no correction later.
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

// closedLease reports whether the run's usage was already reported to the run that gave the lease. The
// usage is reported only once.
func closedLease(s *machine.State) bool {
	return s.Status.Terminal() && s.Account != nil && s.Account.Leased
}

// noticeAt is the used share of a budget, in percent, at which models receive a notice that the budget
// is nearly used up.
const noticeAt = 80

// addBudgetNotice adds a notice to the next request to a model when a budget is nearly used up. It adds
// one notice for each limit.
func (t *txn) addBudgetNotice() {
	if !KeepsLedger(t.g, t.s) || t.s.Account != nil && t.s.Account.BudgetNoticeAdded {
		return
	}
	limit, gone := LimitOf(t.g, t.s), Committed(t.s)
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
	t.notice(machine.NoticeAdded{Code: "BUDGET_LOW", Text: text + " Bring the work to an end with what is left."}, false)
}

// budgetLow reports whether the used share of a limit has reached noticeAt. A limit of 0 means that
// there is no limit.
func budgetLow(gone, limit int64) bool {
	return limit > 0 && gone >= limit-limit/100*(100-noticeAt)-limit%100*(100-noticeAt)/100
}

func dollars(micro int64) string { return fmt.Sprintf("%d.%06d", micro/1_000_000, micro%1_000_000) }
