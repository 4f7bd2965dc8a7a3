package approval

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// TestNoChainPassesTheStarter: for any claims and any chains, a principal may not decide if it, or a principal
// in whose name it speaks, started the run or a run that led to it.
func TestNoChainPassesTheStarter(t *testing.T) {
	t.Parallel()
	rule := &machine.Approval{NotStarter: true}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"dave", "ann", "bridge", "anonymous", "far", "oidc:bob", ""})
		stored := func(label string) policy.Identity {
			parts := rapid.SliceOfN(name, 1, 4).Draw(t, label)
			return policy.Identity{Subject: parts[len(parts)-1], Chain: parts[:len(parts)-1]}
		}
		starters := []policy.Identity{stored("starter")}
		for range rapid.IntRange(0, 2).Draw(t, "parents") {
			starters = append(starters, stored("parent"))
		}
		by := stored("by")
		shares := slices.ContainsFunc(starters, func(s policy.Identity) bool {
			return slices.ContainsFunc(s.Parts(), func(part string) bool { return slices.Contains(by.Parts(), part) })
		})
		err := rules.Starter(rule, &machine.DecideStep{Starters: BarredNames(starters, by)}, by.String())
		if shares != (err != nil) {
			t.Fatalf("%v by %q: %v", starters, by, err)
		}
	})
}
