package machine

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// journal is a short run of the loop graph.
func journal(t *testing.T) *ledger {
	t.Helper()
	l := newLedger(t, loopGraph())
	commands := []Command{
		Start{RunID: "R", Execution: Workers, Input: textPart("hello")},
		CompleteTurn{TurnSeq: 1, Attempt: 1, Output: textPart("plan"), Event: "PlanReady", Assigned: &Assignment{Worker: "w", Delivery: 1}},
		EmitEvent{Event: "CodeReady", Artifacts: []ArtifactWrite{{Name: "commit_sha", Value: []byte("abc123")}}},
		EmitEvent{Event: "TestsFailed", Artifacts: []ArtifactWrite{{Name: "test_report", Value: []byte(`{"passed":2}`)}}},
	}
	for i, c := range commands {
		if _, err := l.apply(Input{At: epoch + int64(i), Principal: "app", Command: c}); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// TestReplayNamesFirstBadRecord: an edited journal is named by its first bad seq.
func TestReplayNamesFirstBadRecord(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		edit   func([]Entry) []Entry
		seq    uint64
		detail string
	}{
		{"changed field", func(e []Entry) []Entry {
			tr := *e[2].Records[0].Body.(*Transition)
			tr.To = "done"
			e[2].Records = []Record{{Seq: 6, At: e[2].Records[0].At, Principal: "app", Body: &tr}}
			return e
		}, 6, ".Body.To"},
		{"changed artifact", func(e []Entry) []Entry {
			tr := *e[2].Records[0].Body.(*Transition)
			tr.Artifacts = []ArtifactWrite{{Name: "commit_sha", Value: []byte("abc124")}}
			e[2].Records = []Record{{Seq: 6, At: e[2].Records[0].At, Principal: "app", Body: &tr}}
			return e
		}, 6, ".Body.Artifacts[0].Value[5]"},
		{"changed principal", func(e []Entry) []Entry {
			e[0].Records = append([]Record(nil), e[0].Records...)
			e[0].Records[1].Principal = "mallory"
			return e
		}, 2, ".Principal"},
		{"other kind", func(e []Entry) []Entry {
			e[2].Records = []Record{{Seq: 6, At: e[2].Records[0].At, Principal: "app", Body: &Ended{}}}
			return e
		}, 6, "(kind)"},
		{"record dropped", func(e []Entry) []Entry {
			e[1].Records = e[1].Records[:2]
			return e
		}, 5, "missing"},
		{"record added", func(e []Entry) []Entry {
			e[1].Records = append(e[1].Records[:3:3], e[1].Records[0])
			return e
		}, 6, "no such record"},
		{"entry dropped", func(e []Entry) []Entry { return append(e[:2:2], e[3]) }, 6, "begins with record 7"},
		{"first entry dropped", func(e []Entry) []Entry { return e[1:] }, 1, "begins with record 3"},
		{"input that is refused", func(e []Entry) []Entry {
			e[2].Input.Command = EmitEvent{Event: "Nope"}
			return e
		}, 6, "UNKNOWN_EVENT"},
		{"input without effect", func(e []Entry) []Entry {
			e[2].Input.Command = Resume{}
			return e
		}, 6, "changes nothing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := journal(t)
			s, err := Replay(l.g, tt.edit(l.entries))
			var bad *ReplayError
			if s != nil || !errors.As(err, &bad) {
				t.Fatalf("replay gives %v, %v", s, err)
			}
			if bad.Seq != tt.seq || !strings.Contains(bad.Detail, tt.detail) {
				t.Fatalf("replay says %v, want record %d: ...%s", err, tt.seq, tt.detail)
			}
		})
	}
}

// TestReplayFrom goes on from any state in between.
func TestReplayFrom(t *testing.T) {
	t.Parallel()
	l := journal(t)
	for i := range l.entries {
		s, err := Replay(l.g, l.entries[:i])
		if err != nil {
			t.Fatal(err)
		}
		s, err = ReplayFrom(l.g, s, l.entries[i:])
		if err != nil || !reflect.DeepEqual(s, l.state) {
			t.Fatalf("from entry %d: %+v, %v", i, s, err)
		}
	}
}

// TestEqualRecords: storage does not tell an empty list from none.
func TestEqualRecords(t *testing.T) {
	t.Parallel()
	none := Record{Seq: 1, Body: &TurnCompleted{}}
	empty := Record{Seq: 1, Body: &TurnCompleted{Output: []Part{}, Artifacts: []ArtifactWrite{}}}
	if !EqualRecords(none, empty) {
		t.Error("none and empty differ")
	}
	for _, other := range []Record{
		{Seq: 2, Body: &TurnCompleted{}},
		{Seq: 1, Body: &TurnCompleted{Output: []Part{{}}}},
		{Seq: 1, Body: &TurnFailed{}},
		{Seq: 1},
		{Seq: 1, Body: &Origin{State: &State{}}},
	} {
		if EqualRecords(none, other) || EqualRecords(other, none) {
			t.Errorf("%+v is said to be equal", other)
		}
	}
	if EqualRecords(Record{Body: &Origin{}}, Record{Body: &Origin{State: &State{}}}) {
		t.Error("a missing state is said to be equal")
	}
}
