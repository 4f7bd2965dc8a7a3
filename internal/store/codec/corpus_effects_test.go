package codec

import (
	"math/rand/v2"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// effectSamples were grown by the effects of tools: business keys.
func effectSamples(t *testing.T, fresh map[string][]byte) {
	f := &filler{rnd: rand.New(rand.NewPCG(1, 240)), full: true}
	fresh["entry of requests, business keys"] = encode(t, f.entry(machine.RequestSteps{}, &machine.TurnReady{}))
	f = &filler{rnd: rand.New(rand.NewPCG(2, 240)), full: true}
	fresh["head, business keys"] = EncodeHead(f.state(), [32]byte{24})
}
