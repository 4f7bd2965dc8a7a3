package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// ruleset is what one version does in another way than another one.
type ruleset struct {
	// jitter moves the pause before a further attempt of a turn.
	jitter func(run string, turnSeq uint64, attempt int) uint32
	// endNamesEvent: Ended names the event that was asked for, and its target.
	endNamesEvent bool
	// budgetsBeforeEscalation: a failed step of policy escalate in a run that is over
	// a budget ends it BUDGET_EXHAUSTED.
	budgetsBeforeEscalation bool
	// costIsKnown: tokens without a cost and without a price are refused in a run that
	// has a budget of cost.
	costIsKnown bool
	// kindIsRecorded: records of steps of tools and agents say their kind.
	kindIsRecorded bool
	// silenceCosts: what nobody reports of a call of a model is what it reserved.
	silenceCosts bool
	// agentsAreLeased: each delegation of a run with a bound has a lease of it, of tool
	// calls too, and takes the lists of tools along.
	agentsAreLeased bool
	// agentsCount: runs of agents of this store count themselves in the operator's accounts.
	agentsCount bool
}

// versions holds the rules of each version, from the first on. What stands here for
// a version that was ever released never changes.
var versions = [...]ruleset{
	machine.SemanticsFirst: {jitter: jitter},
	machine.SemanticsEnds:  {jitter: jitter, endNamesEvent: true, budgetsBeforeEscalation: true},
	machine.SemanticsModels: {
		jitter: jitter, endNamesEvent: true, budgetsBeforeEscalation: true, costIsKnown: true,
	},
	machine.SemanticsKinds: {
		jitter: jitter, endNamesEvent: true, budgetsBeforeEscalation: true, costIsKnown: true, kindIsRecorded: true,
	},
	machine.SemanticsBounds: {
		jitter: jitter, endNamesEvent: true, budgetsBeforeEscalation: true, costIsKnown: true, kindIsRecorded: true, silenceCosts: true,
	},
	machine.SemanticsLeases: {
		jitter: jitter, endNamesEvent: true, budgetsBeforeEscalation: true, costIsKnown: true, kindIsRecorded: true, silenceCosts: true,
		agentsAreLeased: true,
	},
	machine.SemanticsAccounts: {
		jitter: jitter, endNamesEvent: true, budgetsBeforeEscalation: true, costIsKnown: true, kindIsRecorded: true, silenceCosts: true,
		agentsAreLeased: true, agentsCount: true,
	},
}

// rulesOf finds the rules of an input. An unknown version is of a newer program: to
// guess at its rules would make another run of it.
func rulesOf(v machine.Semantics) (*ruleset, error) {
	v = max(v, machine.SemanticsFirst)
	if int(v) < len(versions) {
		return &versions[v], nil
	}
	return nil, &machine.Error{
		Code: machine.CodeDataLoss, Reason: "SEMANTICS_UNKNOWN",
		Message: fmt.Sprintf("semantics %d, this program knows 1 to %d: use a newer one", v, machine.Current),
		Limit:   int64(machine.Current), Got: int64(v),
	}
}
