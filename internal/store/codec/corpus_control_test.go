package codec

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// controlSamples were grown by the control of states.
func controlSamples(t *testing.T, fresh map[string][]byte) {
	t.Helper()
	start := &filler{rnd: rand.New(rand.NewPCG(0, 280)), full: true}
	fresh[fmt.Sprintf("entry %T, control", machine.Start{})] = encode(t, start.entry(machine.Start{}, &machine.Transition{}))
	head := &filler{rnd: rand.New(rand.NewPCG(1, 280)), full: true}
	fresh["head, control"] = EncodeHead(head.state(), [32]byte{28})
}
