package codec

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// payerSamples were grown by runs of agents that count themselves in accounts of other runs.
func payerSamples(t *testing.T, fresh map[string][]byte) {
	t.Helper()
	for i, c := range []machine.Command{machine.Start{}, machine.RequestSteps{}} {
		f := &filler{rnd: rand.New(rand.NewPCG(uint64(i), 270)), full: true}
		fresh[fmt.Sprintf("entry %T, payer", c)] = encode(t, f.entry(c, &machine.StepRequested{}))
	}
	head := &filler{rnd: rand.New(rand.NewPCG(1, 271)), full: true}
	fresh["head, payer"] = EncodeHead(head.state(), [32]byte{27})
}
