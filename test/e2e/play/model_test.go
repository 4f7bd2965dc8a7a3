package play

import (
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestModelFindsWhatIsWrong: histories that no sidecar may have, and one with a lost answer
// that it may.
func TestModelFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	start := runOp{run: "r", id: "s", command: machine.Start{RunID: "R", Execution: machine.Caller, Variables: []byte("{}")}}
	round := func(expected uint64) runOp {
		return runOp{run: "r", command: machine.EmitEvent{Event: "Round", ExpectedSeq: expected, Outside: true}}
	}
	moved := func(seq uint64) *runAnswer { return &runAnswer{seq: seq, state: "desk"} }
	for name, c := range map[string]struct {
		calls []runOp
		// answers come one behind the other.
		answers []*runAnswer
		want    porcupine.CheckResult
	}{
		"as it should be":      {[]runOp{start, round(0), round(3), {run: "r"}}, []*runAnswer{{seq: 1}, moved(3), moved(5), moved(5)}, porcupine.Ok},
		"lost after an answer": {[]runOp{start, round(0), round(1)}, []*runAnswer{{seq: 1}, moved(3), moved(3)}, porcupine.Illegal},
		"two winners":          {[]runOp{start, round(1), round(1)}, []*runAnswer{{seq: 1}, moved(3), moved(5)}, porcupine.Illegal},
		"made twice":           {[]runOp{start, round(0), {run: "r"}}, []*runAnswer{{seq: 1}, moved(3), moved(5)}, porcupine.Illegal},
		"a stale read":         {[]runOp{start, round(0), {run: "r"}}, []*runAnswer{{seq: 1}, moved(3), moved(1)}, porcupine.Illegal},
		"two first starts":     {[]runOp{start, round(0), start}, []*runAnswer{{seq: 1}, moved(3), {seq: 4}}, porcupine.Illegal},
		"happened, unanswered": {[]runOp{start, round(0), {run: "r"}}, []*runAnswer{{seq: 1}, nil, moved(3)}, porcupine.Ok},
		"never happened":       {[]runOp{start, round(0), round(1)}, []*runAnswer{{seq: 1}, nil, moved(3)}, porcupine.Ok},
		"happened by halves":   {[]runOp{start, round(0), {run: "r"}}, []*runAnswer{{seq: 1}, nil, {seq: 2, state: "desk"}}, porcupine.Illegal},
	} {
		var history []porcupine.Operation
		for i, op := range c.calls {
			done := int64(2*i + 1)
			if c.answers[i] == nil {
				done = 1 << 40
			}
			history = append(history, porcupine.Operation{ClientId: i, Input: op, Call: int64(2 * i), Output: c.answers[i], Return: done})
		}
		if got := porcupine.CheckOperationsTimeout(runModel(t, "../testdata/desk.pack.yaml"), history, callTimeout); got != c.want {
			t.Errorf("%s: %v instead of %v", name, got, c.want)
		}
	}
}
