package history

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// TestFollowProves: a tail whose records are not what its inputs make, or whose entries do
// not follow one another, is served as no state.
func TestFollowProves(t *testing.T) {
	t.Parallel()
	g := &machine.Graph{
		Digest: "d", Entry: "a",
		States:    map[string]*machine.Node{"a": {Name: "a", Artifacts: []string{"note"}}},
		Artifacts: map[string]machine.Artifact{"note": {Type: "text/plain"}},
	}
	begun, err := rules.Step(g, nil, machine.Input{At: 1, Command: machine.Start{RunID: "r", Execution: machine.Caller}, Semantics: machine.Current})
	if err != nil {
		t.Fatal(err)
	}
	head := *begun.State
	head.PrevHash = [32]byte{1}
	in := machine.Input{At: 2, Semantics: machine.Current, Command: machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "note", Value: []byte("x")}}}}
	next, err := rules.Step(g, &head, in)
	if err != nil {
		t.Fatal(err)
	}
	entry := machine.Entry{RunID: "r", First: head.Seq + 1, PrevHash: head.PrevHash, Hash: [32]byte{2}, Input: in, Records: next.Batch.Records}
	got, err := ApplyEntries(g, &head, []machine.Entry{entry})
	if err != nil || got.Seq != next.State.Seq || got.PrevHash != entry.Hash {
		t.Fatalf("%+v, %v", got, err)
	}
	torn := entry
	torn.PrevHash = [32]byte{9}
	other := entry
	other.Records = append([]machine.Record{}, entry.Records...)
	other.Records[0].At++
	for want, tail := range map[string]machine.Entry{"does not follow": torn, "record 2": other} {
		if got, err := ApplyEntries(g, &head, []machine.Entry{tail}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v, want %q", got, err, want)
		}
	}
}
