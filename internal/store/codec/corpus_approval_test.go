package codec

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// approvalSamples were grown by approvals: a call is held, and decided about.
func approvalSamples(t *testing.T, fresh map[string][]byte) {
	t.Helper()
	for i, pair := range []struct {
		command machine.Command
		body    machine.Body
	}{
		{machine.DecideStep{}, &machine.StepDecided{}},
		{machine.RequestSteps{}, &machine.StepRequested{}},
	} {
		f := &filler{rnd: rand.New(rand.NewPCG(uint64(i), 200)), full: true}
		fresh[fmt.Sprintf("entry %T, approvals", pair.command)] = encode(t, f.entry(pair.command, pair.body))
	}
	edit := machine.DecideStep{Step: 1, Verdict: machine.Edited, Payload: []byte(`{"amount":5}`)}
	f := &filler{rnd: rand.New(rand.NewPCG(3, 200)), full: true}
	e := f.entry(machine.Pause{}, &machine.TurnReady{})
	e.Input.Command = edit
	e.Records = []machine.Record{{Seq: e.First, At: e.Input.At, Principal: e.Input.Principal, Body: &machine.StepDecided{
		Step: 1, Tool: "t", Verdict: machine.Edited, Payload: edit.Payload,
	}}}
	fresh["entry of an edit that its record repeats"] = encode(t, e)
	head := &filler{rnd: rand.New(rand.NewPCG(1, 202)), full: true}
	fresh["head, approvals"] = EncodeHead(head.state(), [32]byte{12})
}
