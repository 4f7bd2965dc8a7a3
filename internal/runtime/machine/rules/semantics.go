package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// ruleset holds the rules that differ between semantics versions.
type ruleset struct {
	// jitter returns the number that determines the random part of a pause before a further attempt.
	jitter func(run string, turnSeq uint64, attempt int) uint32
	// endNamesEvent makes the record Ended contain the event that was not followed, and its target.
	endNamesEvent bool
	// budgetsBeforeEscalation makes a run that is over a budget end as BUDGET_EXHAUSTED when a step with the policy escalate fails.
	budgetsBeforeEscalation bool
	// costIsKnown makes a run with a cost budget refuse tokens without a cost and without a price.
	costIsKnown bool
	// kindIsRecorded makes records of steps of tools and agents contain the kind of the step.
	kindIsRecorded bool
	// silenceCosts makes the usage of a model call that is never reported count as the reserved amount.
	silenceCosts bool
	// agentsAreLeased gives each delegation of a run with a bound a lease of this bound, including tool calls, and sends the tool lists with
	// it.
	agentsAreLeased bool
	// agentsCount makes the operator's accounts count the runs of agents of this store separately.
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

// rulesOf returns the rules for an input. An unknown version was written by a newer program. It is an error, because other rules would
// produce a different run.
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
