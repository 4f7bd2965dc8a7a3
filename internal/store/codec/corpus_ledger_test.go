package codec

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// ledgerSamples were grown by the ledger: a start has a lease, a step a bound, and what is
// cancelled says what is taken for consumed.
func ledgerSamples(t *testing.T, fresh map[string][]byte) {
	t.Helper()
	for i, c := range []machine.Command{machine.Start{}, machine.ResolveStep{}} {
		f := &filler{rnd: rand.New(rand.NewPCG(uint64(i), 220)), full: true}
		fresh[fmt.Sprintf("entry %T, ledger", c)] = encode(t, f.entry(c, &machine.TurnReady{}))
	}
	f := &filler{rnd: rand.New(rand.NewPCG(1, 221)), full: true}
	fresh["entry *machine.StepCancelled, ledger"] = encode(t, f.entry(machine.Pause{}, &machine.StepCancelled{}))
	head := &filler{rnd: rand.New(rand.NewPCG(1, 222)), full: true}
	fresh["head, ledger"] = EncodeHead(head.state(), [32]byte{11})
	owed := &filler{rnd: rand.New(rand.NewPCG(2, 222)), full: true}
	fresh["head, calls owed"] = EncodeHead(owed.state(), [32]byte{12})
}
