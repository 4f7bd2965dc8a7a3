package codec

import (
	"math/rand/v2"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// callerSamples were grown by steps that their caller makes.
func callerSamples(t *testing.T, fresh map[string][]byte) {
	t.Helper()
	f := &filler{rnd: rand.New(rand.NewPCG(1, 280)), full: true}
	fresh["entry RequestSteps, by caller"] = encode(t, f.entry(machine.RequestSteps{}, &machine.StepRequested{}))
	head := &filler{rnd: rand.New(rand.NewPCG(1, 281)), full: true}
	fresh["head, by caller"] = EncodeHead(head.state(), [32]byte{28})
}

// repeatableSamples were grown by steps that may be repeated after an unknown outcome.
func repeatableSamples(t *testing.T, fresh map[string][]byte) {
	t.Helper()
	f := &filler{rnd: rand.New(rand.NewPCG(1, 300)), full: true}
	fresh["entry RequestSteps, repeatable"] = encode(t, f.entry(machine.RequestSteps{}, &machine.StepRequested{}))
	head := &filler{rnd: rand.New(rand.NewPCG(1, 301)), full: true}
	fresh["head, repeatable"] = EncodeHead(head.state(), [32]byte{30})
}
