package shape_test

import (
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules/shape"
)

func TestCheckSource(t *testing.T) {
	for reason, from := range map[string]*machine.State{
		"FORK_INVALID":      nil,
		"FORK_COMPENSATING": {Current: "a", Undo: &machine.Undo{}},
	} {
		g := &machine.Graph{States: map[string]*machine.Node{"a": {}}}
		var r *machine.Refusal
		if err := shape.CheckSource(g, &machine.Fork{From: from}); !errors.As(err, &r) || r.Reason != reason {
			t.Errorf("got %v, want a refusal %s", err, reason)
		}
	}
}
