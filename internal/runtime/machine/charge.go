package machine

import "math"

// MaxCharge bounds what is counted of one run in one account, tokens or micro-dollars:
// a report that is absurd must not make the sum over all runs meaningless.
const MaxCharge = 1 << 48

// Bill says which window of an operator's account an input is counted in. The host stamps
// the accounts of a run into each input that moves money.
type Bill struct {
	// Account names it in the run's namespace, for example "tenant=acme/day".
	Account string
	// Window is when the window began, Unix nanoseconds; 0 = it lasts for ever.
	Window int64
	// Short: the account does not hold what the input would reserve. Left is what the
	// input may add to what is reserved and settled; < 0 = it is over already.
	Short                     bool
	LeftTokens, LeftCostMicro int64
}

// Payer is in whose accounts a run counts itself: in those of the run whose step began it, or of
// the one in whose accounts that is counted in turn.
type Payer struct {
	// Labels are those of that run, sorted by key.
	Labels []Label
}

// Accountable is the labels by which a run is counted in the operator's accounts; false: it is in
// none, since the step of this store that began it is counted in its stead.
func (s *State) Accountable() ([]Label, bool) {
	switch {
	case s.Payer != nil:
		return s.Payer.Labels, true
	case s.Parent != nil && s.Parent.Origin == "":
		return nil, false
	}
	return s.Labels, true
}

// Charge is what one run takes of an account.
type Charge struct {
	Account string
	Window  int64
	// Tokens and CostMicro were settled in the window.
	Tokens, CostMicro int64
	// HeldTokens and HeldCostMicro are reserved now, in whichever window that began.
	HeldTokens, HeldCostMicro int64
}

// ChargeChange is what an input changes of a charge; Before is zero but for its account
// where there was none.
type ChargeChange struct{ Before, After Charge }

// AccountRow is an account over all runs: the sum of their charges, and what runs that
// were deleted had settled.
type AccountRow struct {
	// Namespace and Account stand in the row's key.
	Namespace uint32
	Account   string
	// Window is the newest that a charge was counted in. Tokens, CostMicro and Gone are
	// of that window.
	Window                    int64
	Tokens, CostMicro         int64
	HeldTokens, HeldCostMicro int64
	// GoneTokens and GoneCostMicro are the part of what was settled that no run has any
	// more.
	GoneTokens, GoneCostMicro int64
}

// Turn lets another window begin if it is newer: nothing was settled in it yet, and what
// is held stays.
func (r *AccountRow) Turn(window int64) {
	if window > r.Window {
		r.Window, r.Tokens, r.CostMicro, r.GoneTokens, r.GoneCostMicro = window, 0, 0, 0, 0
	}
}

// Add counts a change. What is settled in a window that is over for others is told by
// nobody any more.
func (r *AccountRow) Add(c ChargeChange) {
	r.Turn(c.After.Window)
	tokens, cost := settledIn(r.Window, c)
	r.Tokens, r.CostMicro = moved(r.Tokens, tokens), moved(r.CostMicro, cost)
	r.HeldTokens = moved(r.HeldTokens, c.After.HeldTokens-c.Before.HeldTokens)
	r.HeldCostMicro = moved(r.HeldCostMicro, c.After.HeldCostMicro-c.Before.HeldCostMicro)
}

// Undo takes back a change that was added and is not stored.
func (r *AccountRow) Undo(c ChargeChange) {
	tokens, cost := settledIn(r.Window, c)
	r.Tokens, r.CostMicro = moved(r.Tokens, -tokens), moved(r.CostMicro, -cost)
	r.HeldTokens = moved(r.HeldTokens, c.Before.HeldTokens-c.After.HeldTokens)
	r.HeldCostMicro = moved(r.HeldCostMicro, c.Before.HeldCostMicro-c.After.HeldCostMicro)
}

// SettleDeleted keeps what a run that is deleted had: it is no run's any more. What it still held
// nobody can tell of: it counts as spent.
func (r *AccountRow) SettleDeleted(c Charge) {
	r.HeldTokens, r.HeldCostMicro = moved(r.HeldTokens, -c.HeldTokens), moved(r.HeldCostMicro, -c.HeldCostMicro)
	r.Tokens, r.CostMicro = moved(r.Tokens, c.HeldTokens), moved(r.CostMicro, c.HeldCostMicro)
	r.GoneTokens, r.GoneCostMicro = moved(r.GoneTokens, c.HeldTokens), moved(r.GoneCostMicro, c.HeldCostMicro)
	if c.Window == r.Window {
		r.GoneTokens, r.GoneCostMicro = moved(r.GoneTokens, c.Tokens), moved(r.GoneCostMicro, c.CostMicro)
	}
}

// settledIn is what a change settles in a window.
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

// moved adds what may be negative to a sum, which stays between 0 and the largest number.
func moved(sum, by int64) int64 {
	if by > 0 && sum > math.MaxInt64-by {
		return math.MaxInt64
	}
	return max(0, sum+by)
}
