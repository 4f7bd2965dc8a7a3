package policy

// Act is the kind of action that a caller requests on a run, for the decision whether the caller may do it.
type Act uint8

const (
	// Emit is an event that requests a transition.
	Emit Act = iota + 1
	// Write sets artifacts without a transition. It needs the same rights as Emit.
	Write
	// Complete ends the open turn with its output.
	Complete
	// Execute means that a caller fails or suspends the open turn, or requests its steps.
	Execute
	// Fetch reads the open turn to execute it.
	Fetch
	// Resolve answers a step.
	Resolve
	// Drive means that a caller sends an input, or pauses, resumes or cancels the run. It needs no turn.
	Drive
	// AnswerModel reports the outcome of a model call.
	AnswerModel
	// Fund raises the budget of a run.
	Fund
	// Approve decides about a held call.
	Approve
)

// Orchestration says which callers may choose the event that moves a run out of a state (PromptPack RFC 0005).
type Orchestration uint8

const (
	// Internal means the holder of the turn.
	Internal Orchestration = iota
	// External means a principal with the scope events:external.
	External
	// Hybrid means that the holder of the turn, or a principal with the scope events:external, may choose.
	Hybrid
)

// Token says whether a request has the token of the open turn, another token, or none.
type Token uint8

const (
	// TokenAbsent means that the request has no token.
	TokenAbsent Token = iota
	// TokenStale means that the token is not, or no longer, the token of the open turn.
	TokenStale
	// TokenHeld means that the token is the token of the open turn.
	TokenHeld
)

// Ask is the argument of [Decide]: an act and all facts that decide whether it is allowed.
type Ask struct {
	Act       Act
	Principal Principal
	// Orchestration is the setting of the run's current state.
	Orchestration Orchestration
	Token         Token
	// Leased means that the run's turns are leased to workers, so that its callers have no valid tokens.
	Leased bool
	// HoldsLease means that the request comes from the worker that has the lease of the turn or the step.
	HoldsLease bool
}

// Verdict is the result of [Decide] for an act that is allowed.
type Verdict struct {
	// Outside means that the caller uses the scope to move the run from outside, and not the right of the turn's
	// holder.
	Outside bool
}

// Denied is the error of [Decide].
type Denied struct {
	// Reason is a stable UPPER_SNAKE word.
	Reason string
	// Field is the invalid request field. It is "" if the caller does not have the right.
	Field   string
	Message string
	// Scopes are the scopes that were missing. Each single one of them would have been enough.
	Scopes Scopes
}

func (d *Denied) Error() string { return d.Reason + ": " + d.Message }

// Decide says whether a caller may do an act on a run. It returns a *Denied if not (docs/reference/semantics.md,
// section 4 "Authority" and section 9 "Answers").
//
// Wherever tokens are checked, a token in a request must be valid, except for AnswerModel. Otherwise an executor that has lost its turn
// could use the right to act from outside instead.
func Decide(ask Ask) (Verdict, error) {
	switch ask.Act {
	case Drive:
		return Verdict{}, needScope(ask.Principal, RunsWrite)
	case Fund:
		return Verdict{}, needScope(ask.Principal, BudgetsWrite)
	case Approve:
		return Verdict{}, needScope(ask.Principal, StepsApprove)
	case Resolve:
		return decideResolve(ask)
	case Fetch:
		return decideFetch(ask)
	case AnswerModel:
		return decideAnswerModel(ask)
	default:
		return decideTurn(ask)
	}
}

func decideTurn(ask Ask) (Verdict, error) {
	switch ask.Orchestration {
	case External:
		return Verdict{Outside: true}, needScope(ask.Principal, EventsExternal)
	case Hybrid:
		outside := ask.Act == Emit || ask.Act == Write
		if outside && ask.Token == TokenAbsent && !ask.HoldsLease && ask.Principal.Scopes.Has(EventsExternal) {
			return Verdict{Outside: true}, nil
		}
	}
	return Verdict{}, holdsTurn(ask)
}

// holdsTurn returns an error if the request does not hold the turn: by the lease if the turn is leased, else by the token. With the token,
// the principal also needs the scope runs:write.
func holdsTurn(ask Ask) error {
	switch {
	case ask.HoldsLease:
		return nil
	case ask.Leased:
		return leased()
	case ask.Token == TokenHeld:
		return needScope(ask.Principal, RunsWrite)
	case ask.Token == TokenStale:
		return stale()
	}
	return &Denied{
		Reason: "TURN_TOKEN_REQUIRED", Field: "turn_token",
		Message: "this takes the token of the open turn; GetTurn gives a new one",
	}
}

// decideAnswerModel lets an executor that has lost its turn still report a model call's usage. In this case the
// engine uses nothing else of the report.
func decideAnswerModel(ask Ask) (Verdict, error) {
	verdict, err := decideTurn(ask)
	if err != nil && ask.Token == TokenStale && !ask.Leased && ask.Principal.Scopes.Any(RunsWrite|Work) {
		return Verdict{}, nil
	}
	return verdict, err
}

func decideFetch(ask Ask) (Verdict, error) {
	if ask.Orchestration == External {
		return Verdict{Outside: true}, needScope(ask.Principal, EventsExternal)
	}
	if ask.Leased && !ask.HoldsLease {
		return Verdict{}, leased()
	}
	return Verdict{}, needScope(ask.Principal, RunsWrite)
}

func decideResolve(ask Ask) (Verdict, error) {
	switch {
	case ask.HoldsLease, ask.Principal.Scopes.Has(Admin):
		return Verdict{}, nil
	case ask.Token == TokenHeld:
		return Verdict{}, needScope(ask.Principal, RunsWrite)
	case ask.Token == TokenStale:
		return Verdict{}, stale()
	}
	return Verdict{}, &Denied{
		Reason: "STEP_NOT_HELD", Field: "turn_token", Scopes: Admin,
		Message: "a step is answered by the holder of its lease, with the token of its turn, or with the scope admin",
	}
}

func stale() error {
	return &Denied{
		Reason: "TURN_TOKEN_STALE", Field: "turn_token",
		Message: "the token is not the open turn's: the turn ended, another call of GetTurn fenced it off, or the server was started again; call GetTurn for a new one",
	}
}

func leased() error {
	return &Denied{
		Reason:  "TURN_LEASED",
		Message: "workers execute the run's turns: only the one that holds the turn's lease may act on it",
	}
}

func needScope(p Principal, scope Scopes) error {
	if p.Scopes.Has(scope) {
		return nil
	}
	return &Denied{
		Reason: "SCOPE_MISSING", Scopes: scope,
		Message: "principal " + quote(p.Name()) + " lacks the scope " + scope.String(),
	}
}

func quote(name string) string { return `"` + name + `"` }

// Require returns an error if a principal has none of the scopes.
func Require(p Principal, anyOf Scopes) error {
	if p.Scopes.Any(anyOf) {
		return nil
	}
	return &Denied{
		Reason: "SCOPE_MISSING", Scopes: anyOf,
		Message: "principal " + quote(p.Name()) + " has none of the scopes " + anyOf.String(),
	}
}
