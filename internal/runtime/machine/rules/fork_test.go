package rules

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestForksOfAnyRun: any run can be forked at any record before its end, with its
// steps or without, and what then happens to the copy is what the naive implementation
// makes of it, keeps every invariant, writes exactly the rows that its state implies, and replays alone.
func TestForksOfAnyRun(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := genGraph(t)
		m, at := &model{t: t, l: newLedger(t, g), n: &naive{g: g}}, epoch
		m.apply(machine.Input{At: at, Principal: "p", Command: genStart(t)})
		for range 3 {
			at = genLife(t, m, at)
			copied := genFork(t, m.l)
			if copied == nil {
				return
			}
			before := clone(copied.From)
			m = &model{t: t, l: newLedger(t, g), n: &naive{g: g}}
			m.apply(machine.Input{At: at, Principal: "q", Command: *copied})
			if before.Undo != nil {
				return
			}
			checkCopy(t, before, m.l.state, copied.ReuseSteps)
		}
		genLife(t, m, at)
		m.l.replay()
	})
}

// genLife gives a run some inputs and returns when the last one came.
func genLife(t *rapid.T, m *model, at int64) int64 {
	for range rapid.IntRange(0, 15).Draw(t, "length") {
		at += int64(rapid.IntRange(0, 10).Draw(t, "seconds")) * int64(time.Second)
		m.apply(machine.Input{At: at, Principal: "p", Command: genCommand(t, m.l.g, m.l.state)})
	}
	return at
}

// genFork picks a record after which the run had not ended; nil if there is none.
func genFork(t *rapid.T, l *ledger) *machine.Fork {
	seq := rapid.Uint64Range(1, l.state.Seq).Draw(t, "seq")
	c := l.forkAt(seq, chance(t, 5))
	if c.From.Status.Terminal() {
		return nil
	}
	c.RunID, c.Execution, c.Limits = "F"+c.From.RunID, c.From.Execution, c.From.Limits
	return &c
}

// checkCopy holds the copy against what section 12 says of it.
func checkCopy(t *rapid.T, from, s *machine.State, reuse bool) {
	if s.Current != from.Current || len(s.Visits) != len(from.Visits) || len(s.Edges) != len(from.Edges) || s.ArtifactBytes != from.ArtifactBytes {
		t.Fatalf("copy %+v\nof %+v", s, from)
	}
	if s.Status.Terminal() {
		return
	}
	if s.TotalVisits+s.Transitions+s.ToolCalls+s.Reframes != 0 || s.Tokens+s.CostMicro != 0 {
		t.Fatalf("totals of the copy: %+v", s)
	}
	if (s.Turn == nil) != (from.Turn == nil) || s.Turn != nil && (s.Turn.Attempt != 1 || s.Turn.Suspended || s.Turn.NotBefore != 0) {
		t.Fatalf("turn %+v, was %+v", s.Turn, from.Turn)
	}
	want := 0
	if reuse {
		want = len(Resolved(from))
	}
	if len(s.Steps) != want || len(PendingSteps(s)) != 0 {
		t.Fatalf("steps %+v, were %+v", s.Steps, from.Steps)
	}
}
