package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// AttemptsOf returns how many attempts a turn has.
func AttemptsOf(g *machine.Graph) int { return OrDefault(g.Retry.MaxAttempts, machine.DefaultAttempts) }

// ModelCalls returns the settings of a graph's model calls, with the defaults filled in.
func ModelCalls(g *machine.Graph) machine.Calls {
	var c machine.Calls
	if g.ModelCalls != nil {
		c = *g.ModelCalls
	}
	c.Timeout = OrDefault(c.Timeout, machine.DefaultModelTimeout)
	c.Retry.MaxAttempts = OrDefault(c.Retry.MaxAttempts, machine.DefaultModelAttempts)
	return c
}
