package codec

import (
	"math/rand/v2"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// sendingSamples were grown by what is said of a delegation's message before it is sent.
func sendingSamples(t *testing.T, fresh map[string][]byte) {
	t.Helper()
	f := &filler{rnd: rand.New(rand.NewPCG(1, 260)), full: true}
	fresh["entry NoteDelegation, sending"] = encode(t, f.entry(machine.NoteDelegation{}, &machine.StepDelegated{}))
	head := &filler{rnd: rand.New(rand.NewPCG(1, 261)), full: true}
	fresh["head, sending"] = EncodeHead(head.state(), [32]byte{26})
}
