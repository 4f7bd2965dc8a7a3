package machine

import "math"

// MaxCharge bounds the amount that is counted for one run in one account, in tokens or micro-dollars.
// With this bound, one wrong report cannot overflow the sum over all runs.
const MaxCharge = 1 << 48

// Bill names the window of an operator's account in which an input is counted. The engine stamps the accounts of a run into each input
// that changes consumption.
type Bill struct {
	// Account is the name of the account in the run's namespace, for example "tenant=acme/day".
	Account string
	// Window is the time at which the window began, in Unix nanoseconds. 0 means that the window has no
	// beginning.
	Window int64
	// Short reports whether the account cannot cover the amount that the input would reserve. Left is
	// the amount that the input may still reserve or settle in the account. Left is negative if the
	// account is already over its limit.
	Short                     bool
	LeftTokens, LeftCostMicro int64
}

// Payer is a run whose accounts are charged for another run. The payer is the run whose step started
// the other run, or the payer of that run.
type Payer struct {
	// Labels are the labels of the payer, sorted by key. They select the accounts.
	Labels []Label
}

// Accountable returns the labels that select the operator's accounts in which the run is counted. It
// returns false if a step of this store started the run, because then the step is counted instead of
// the run.
func (s *State) Accountable() ([]Label, bool) {
	switch {
	case s.Payer != nil:
		return s.Payer.Labels, true
	case s.Parent != nil && s.Parent.Origin == "":
		return nil, false
	}
	return s.Labels, true
}

// Charge is the amount that one run has settled and reserved in an account.
type Charge struct {
	Account string
	Window  int64
	// Tokens and CostMicro are the amounts that were settled in the window.
	Tokens, CostMicro int64
	// HeldTokens and HeldCostMicro are the amounts that are reserved now. They include reservations
	// that were made in earlier windows.
	HeldTokens, HeldCostMicro int64
}

// ChargeChange is the change that an input makes to a charge. If there was no charge before, Before
// contains only the account.
type ChargeChange struct{ Before, After Charge }

// AccountRow is the stored row of an account: the sum of the charges of all runs, including the settled charges of deleted runs.
type AccountRow struct {
	// Namespace and Account are in the row's key.
	Namespace uint32
	Account   string
	// Window is the newest window in which a charge was counted. Tokens, CostMicro and the Gone fields
	// count this window.
	Window                    int64
	Tokens, CostMicro         int64
	HeldTokens, HeldCostMicro int64
	// GoneTokens and GoneCostMicro are the part of the settled amounts that belongs to deleted runs.
	GoneTokens, GoneCostMicro int64
}

// Turn starts the given window if it is newer than the current window. It sets the settled amounts to
// zero and keeps the reserved amounts.
func (r *AccountRow) Turn(window int64) {
	if window > r.Window {
		r.Window, r.Tokens, r.CostMicro, r.GoneTokens, r.GoneCostMicro = window, 0, 0, 0, 0
	}
}

// Add counts a change in the row. It ignores an amount that was settled in an earlier window.
func (r *AccountRow) Add(c ChargeChange) {
	r.Turn(c.After.Window)
	tokens, cost := settledIn(r.Window, c)
	r.Tokens, r.CostMicro = moved(r.Tokens, tokens), moved(r.CostMicro, cost)
	r.HeldTokens = moved(r.HeldTokens, c.After.HeldTokens-c.Before.HeldTokens)
	r.HeldCostMicro = moved(r.HeldCostMicro, c.After.HeldCostMicro-c.Before.HeldCostMicro)
}

// Undo removes a change that was added but could not be stored.
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

// settledIn returns the amounts that a change settles in the given window.
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

// moved returns sum + by. by may be negative. The result is at least 0 and at most the largest int64.
func moved(sum, by int64) int64 {
	if by > 0 && sum > math.MaxInt64-by {
		return math.MaxInt64
	}
	return max(0, sum+by)
}
