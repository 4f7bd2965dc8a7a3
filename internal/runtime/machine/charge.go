package machine

import "math"

// MaxCharge bounds the amount counted for one run in one account, in tokens or micro-dollars. An absurd
// report must not make the sum over all runs meaningless.
const MaxCharge = 1 << 48

// Bill names the window of an operator's account in which an input is counted. The host stamps the accounts
// of a run into each input that changes consumption.
type Bill struct {
	// Account is its name in the run's namespace, for example "tenant=acme/day".
	Account string
	// Window is when the window began, Unix nanoseconds; 0 = the window has no end.
	Window int64
	// Short reports whether the account cannot cover what the input would reserve. Left is what the input may
	// add to what is reserved and settled; < 0 = the account is already over its limit.
	Short                     bool
	LeftTokens, LeftCostMicro int64
}

// Payer names the run in whose place another run is counted: the run whose step started it, or that run's own
// payer.
type Payer struct {
	// Labels are the labels of that run, sorted by key. They select the accounts.
	Labels []Label
}

// Accountable returns the labels by which a run is counted in the operator's accounts. It returns false if
// the run is not counted, because the step of this store that started it is counted instead.
func (s *State) Accountable() ([]Label, bool) {
	switch {
	case s.Payer != nil:
		return s.Payer.Labels, true
	case s.Parent != nil && s.Parent.Origin == "":
		return nil, false
	}
	return s.Labels, true
}

// Charge is what one run consumed and reserved in an account.
type Charge struct {
	Account string
	Window  int64
	// Tokens and CostMicro were settled in the window.
	Tokens, CostMicro int64
	// HeldTokens and HeldCostMicro are reserved now, regardless of the window in which the reservation began.
	HeldTokens, HeldCostMicro int64
}

// ChargeChange is the change of a charge by an input. If there was no charge before, Before is zero except
// for its account.
type ChargeChange struct{ Before, After Charge }

// AccountRow is an account over all runs: the sum of their charges, and what deleted runs had settled.
type AccountRow struct {
	// Namespace and Account are in the row's key.
	Namespace uint32
	Account   string
	// Window is the newest window in which a charge was counted. Tokens, CostMicro and the Gone fields belong
	// to it.
	Window                    int64
	Tokens, CostMicro         int64
	HeldTokens, HeldCostMicro int64
	// GoneTokens and GoneCostMicro are the part of the settled amount that belongs to deleted runs.
	GoneTokens, GoneCostMicro int64
}

// Turn starts a window if it is newer than the current one: the settled amounts become zero, the reserved
// ones stay.
func (r *AccountRow) Turn(window int64) {
	if window > r.Window {
		r.Window, r.Tokens, r.CostMicro, r.GoneTokens, r.GoneCostMicro = window, 0, 0, 0, 0
	}
}

// Add counts a change. An amount settled in a window that is already over is not counted.
func (r *AccountRow) Add(c ChargeChange) {
	r.Turn(c.After.Window)
	tokens, cost := settledIn(r.Window, c)
	r.Tokens, r.CostMicro = moved(r.Tokens, tokens), moved(r.CostMicro, cost)
	r.HeldTokens = moved(r.HeldTokens, c.After.HeldTokens-c.Before.HeldTokens)
	r.HeldCostMicro = moved(r.HeldCostMicro, c.After.HeldCostMicro-c.Before.HeldCostMicro)
}

// Undo removes a change that was added and could not be stored.
func (r *AccountRow) Undo(c ChargeChange) {
	tokens, cost := settledIn(r.Window, c)
	r.Tokens, r.CostMicro = moved(r.Tokens, -tokens), moved(r.CostMicro, -cost)
	r.HeldTokens = moved(r.HeldTokens, c.Before.HeldTokens-c.After.HeldTokens)
	r.HeldCostMicro = moved(r.HeldCostMicro, c.Before.HeldCostMicro-c.After.HeldCostMicro)
}

// SettleDeleted moves the charge of a deleted run to the Gone fields. A reservation that was still open
// counts as spent, because its real consumption will never be known.
func (r *AccountRow) SettleDeleted(c Charge) {
	r.HeldTokens, r.HeldCostMicro = moved(r.HeldTokens, -c.HeldTokens), moved(r.HeldCostMicro, -c.HeldCostMicro)
	r.Tokens, r.CostMicro = moved(r.Tokens, c.HeldTokens), moved(r.CostMicro, c.HeldCostMicro)
	r.GoneTokens, r.GoneCostMicro = moved(r.GoneTokens, c.HeldTokens), moved(r.GoneCostMicro, c.HeldCostMicro)
	if c.Window == r.Window {
		r.GoneTokens, r.GoneCostMicro = moved(r.GoneTokens, c.Tokens), moved(r.GoneCostMicro, c.CostMicro)
	}
}

// settledIn returns what a change settles in a window.
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

// moved adds by, which may be negative, to a sum, and keeps the result between 0 and the largest number.
func moved(sum, by int64) int64 {
	if by > 0 && sum > math.MaxInt64-by {
		return math.MaxInt64
	}
	return max(0, sum+by)
}
