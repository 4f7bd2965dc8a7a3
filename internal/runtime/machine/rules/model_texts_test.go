package rules

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestKnownTexts: a run remembers where the last texts of its requests are, and no more of
// them than its bound; those that a record has are not remembered again.
func TestKnownTexts(t *testing.T) {
	t.Parallel()
	g, err := parseGraph("entry a\nstate a: Go->a\noptions pending=99")
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger(t, g)
	ask := func(round int, system machine.ModelText) {
		t.Helper()
		c := machine.RequestModel{TurnSeq: 1, Attempt: 1, Round: round, Model: &machine.ModelRequest{Model: "m", System: system}}
		if _, err := l.apply(machine.Input{At: epoch, Principal: "app", Command: c, Semantics: machine.Current}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.apply(machine.Input{At: epoch, Principal: "app", Command: machine.Start{RunID: "R", Execution: machine.Caller}}); err != nil {
		t.Fatal(err)
	}
	const most = machine.MaxTextRefs
	for i := range most + 3 {
		text := fmt.Sprint("text ", i)
		ask(i+1, machine.ModelText{Hash: sha256.Sum256([]byte(text)), Text: text})
	}
	texts := l.state.Texts
	if len(texts) != most || texts[0].Hash != sha256.Sum256([]byte("text 3")) || texts[0].Seq != 5 || texts[most-1].Seq != l.state.Seq {
		t.Fatalf("%d texts, from record %d to %d", len(texts), texts[0].Seq, texts[len(texts)-1].Seq)
	}
	ask(most+4, machine.ModelText{Hash: texts[0].Hash, Seq: texts[0].Seq})
	if got := l.state.Texts; len(got) != most || got[0] != texts[0] || got[most-1] != texts[most-1] {
		t.Errorf("a text that a record has is remembered again: %v", got)
	}
	l.replay()
}
