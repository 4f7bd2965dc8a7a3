package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// ruleset holds the rules that differ between semantics versions.
type ruleset struct {
	// jitter returns the number that determines the random part of a pause before a further attempt.
	jitter func(run string, turnSeq uint64, attempt int) uint32
	// endNamesEvent: the record Ended contains the lost event and its target.
	endNamesEvent bool
	// budgetsBeforeEscalation: a failed step with the policy escalate in a run that is over a budget ends it
	// BUDGET_EXHAUSTED.
	budgetsBeforeEscalation bool
	// costIsKnown: tokens without a cost and without a price are refused in a run that has a cost budget.
	costIsKnown bool
	// kindIsRecorded: records of steps of tools and agents contain their kind.
	kindIsRecorded bool
	// silenceCosts: usage of a model call that is not reported counts as the reserved amount.
	silenceCosts bool
	// agentsAreLeased: each delegation of a run with a bound has a lease of it, including tool calls, and
	// passes the tool lists on.
	agentsAreLeased bool
	// agentsCount: runs of agents of this store are counted separately in the operator's accounts.
	agentsCount bool
}

// versions holds the rules of each version, from the first on. The entry of a released version never changes.
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

// rulesOf returns the rules for an input. An unknown version comes from a newer program and is an error:
// other rules would produce a different run.
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
