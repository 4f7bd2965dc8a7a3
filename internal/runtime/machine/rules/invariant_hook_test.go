package rules_test

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules/invariant"
)

var _ = setInvariants()

func setInvariants() bool {
	rules.CheckState, rules.CheckChange, rules.CheckSettled = invariant.Check, invariant.CheckChange, invariant.CheckSettled
	return true
}
