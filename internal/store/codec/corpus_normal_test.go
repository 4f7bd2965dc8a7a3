package codec

import (
	"math/rand/v2"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// normalSamples were grown by normal answers of models (ADR 0087).
func normalSamples(t *testing.T, fresh map[string][]byte) {
	t.Helper()
	f := &filler{rnd: rand.New(rand.NewPCG(1, 300)), full: true}
	fresh["entry AnswerModel, a normal answer"] = encode(t, f.entry(machine.AnswerModel{}, &machine.StepResolved{}))
}
