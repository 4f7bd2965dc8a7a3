package rules

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Calls of models of which nobody knows what they consumed stay reserved where a ledger is
// kept: whoever made them may tell it yet. What is told takes the place of the bound.

// keepReservation keeps the bound of a call that ends without anybody's word.
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

// bounded: a budget of tokens or cost holds the run.
func (t *txn) bounded() bool { return LimitOf(t.g, t.s) != (machine.Amount{}) }

// keepsReservations: what calls of models may have consumed stays reserved until somebody tells.
func (t *txn) keepsReservations() bool {
	return KeepsLedger(t.g, t.s) || t.rules.silenceCosts && t.bounded()
}

// boundOfCall is what a call of a model may consume.
func boundOfCall(step *machine.ToolStep) machine.UnreportedUsage {
	return machine.UnreportedUsage{Step: step.Step, Attempt: step.Attempt, Bound: BoundOf(step), Output: step.Model.Output}
}

// usageOfCall is the bound of a call as usage, where nobody says what it consumed.
func (t *txn) usageOfCall(o machine.UnreportedUsage) machine.Usage {
	used := usageOfBound(o.Bound)
	if t.rules.silenceCosts {
		used.InputTokens, used.OutputTokens, used.Estimated = used.InputTokens-o.Output, o.Output, true
	}
	return used
}

// reported is what an answer says that its call consumed. What it does not say is that of
// the bound: nothing that was said was written for nothing, and nothing is read for nothing.
// Where the executor says that it did not hear all of it ([machine.Usage.Estimated]), no less
// than the bound was written.
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
		all.InputTokens, all.OutputTokens = 1, 1 // the bound does not say any
	}
	if noRead {
		u.InputTokens = all.InputTokens
	}
	if noWrite && all.OutputTokens == 0 { // the bound does not say which are which
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

// releasableStep is the step whose bound is free once it is asked for again: of a call under way,
// in an execution that is over, nobody knows what it consumes.
func (t *txn) releasableStep(i int) int {
	if i >= 0 && t.s.Steps[i].Status == machine.StepStatusPending && t.keepsReservations() {
		return -1
	}
	return i
}

// settleAtBound takes the bound of a call for what it consumed.
func (t *txn) settleAtBound(o machine.UnreportedUsage) {
	used := t.usageOfCall(o)
	t.record(&machine.ModelUpdated{Step: o.Step, Attempt: o.Attempt, Usage: used})
	t.settle(used)
}

// releaseReservation gives back the bound of a call that somebody tells of, and says whether there was
// one. A round that waits to be asked for again has none any more.
func (t *txn) releaseReservation(step uint32, attempt int) (owed machine.UnreportedUsage, had bool) {
	if !t.keepsReservations() {
		return owed, false
	}
	if i := FindStep(t.s.Steps, step); i >= 0 && t.s.Steps[i].Status == machine.StepStatusPending && t.s.Steps[i].Attempt == attempt {
		owed = boundOfCall(&t.s.Steps[i])
		m := t.model(i)
		m.Tokens, m.CostMicro, m.Output = 0, 0, 0
		return owed, owed.Bound != (machine.Amount{})
	}
	if t.s.Account == nil {
		return owed, false
	}
	i := slices.IndexFunc(t.s.Account.Unreported, func(o machine.UnreportedUsage) bool { return o.Step == step && o.Attempt == attempt })
	if i < 0 {
		return owed, false
	}
	account := t.account()
	owed = account.Unreported[i]
	account.Unreported = slices.Delete(slices.Clone(account.Unreported), i, i+1)
	if len(account.Unreported) == 0 {
		account.Unreported = nil
	}
	return owed, true
}

// settleOlder: the answer is that of an attempt before the one that is under way, of which
// nobody knows now what it consumes.
func (t *txn) settleOlder(i, attempt int) {
	if step := &t.s.Steps[i]; attempt != step.Attempt {
		t.keepReservation(step)
		t.releaseReservation(step.Step, attempt)
	}
}

// closeAccount gives back what is reserved of a run that ends. Of a lease it is taken for
// consumed instead: the account is another run's, which hears what was consumed now, and
// nothing later.
func (t *txn) closeAccount() {
	if t.s.Account == nil || len(t.s.Account.Unreported) == 0 {
		return
	}
	account := t.account()
	owed := account.Unreported
	account.Unreported = nil
	if !account.Leased {
		return
	}
	for _, o := range owed {
		t.settleAtBound(o)
	}
}

// closedLease: what the run consumed was told to whoever lent it, once for ever.
func closedLease(s *machine.State) bool {
	return s.Status.Terminal() && s.Account != nil && s.Account.Leased
}

// noticeAt is the share of a budget, in percent, at which models are told.
const noticeAt = 80

// addBudgetNotice lets the next request to a model say that little is left, once for each limit.
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

// budgetLow: so much of a limit is gone that models are told; 0 is no limit.
func budgetLow(gone, limit int64) bool {
	return limit > 0 && gone >= limit-limit/100*(100-noticeAt)-limit%100*(100-noticeAt)/100
}

func dollars(micro int64) string { return fmt.Sprintf("%d.%06d", micro/1_000_000, micro%1_000_000) }
