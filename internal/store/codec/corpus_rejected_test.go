package codec

import (
	"math/rand/v2"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// rejectedSamples were grown by answers of models that are rejected.
func rejectedSamples(t *testing.T, fresh map[string][]byte) {
	t.Helper()
	f := &filler{rnd: rand.New(rand.NewPCG(1, 290)), full: true}
	fresh["entry FailTurn, an answer rejected"] = encode(t, f.entry(machine.FailTurn{}, &machine.TurnFailed{}))
	head := &filler{rnd: rand.New(rand.NewPCG(1, 291)), full: true}
	fresh["head, an answer rejected"] = EncodeHead(head.state(), [32]byte{29})
}
