package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// ruleset holds the rules that differ between semantics versions.
type ruleset struct {
	// jitter returns the number that determines the random part of a pause before a further attempt.
	jitter func(run string, turnSeq uint64, attempt int) uint32
	// endNamesEvent means that the record Ended contains the event that was not followed, and the
	// target of this event.
	endNamesEvent bool
	// budgetsBeforeEscalation matters when a step with the policy escalate fails in a run that is over
	// a budget. If it is true, the run ends as BUDGET_EXHAUSTED.
	budgetsBeforeEscalation bool
	// costIsKnown means that a run with a cost budget refuses tokens that have neither a cost nor a
	// price.
	costIsKnown bool
	// kindIsRecorded means that the records of steps of tools and agents contain the kind of the step.
	kindIsRecorded bool
	// silenceCosts means that the reserved amount of a model call is counted as its usage if the usage
	// is never reported.
	silenceCosts bool
	// agentsAreLeased means that each delegation of a run with a bound gets a lease of this bound,
	// including tool calls, and that the tool lists are sent with the delegation.
	agentsAreLeased bool
	// agentsCount means that the operator's accounts count the runs of agents of this store separately.
	agentsCount bool
}

// versions holds the rules of each version. The first element is the first version. The entry of a
// released version never changes.
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

// rulesOf returns the rules for an input. If the version is unknown, a newer program wrote the input.
// This is an error, because other rules would produce a different run.
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
