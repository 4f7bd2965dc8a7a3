package codec

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// effectSamples were grown by the effects of tools: business keys, then steps of the
// sidecar's own and what they are about.
func effectSamples(t *testing.T, fresh map[string][]byte) {
	t.Helper()
	f := &filler{rnd: rand.New(rand.NewPCG(1, 240)), full: true}
	fresh["entry of requests, business keys"] = encode(t, f.entry(machine.RequestSteps{}, &machine.TurnReady{}))
	f = &filler{rnd: rand.New(rand.NewPCG(2, 240)), full: true}
	fresh["head, business keys"] = EncodeHead(f.state(), [32]byte{24})
	for i, b := range []machine.Body{&machine.StepRequested{}, &machine.Transition{}, &machine.Ended{}, &machine.CompensationStarted{}} {
		f = &filler{rnd: rand.New(rand.NewPCG(uint64(i), 241)), full: true}
		fresh[fmt.Sprintf("entry %T, effects", b)] = encode(t, f.entry(machine.Pause{}, b))
	}
	f = &filler{rnd: rand.New(rand.NewPCG(4, 241)), full: true}
	begun := f.entry(machine.EmitEvent{}, &machine.CompensationStarted{})
	echo(begun.Records[0].Body, begun.Input.Command)
	begun.Input.Fills = []machine.Fill{{Step: 7, Payload: []byte(`{"tool":"charge"}`), Hash: [32]byte{1}}, {Step: 8}}
	fresh["entry with payloads that the host made"] = encode(t, begun)
	f = &filler{rnd: rand.New(rand.NewPCG(9, 241)), full: true}
	fresh["head, effects"] = EncodeHead(f.state(), [32]byte{25})
}
