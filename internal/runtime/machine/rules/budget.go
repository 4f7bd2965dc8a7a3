package rules

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Budgets of a run (semantics §6). A limit of zero means that there is no limit.
//
// The consumption of an input is added before anything else is decided. If it brings the run over a budget, the run
// ends as BUDGET_EXHAUSTED, even if the input enters a terminal state or reports a final failure. The exceptions are
// Cancel and the bounds on entering a state, which have their own end status. The data of the input (output, answers,
// artifacts) is recorded in every case.

// overdue reports whether the wall time is used up, even if its timer has not fired yet.
func (t *txn) overdue() bool { return t.s.Deadline != 0 && t.input.At >= t.s.Deadline }

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

// settle adds a usage of a turn to the consumption of the run. The caller has already computed the cost in u, see price.
func (t *txn) settle(u machine.Usage) {
	t.count(u)
	t.roll(u, machine.Settled{Model: u.Model})
}

// settleModel adds the usage of a model call to the consumption of the run. If the usage names no model, it belongs to
// the model that was requested.
func (t *txn) settleModel(step uint32, u machine.Usage) {
	t.count(u)
	as := machine.Settled{Model: u.Model}
	if i := FindStep(t.s.Steps, step); i >= 0 && as.Model == "" {
		as.Model = t.s.Steps[i].Tool
	}
	t.roll(u, as)
}

// roll adds a usage to the batch, for the rollups of the store.
func (t *txn) roll(u machine.Usage, as machine.Settled) {
	if u.InputTokens|u.OutputTokens|u.CostMicro == 0 {
		return
	}
	as.State = t.s.Current
	as.UsageSum = machine.UsageSum{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CostMicro: u.CostMicro, Reports: 1}
	t.settled = append(t.settled, as)
}

// count adds a usage to the counters of the run.
func (t *txn) count(u machine.Usage) {
	t.s.Tokens = AddCapped(t.s.Tokens, AddCapped(u.InputTokens, u.OutputTokens))
	t.s.CostMicro = AddCapped(t.s.CostMicro, u.CostMicro)
	if u.Estimated {
		t.s.EstimatedTokens = AddCapped(t.s.EstimatedTokens, AddCapped(u.InputTokens, u.OutputTokens))
	}
	t.s.ToolCalls = int(AddCapped(int64(t.s.ToolCalls), int64(u.ToolCalls)))
}

// wallClock stops the wall-time clock of the run if waiting is true, and starts it again if waiting is false. Without
// the option wall_time_excludes_waiting it does nothing, so that the deadline stays the same.
func (t *txn) wallClock(waiting bool) {
	s := t.s
	if !t.g.WallExcludesWaiting {
		return
	}
	switch {
	case waiting && s.Deadline != 0:
		s.WallLeft, s.Deadline = s.Deadline-t.input.At, 0
	case !waiting && s.WallLeft != 0:
		s.Deadline, s.WallLeft = AddCapped(t.input.At, s.WallLeft), 0
	}
}

// LimitOf returns how many tokens and how much cost a run may consume in total. 0 means that there is no limit.
// [CallsOf] returns the limit of tool calls.
func LimitOf(g *machine.Graph, s *machine.State) machine.Amount {
	if s.Account != nil {
		return machine.Amount{Tokens: s.Account.Limit.Tokens, CostMicro: s.Account.Limit.CostMicro}
	}
	return machine.Amount{Tokens: g.Budget.MaxTokens, CostMicro: g.Budget.MaxCostMicroUSD}
}

// CallsOf returns the number of tool calls that a run and its agents may make in total. It is the lower one of the
// limit of the pack and the limit of the run's lease. 0 means that there is no limit.
func CallsOf(g *machine.Graph, s *machine.State) int64 {
	limit := int64(g.Budget.MaxToolCalls)
	if s.Account != nil && s.Account.Limit.ToolCalls > 0 && (limit == 0 || s.Account.Limit.ToolCalls < limit) {
		return s.Account.Limit.ToolCalls
	}
	return limit
}

// RemainingAt returns what is left of each budget at the time `at`, in Unix nanoseconds. No result is below 0. A budget
// without a limit is nil.
func RemainingAt(g *machine.Graph, s *machine.State, at int64) machine.Remaining {
	left := func(limit, used int64) *int64 {
		if limit == 0 {
			return nil
		}
		n := max(0, limit-used)
		return &n
	}
	b, limit := &g.Budget, LimitOf(g, s)
	r := machine.Remaining{
		Visits:    left(int64(b.MaxTotalVisits), int64(s.TotalVisits)),
		ToolCalls: left(CallsOf(g, s), int64(s.ToolCalls)),
		Steps:     left(int64(s.MaxSteps), ToolSteps(s)),
		Tokens:    left(limit.Tokens, s.Tokens), CostMicro: left(limit.CostMicro, s.CostMicro),
	}
	switch {
	case s.WallLeft != 0:
		wall := time.Duration(s.WallLeft)
		r.WallTime = &wall
	case s.Deadline != 0:
		wall := max(0, time.Duration(s.Deadline-at))
		r.WallTime = &wall
	}
	return r
}

// EffectiveBudget returns the budget that applies to a run. It is the budget of the pack, which the run's start or a
// lease can lower and RaiseBudget can raise. asked is the wall time that was requested at the start; 0 means none.
func EffectiveBudget(g *machine.Graph, s *machine.State, asked time.Duration) machine.Budget {
	b := g.Budget
	limit := LimitOf(g, s)
	b.MaxTokens, b.MaxCostMicroUSD, b.MaxToolCalls = limit.Tokens, limit.CostMicro, int(CallsOf(g, s))
	b.MaxSteps, b.MaxWallTime = s.MaxSteps, smallerBound(b.MaxWallTime, asked)
	return b
}

// The operator's accounts are budgets over many runs. The engine adds to each input the accounts in which it is
// counted, and whether these accounts can cover it. The amount of a run in an account is computed from the run's state
// before and after the input.

// AccountExhausted is the first part of the reason of a run that ended because an account could not cover a request. A
// colon and the name of the account follow.
const AccountExhausted = "account_exhausted"

// ReservedInAccounts returns the amounts that pending steps, and model calls without reported usage, may still consume, as
// the operator's accounts count them.
// Steps of agents in this store are not counted, because the agents' runs reserve their own amounts.
func ReservedInAccounts(s *machine.State) (tokens, cost int64) { return reservedInAccountsBut(s, -1) }

// reservedInAccountsBut is ReservedInAccounts without the step at the index `but`.
func reservedInAccountsBut(s *machine.State, but int) (tokens, cost int64) {
	if s == nil {
		return 0, 0
	}
	return reservedAmounts(s, func(i int) bool { return i == but || s.Steps[i].Local })
}

// SettledInAccounts returns the amounts that the run has consumed, as the operator's accounts count them. The
// consumption of runs of agents in this store is not included.
func SettledInAccounts(s *machine.State) (tokens, cost int64) {
	if s == nil {
		return 0, 0
	}
	return max(0, s.Tokens-s.Apart.Tokens), max(0, s.CostMicro-s.Apart.CostMicro)
}

// settleOf adds the consumption of a step to the run. If the agent of the step is in this store, the consumption is
// also added to State.Apart, because the agent's own run counts it in the operator's accounts.
func (t *txn) settleOf(step *machine.ToolStep, u machine.Usage) {
	t.count(u)
	if !step.Local {
		t.roll(u, machine.Settled{Model: u.Model, Tool: step.Tool, Agent: step.Delegation})
		return
	}
	t.s.Apart.Tokens = AddCapped(t.s.Apart.Tokens, AddCapped(u.InputTokens, u.OutputTokens))
	t.s.Apart.CostMicro = AddCapped(t.s.Apart.CostMicro, u.CostMicro)
}

// countsItself reports whether the operator's accounts count the run of the called agent separately. If they do not
// count this run, they do not count the agent's run either: the step that started this run counts the consumption of
// both.
func (t *txn) countsItself(a *requestedStep) bool {
	_, counted := t.s.AccountLabels()
	return t.rules.agentsCount && counted && a.Local && t.g.Tools[a.Tool].Agent
}

// ChargeOf returns the charge of a run in an account. If there is none, it returns a charge that has only the name of
// the account.
func ChargeOf(s *machine.State, account string) machine.Charge {
	if s != nil {
		for _, c := range s.Charges {
			if c.Account == account {
				return c
			}
		}
	}
	return machine.Charge{Account: account}
}

// UpdatedCharge returns the charge of a run in an account after an input, which is counted in the given window of the
// account. before and after are the states before and after the input. An amount that was reserved in an earlier window
// is counted as consumed in the window of its answer.
func UpdatedCharge(c machine.Charge, window int64, before, after *machine.State) machine.Charge {
	if window > c.Window {
		c.Window, c.Tokens, c.CostMicro = window, 0, 0
	}
	had, hadCost := SettledInAccounts(before)
	has, hasCost := SettledInAccounts(after)
	c.Tokens, c.CostMicro = atMost(AddCapped(c.Tokens, max(0, has-had))), atMost(AddCapped(c.CostMicro, max(0, hasCost-hadCost)))
	tokens, cost := ReservedInAccounts(after)
	c.HeldTokens, c.HeldCostMicro = atMost(tokens), atMost(cost)
	return c
}

func atMost(n int64) int64 { return min(n, machine.MaxCharge) }

// applyCharges updates the charges of the run in its accounts after the input.
func (t *txn) applyCharges(b *machine.Batch) {
	for _, bill := range t.input.Billed {
		before := ChargeOf(t.s, bill.Account)
		after := UpdatedCharge(before, bill.Window, t.old, t.s)
		if before == after {
			continue
		}
		b.Charged = append(b.Charged, machine.ChargeChange{Before: before, After: after})
		t.s.Charges = slices.Clone(t.s.Charges)
		i := slices.IndexFunc(t.s.Charges, func(c machine.Charge) bool { return c.Account == bill.Account })
		if i < 0 {
			t.s.Charges = append(t.s.Charges, after)
			continue
		}
		t.s.Charges[i] = after
	}
}

// exhausted returns the reason that names the first account that cannot cover `asked` together with what this input has
// added to the consumption and the reservations of the run. It returns "" if all accounts can cover that. It checks only
// the accounts that the engine has marked as short. The new reservation of the step at the index i is left out.
func (t *txn) exhausted(i int, asked machine.Amount) string {
	now, had := inAccounts(t.s, i), inAccounts(t.old, -1)
	now.Tokens, now.CostMicro = AddCapped(now.Tokens, asked.Tokens), AddCapped(now.CostMicro, asked.CostMicro)
	for j := range t.input.Billed {
		bill := &t.input.Billed[j]
		if !bill.Short {
			continue
		}
		if asked.Tokens > 0 && increase(now.Tokens, had.Tokens) > bill.LeftTokens || asked.CostMicro > 0 && increase(now.CostMicro, had.CostMicro) > bill.LeftCostMicro {
			return AccountExhausted + ":" + bill.Account
		}
	}
	return ""
}

// inAccounts returns what a run has consumed and reserved in its accounts, without the step at the index `but`.
func inAccounts(s *machine.State, but int) machine.Amount {
	spent, spentCost := SettledInAccounts(s)
	held, heldCost := reservedInAccountsBut(s, but)
	return machine.Amount{Tokens: AddCapped(spent, held), CostMicro: AddCapped(spentCost, heldCost)}
}

// increase returns the increase from before to now. If now is the largest int64, the sum may have been capped, so increase
// returns the largest int64, which exceeds every limit.
func increase(now, before int64) int64 {
	if now == math.MaxInt64 {
		return now
	}
	return now - before
}

// Reservations of a run (semantics §6). The maximum consumption of a pending step is reserved from the record of its
// request to the record of its answer. Then its real consumption is counted instead. Both sums are computed from the
// state alone, so the effect of an input is the difference between two states.

// Reserved returns the maximum that the pending steps of a run may consume, without the step at the
// index `but` (-1 means all steps). It includes tools with a cost, delegations with their leases, and
// model calls, including model calls whose consumption was never reported. A run that has ended has no
// reservations.
func Reserved(s *machine.State, but int) (tokens, cost int64) {
	return reservedAmounts(s, func(i int) bool { return i == but })
}

// reservedAmounts returns the maximum consumption of the pending steps, plus that of the model calls without reported usage.
// It leaves out the pending steps for which the function passed returns true.
func reservedAmounts(s *machine.State, passed func(i int) bool) (tokens, cost int64) {
	for i := range s.Steps {
		p := &s.Steps[i]
		if passed(i) || p.Status != machine.StepStatusPending {
			continue
		}
		b := BoundOf(p)
		tokens, cost = AddCapped(tokens, b.Tokens), AddCapped(cost, b.CostMicro)
	}
	if s.Account == nil {
		return tokens, cost
	}
	for i := range s.Account.Unreported {
		b := &s.Account.Unreported[i].Bound
		tokens, cost = AddCapped(tokens, b.Tokens), AddCapped(cost, b.CostMicro)
	}
	return tokens, cost
}

// LeasedAmount returns the sum of the leases (parts of the budget) of all pending delegations. The runs of agents may consume
// this part of the reservations.
func LeasedAmount(s *machine.State) (lent machine.Amount) { return lentBut(s, -1) }

// lentBut is [LeasedAmount] without the step at the index `but`. The result includes tool calls, which
// are reserved only for agents. The call of the agent itself is not included, because it was counted
// when the step was issued.
func lentBut(s *machine.State, but int) (lent machine.Amount) {
	for i := range s.Steps {
		if p := &s.Steps[i]; i != but && p.Delegation && p.Status == machine.StepStatusPending {
			b := BoundOf(p)
			lent.Tokens, lent.CostMicro = AddCapped(lent.Tokens, b.Tokens), AddCapped(lent.CostMicro, b.CostMicro)
			lent.ToolCalls = AddCapped(lent.ToolCalls, b.ToolCalls)
		}
	}
	return lent
}

// ConsumedAmount returns the tokens and cost that a run has consumed, including the consumption of its children.
func ConsumedAmount(s *machine.State) machine.Amount {
	return machine.Amount{Tokens: s.Tokens, CostMicro: s.CostMicro}
}

// CommittedAmount returns what a run has consumed plus the maximum that its pending steps may consume.
func CommittedAmount(s *machine.State) machine.Amount {
	tokens, cost := Reserved(s, -1)
	return machine.Amount{Tokens: AddCapped(s.Tokens, tokens), CostMicro: AddCapped(s.CostMicro, cost)}
}

// Prices (semantics §6). The machine computes the cost of tokens from the pack's price. If the pack has no price, it
// uses the operator's price, which is stored in the input. So a replay computes the same cost even if the operator has
// changed the price.

// price checks usage and computes its cost. If the model has a price, the cost that the executor reported is ignored.
// If it has none, or if the usage names no model, the reported cost applies. If there is no reported cost either, a run
// with a cost budget refuses the usage, because tokens without a cost would not count.
func (t *txn) price(u machine.Usage) (machine.Usage, error) {
	if err := CheckUsage(u); err != nil {
		return u, err
	}
	if p := PriceOf(t.g, &u); p != nil {
		u.CostMicro = p.Cost(u)
		return u, nil
	}
	if !t.rules.costIsKnown || LimitOf(t.g, t.s).CostMicro == 0 || u.CostMicro > 0 || u.InputTokens|u.OutputTokens == 0 {
		return u, nil
	}
	return u, UnpricedError(u.Model, "usage.model")
}

// PriceOf returns the price of the model in the usage: the pack's, or else the operator's. It returns nil if there is
// no price.
func PriceOf(g *machine.Graph, u *machine.Usage) *machine.Price {
	if u.Model == "" {
		return nil
	}
	if p, ok := g.Prices[u.Model]; ok {
		return &p
	}
	return u.Price
}

// UnpricedError returns the error for using a model without a price in a run with a cost budget. field is the request field
// that names the model. model is "" if the request names no model.
func UnpricedError(model, field string) error {
	what := fmt.Sprintf("the model %q has no price", model)
	if model == "" {
		what = "tokens without a cost, and without the model that took them"
	}
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "MODEL_UNPRICED", Field: field,
		Message: what + ", and the run has a budget of cost (x_pawl.max_cost_usd): " +
			"price the model in the pack (x_pawl.prices) or in the sidecar's file (--prices), or state cost_micro_usd",
	}
}
