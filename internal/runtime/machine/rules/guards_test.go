package rules

import (
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// An input that a host made up wrongly is refused whole: a fork without its source, without the value of an
// artifact, or with a conversation of no state, and any input of an imported run. Scenarios cannot say these.
func TestWhatNoHostMaySay(t *testing.T) {
	t.Parallel()
	g, err := parseGraph("entry a\nstate a: Go->b\nstate b: terminal\nartifact plan text/plain")
	if err != nil {
		t.Fatal(err)
	}
	from := func(change func(s *machine.State)) *machine.State {
		s := &machine.State{Digest: g.Digest, RunID: "R", Status: machine.Running, Current: "a", Seq: 1, VisitSeq: 1}
		change(s)
		return s
	}
	whole := from(func(*machine.State) {})
	fork := func(c machine.Fork) machine.Command {
		c.RunID, c.Execution = "F", machine.Caller
		return c
	}
	for name, row := range map[string]struct {
		state   *machine.State
		command machine.Command
		reason  string
	}{
		"a fork":                        {nil, fork(machine.Fork{From: whole}), ""},
		"a fork without its source":     {nil, fork(machine.Fork{}), "FORK_INVALID"},
		"a fork without a value":        {nil, fork(machine.Fork{From: from(func(s *machine.State) { s.Artifacts = []machine.ArtifactHead{{Name: "plan", Type: "text/plain"}} })}), "FORK_INVALID"},
		"a conversation of no state":    {nil, fork(machine.Fork{From: whole, Conversations: []machine.ConversationCopy{{State: "gone"}}}), "FORK_INVALID"},
		"an input of an imported run":   {from(func(s *machine.State) { s.Imported = true }), machine.Cancel{}, "IMPORTED"},
		"an input of a run that is one": {whole, machine.Cancel{}, ""},
	} {
		_, err := Step(g, row.state, machine.Input{At: epoch, Principal: "app", Semantics: machine.Current, Command: row.command})
		refusal, _ := errors.AsType[*machine.Error](err)
		switch {
		case row.reason == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case row.reason != "" && (refusal == nil || refusal.Reason != row.reason):
			t.Errorf("%s: %v, want a refusal %s", name, err, row.reason)
		}
	}
}
