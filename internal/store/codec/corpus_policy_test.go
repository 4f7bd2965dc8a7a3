package codec

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// policySamples were grown by what agents are held to: leases of tool calls, and lists of tools.
func policySamples(t *testing.T, fresh map[string][]byte) {
	t.Helper()
	for i, c := range []machine.Command{machine.Start{}, machine.RequestSteps{}} {
		f := &filler{rnd: rand.New(rand.NewPCG(uint64(i), 250)), full: true}
		fresh[fmt.Sprintf("entry %T, policy", c)] = encode(t, f.entry(c, &machine.StepRequested{}))
	}
	head := &filler{rnd: rand.New(rand.NewPCG(1, 251)), full: true}
	fresh["head, policy"] = EncodeHead(head.state(), [32]byte{25})
}
