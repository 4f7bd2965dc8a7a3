package codec

import (
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// transition is what one EmitEvent with one artifact of 256 bytes makes, in a
// pack of eight states.
func transition() (machine.Entry, *machine.State) {
	writes := []machine.ArtifactWrite{{Name: "test_report", Value: make([]byte, 256)}}
	e := machine.Entry{First: 40, Input: machine.Input{
		At: 1_800_000_000_000_000_000, Principal: "anonymous", ID: "event-000040", BodyHash: [32]byte{1},
		Command: machine.EmitEvent{Event: "TestsPassed", Artifacts: writes, ExpectedSeq: 39},
	}}
	e.Records = []machine.Record{{Seq: 40, At: e.Input.At, Principal: "anonymous", Body: &machine.Transition{
		From: "test", Event: "TestsPassed", To: "review", Intended: "review", Visit: 5, Total: 40, Cause: machine.CauseEvent, Artifacts: writes,
	}}}
	st := &machine.State{
		RunID: "01JABCDEFGHJKMNPQRSTVWXYZ0", Digest: fmt.Sprintf("sha256:%064d", 0), PackID: "codegen", PackVersion: "1.0.0", Entry: "plan",
		Execution: machine.Caller, Limits: machine.Limits{MaxTransitions: 10000, MaxArtifactBytes: 65536, MaxRunArtifactBytes: 1 << 20, MaxMessageBytes: 4 << 20, MaxQueuedInputs: 16},
		Seq: 40, CreatedAt: e.Input.At, At: e.Input.At, Status: machine.Running, Current: "review", VisitSeq: 40, TotalVisits: 40, Transitions: 40,
		Turn: &machine.Turn{Seq: 40, Attempt: 1}, ArtifactBytes: 10240,
		Artifacts: []machine.ArtifactHead{{Name: "test_report", Type: "application/json", Mode: machine.Append, Seq: 40, Writes: 40, Bytes: 10240, Hash: [32]byte{5}}},
	}
	for i := range 8 {
		st.Visits = append(st.Visits, machine.Count{State: fmt.Sprintf("state-%d", i), N: 5})
	}
	return e, st
}

func BenchmarkEncodeTransition(b *testing.B) {
	e, st := transition()
	b.ReportAllocs()
	for b.Loop() {
		value, hash, err := EncodeEntry(e.PrevHash, e.First, &e.Input, e.Records)
		if err != nil {
			b.Fatal(err)
		}
		head := EncodeHead(st, hash)
		b.SetBytes(int64(len(value) + len(head)))
	}
}

func BenchmarkDecodeEntry(b *testing.B) {
	e, _ := transition()
	value, _, err := EncodeEntry(e.PrevHash, e.First, &e.Input, e.Records)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeEntry("run", value); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeHead(b *testing.B) {
	_, st := transition()
	value := EncodeHead(st, [32]byte{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeHead(value); err != nil {
			b.Fatal(err)
		}
	}
}
