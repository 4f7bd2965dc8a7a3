package machine

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"time"
)

// CmdRaiseBudget is the number of [RaiseBudget].
const CmdRaiseBudget CommandKind = 53

// RecBudgetRaised is the number of [BudgetRaised].
const RecBudgetRaised RecordKind = 38

// CauseBudget is the cause of a transition to the state x_pawl.on_budget, because the budget did not cover a step.
const CauseBudget Cause = 5

// MaxUnreportedUsage bounds the number of model calls without reported usage that a run remembers. If there are more,
// the oldest call is counted with the maximum that it may have consumed.
const MaxUnreportedUsage = 64

type (
	// Amount is a consumption or a limit. No field is negative. ToolCalls is used only in leases, as the number of tool
	// calls that the run of an agent may make.
	Amount struct{ Tokens, CostMicro, ToolCalls int64 }
	// Account is the part of a run's budget that differs from the budget in its pack. State.Account is nil if nothing
	// differs.
	Account struct {
		// Limit replaces the pack's max_tokens and max_cost_usd. A limit of 0 means no limit. Limit.ToolCalls comes
		// from a lease and lowers the pack's max_tool_calls.
		Limit Amount
		// Leased means that the run consumes the budget of the step that started it, at most Limit.
		Leased bool
		// WrappedUp means that the run has already entered the state x_pawl.on_budget. After that, the next step that
		// the budget does not cover ends the run.
		WrappedUp bool
		// BudgetNoticeAdded means that the model was already given a notice that most of Limit is used up.
		BudgetNoticeAdded bool
		// Unreported are model calls whose consumption is not known. Their maximum stays reserved until the consumption
		// is reported or the run ends. The list has at most [MaxUnreportedUsage] calls, the oldest first.
		Unreported []UnreportedUsage
	}
	// UnreportedUsage is one attempt of a model call, with the maximum that it may have consumed.
	UnreportedUsage struct {
		Step    uint32
		Attempt int
		Bound   Amount
		// Output is the part of the tokens that the model may have generated.
		Output int64
	}
	// RaiseBudget raises the limits of a run. A limit of 0 is not changed.
	RaiseBudget struct {
		To     Amount
		Reason string
	}
	// BudgetRaised records a RaiseBudget with the limits before and after it.
	BudgetRaised struct {
		From, To Amount
		Reason   string
	}
)

func (RaiseBudget) command() CommandKind { return CmdRaiseBudget }
func (*BudgetRaised) record() RecordKind { return RecBudgetRaised }

// MaxCharge bounds the amount that one run can add to one account, in tokens or micro-dollars. With this bound, one
// wrong report cannot overflow the sum over all runs.
const MaxCharge = 1 << 48

// Bill names an operator's account in which an input is counted, and the time window of the account. The engine adds
// the bills of a run to each input that changes consumption.
type Bill struct {
	// Account is the name of the account in the run's namespace, for example "tenant=acme/day": all runs with the label
	// tenant=acme, for each day.
	Account string
	// Window is the time at which the window began, in Unix nanoseconds. 0 means that the window has no
	// beginning.
	Window int64
	// Short reports whether the account cannot cover the amount that the input would reserve. LeftTokens and
	// LeftCostMicro are what the account can still cover. They are negative if the account is already over its limit.
	Short                     bool
	LeftTokens, LeftCostMicro int64
}

// Payer identifies a run that pays for another run, so that the accounts of the payer are charged. It is the run that
// started the other run by a step, or the payer of that run.
type Payer struct {
	// Labels are the labels of the payer, sorted by key. They select the accounts.
	Labels []Label
}

// AccountLabels returns the labels that select the operator's accounts in which the run is counted. It returns false if
// no account counts the run: a step of this store started the run, and the step is counted in its place.
func (s *State) AccountLabels() ([]Label, bool) {
	switch {
	case s.Payer != nil:
		return s.Payer.Labels, true
	case s.Parent != nil && s.Parent.Origin == "":
		return nil, false
	}
	return s.Labels, true
}

// Charge is the amount that one run has consumed and reserved in an operator's account.
type Charge struct {
	Account string
	Window  int64
	// Tokens and CostMicro are the amounts that were consumed in the current window of the account.
	Tokens, CostMicro int64
	// HeldTokens and HeldCostMicro are the amounts that are reserved now for pending steps. They include reservations
	// that were made in earlier windows.
	HeldTokens, HeldCostMicro int64
}

// ChargeChange is the change that an input makes to the charge of a run in an account. If there was no charge before,
// Before contains only the name of the account.
type ChargeChange struct{ Before, After Charge }

// AccountRow is the stored row of an account: the sum of the charges of all runs. It includes what deleted runs have
// consumed.
type AccountRow struct {
	// Namespace and Account identify the account. In the store they are part of the row's key.
	Namespace uint32
	Account   string
	// Window is the newest window in which a charge was counted. Tokens, CostMicro, GoneTokens and GoneCostMicro count
	// this window.
	Window                    int64
	Tokens, CostMicro         int64
	HeldTokens, HeldCostMicro int64
	// GoneTokens and GoneCostMicro are the part of Tokens and CostMicro that belongs to deleted runs.
	GoneTokens, GoneCostMicro int64
}

// Turn begins the given window of the account if it is newer than the current window. It sets the consumed amounts to
// zero and keeps the reserved amounts.
func (r *AccountRow) Turn(window int64) {
	if window > r.Window {
		r.Window, r.Tokens, r.CostMicro, r.GoneTokens, r.GoneCostMicro = window, 0, 0, 0, 0
	}
}

// Add counts a change in the row. It ignores an amount that was consumed in an earlier window.
func (r *AccountRow) Add(c ChargeChange) {
	r.Turn(c.After.Window)
	tokens, cost := settledIn(r.Window, c)
	r.Tokens, r.CostMicro = addClamped(r.Tokens, tokens), addClamped(r.CostMicro, cost)
	r.HeldTokens = addClamped(r.HeldTokens, c.After.HeldTokens-c.Before.HeldTokens)
	r.HeldCostMicro = addClamped(r.HeldCostMicro, c.After.HeldCostMicro-c.Before.HeldCostMicro)
}

// Undo takes back a change that was added to the row but could not be stored.
func (r *AccountRow) Undo(c ChargeChange) {
	tokens, cost := settledIn(r.Window, c)
	r.Tokens, r.CostMicro = addClamped(r.Tokens, -tokens), addClamped(r.CostMicro, -cost)
	r.HeldTokens = addClamped(r.HeldTokens, c.Before.HeldTokens-c.After.HeldTokens)
	r.HeldCostMicro = addClamped(r.HeldCostMicro, c.Before.HeldCostMicro-c.After.HeldCostMicro)
}

// SettleDeleted moves the charge of a deleted run to GoneTokens and GoneCostMicro. A reservation that
// was still open counts as consumed, because its real consumption will never be known.
func (r *AccountRow) SettleDeleted(c Charge) {
	r.HeldTokens, r.HeldCostMicro = addClamped(r.HeldTokens, -c.HeldTokens), addClamped(r.HeldCostMicro, -c.HeldCostMicro)
	r.Tokens, r.CostMicro = addClamped(r.Tokens, c.HeldTokens), addClamped(r.CostMicro, c.HeldCostMicro)
	r.GoneTokens, r.GoneCostMicro = addClamped(r.GoneTokens, c.HeldTokens), addClamped(r.GoneCostMicro, c.HeldCostMicro)
	if c.Window == r.Window {
		r.GoneTokens, r.GoneCostMicro = addClamped(r.GoneTokens, c.Tokens), addClamped(r.GoneCostMicro, c.CostMicro)
	}
}

// settledIn returns the amounts that a change adds to the consumption in the given window.
func settledIn(window int64, c ChargeChange) (tokens, cost int64) {
	if c.After.Window != window {
		return 0, 0
	}
	tokens, cost = c.After.Tokens, c.After.CostMicro
	if c.Before.Window == window {
		tokens, cost = tokens-c.Before.Tokens, cost-c.Before.CostMicro
	}
	return tokens, cost
}

// addClamped returns sum + by, where by may be negative. The result is at least 0 and at most the largest int64.
func addClamped(sum, by int64) int64 {
	if by > 0 && sum > math.MaxInt64-by {
		return math.MaxInt64
	}
	return max(0, sum+by)
}

// Price is the price of a model's tokens, in millionths of a US dollar for a million tokens. This is the same as millionths of a
// micro-dollar for one token.
type Price struct {
	Input  int64
	Cached int64
	Output int64
	// Reasoning is the price of output tokens that the model used for reasoning and that are not in its answer.
	Reasoning int64
}

// MaxPriceUSD bounds a price, in US dollars for a million tokens.
const MaxPriceUSD = 1_000_000

// Cost returns the cost of a usage in micro-dollars, rounded up, so that it is 0 only if the usage is free. It ignores
// the cost that the executor reported. The figures of the usage must not be negative. If the cost overflows, Cost
// returns the largest int64.
func (p Price) Cost(u Usage) int64 {
	cached, reasoning := min(u.CachedTokens, u.InputTokens), min(u.ReasoningTokens, u.OutputTokens)
	var high, low uint64
	for _, part := range [...]struct{ tokens, price int64 }{
		{u.InputTokens - cached, p.Input}, {cached, p.Cached},
		{u.OutputTokens - reasoning, p.Output}, {reasoning, p.Reasoning},
	} {
		h, l := bits.Mul64(uint64(part.tokens), uint64(part.price))
		var carry uint64
		low, carry = bits.Add64(low, l, 0)
		high, _ = bits.Add64(high, h, carry)
	}
	const million = 1_000_000
	if high >= million {
		return math.MaxInt64
	}
	cost, rest := bits.Div64(high, low, million)
	if rest > 0 {
		cost++
	}
	return int64(min(cost, math.MaxInt64))
}

// PriceUSD returns the price for amounts in US dollars for a million tokens. If cached is nil, the
// price of input applies to cached tokens. If reasoning is nil, the price of output applies to
// reasoning tokens.
func PriceUSD(input float64, cached *float64, output float64, reasoning *float64) Price {
	p := Price{Input: MicroUSD(input), Output: MicroUSD(output)}
	p.Cached, p.Reasoning = p.Input, p.Output
	if cached != nil {
		p.Cached = MicroUSD(*cached)
	}
	if reasoning != nil {
		p.Reasoning = MicroUSD(*reasoning)
	}
	return p
}

// MicroUSD converts an amount of US dollars to millionths of a dollar, rounded up. The amount must not
// be negative. MicroUSD uses the shortest decimal form of the number. For example, 2.007 becomes 2 007
// 000, although the nearest double is not exactly 2.007. If the amount overflows, MicroUSD returns the
// largest int64.
func MicroUSD(usd float64) int64 {
	exact, ok := new(big.Rat).SetString(strconv.FormatFloat(usd, 'g', -1, 64))
	if !ok {
		return math.MaxInt64
	}
	exact.Mul(exact, big.NewRat(1_000_000, 1))
	whole, rest := new(big.Int).QuoRem(exact.Num(), exact.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	if !whole.IsInt64() {
		return math.MaxInt64
	}
	return whole.Int64()
}

// Remaining contains the remaining amount of each budget of a run. A field is nil if the run has no
// such budget.
type Remaining struct {
	// Visits is the remaining number of entries into states. ToolCalls is the remaining number of tool
	// calls. Steps is the remaining part of max_steps.
	Visits, ToolCalls, Steps *int64
	Tokens, CostMicro        *int64
	WallTime                 *time.Duration
}
