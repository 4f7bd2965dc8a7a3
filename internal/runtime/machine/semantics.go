package machine

import "fmt"

// Semantics numbers the rules by which an input makes records. Each input says the
// version that it was taken by; replay goes by that version for ever, whatever newer
// programs do. A rule that changes what an equal input makes gets a new version here
// and keeps its old form beside the new one; what only adds a field that old inputs
// cannot carry needs none.
type Semantics uint32

const (
	// SemanticsFirst is meant by inputs that say none: they are older than the number.
	SemanticsFirst Semantics = 1
	// SemanticsEnds: the end of a run tells the event that was lost at a bound, and a
	// step that would escalate a run over its budget ends it by the budget.
	SemanticsEnds Semantics = 2
	// Current is the version that a host stamps into new inputs.
	Current = SemanticsEnds
)

// rules are what one version does in another way than another one.
type rules struct {
	// jitter moves the pause before a further attempt of a turn.
	jitter func(run string, turnSeq uint64, attempt int) uint32
	// endTellsEvent: Ended names the event that was asked for, and its target.
	endTellsEvent bool
	// budgetsBeforeEscalation: a failed step of policy escalate in a run that is over
	// a budget ends it BUDGET_EXHAUSTED.
	budgetsBeforeEscalation bool
}

// versions holds the rules of each version, from the first on. What stands here for
// a version that was ever released never changes.
var versions = [...]rules{
	SemanticsFirst: {jitter: jitter},
	SemanticsEnds:  {jitter: jitter, endTellsEvent: true, budgetsBeforeEscalation: true},
}

// rulesOf finds the rules of an input. An unknown version is of a newer program: to
// guess at its rules would make another run of it.
func rulesOf(v Semantics) (*rules, error) {
	v = max(v, SemanticsFirst)
	if int(v) < len(versions) {
		return &versions[v], nil
	}
	return nil, &Refusal{
		Code: CodeDataLoss, Reason: "SEMANTICS_UNKNOWN",
		Message: fmt.Sprintf("semantics %d, this program knows 1 to %d: use a newer one", v, Current),
		Limit:   int64(Current), Got: int64(v),
	}
}
