package rules

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// journal is a short run of the loop graph.
func journal(t *testing.T) *ledger {
	t.Helper()
	l := newLedger(t, loopGraph())
	commands := []machine.Command{
		machine.Start{RunID: "R", Execution: machine.Workers, Input: textPart("hello")},
		machine.CompleteTurn{TurnSeq: 1, Attempt: 1, Output: textPart("plan"), Event: "PlanReady", Assigned: &machine.Assignment{Worker: "w", Delivery: 1}},
		machine.EmitEvent{Event: "CodeReady", Artifacts: []machine.ArtifactWrite{{Name: "commit_sha", Value: []byte("abc123")}}},
		machine.EmitEvent{Event: "TestsFailed", Artifacts: []machine.ArtifactWrite{{Name: "test_report", Value: []byte(`{"passed":2}`)}}},
	}
	for i, c := range commands {
		if _, err := l.apply(machine.Input{At: epoch + int64(i), Principal: "app", Command: c}); err != nil {
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
		edit   func([]machine.Entry) []machine.Entry
		seq    uint64
		detail string
	}{
		{"changed field", func(e []machine.Entry) []machine.Entry {
			tr := *e[2].Records[0].Body.(*machine.Transition)
			tr.To = "done"
			e[2].Records = []machine.Record{{Seq: 6, At: e[2].Records[0].At, Principal: "app", Body: &tr}}
			return e
		}, 6, ".Body.To"},
		{"changed artifact", func(e []machine.Entry) []machine.Entry {
			tr := *e[2].Records[0].Body.(*machine.Transition)
			tr.Artifacts = []machine.ArtifactWrite{{Name: "commit_sha", Value: []byte("abc124")}}
			e[2].Records = []machine.Record{{Seq: 6, At: e[2].Records[0].At, Principal: "app", Body: &tr}}
			return e
		}, 6, ".Body.Artifacts[0].Value[5]"},
		{"changed principal", func(e []machine.Entry) []machine.Entry {
			e[0].Records = append([]machine.Record(nil), e[0].Records...)
			e[0].Records[1].Principal = "mallory"
			return e
		}, 2, ".Principal"},
		{"other kind", func(e []machine.Entry) []machine.Entry {
			e[2].Records = []machine.Record{{Seq: 6, At: e[2].Records[0].At, Principal: "app", Body: &machine.Ended{}}}
			return e
		}, 6, "(kind)"},
		{"record dropped", func(e []machine.Entry) []machine.Entry {
			e[1].Records = e[1].Records[:2]
			return e
		}, 5, "missing"},
		{"record added", func(e []machine.Entry) []machine.Entry {
			e[1].Records = append(e[1].Records[:3:3], e[1].Records[0])
			return e
		}, 6, "no such record"},
		{"entry dropped", func(e []machine.Entry) []machine.Entry { return append(e[:2:2], e[3]) }, 6, "begins with record 7"},
		{"first entry dropped", func(e []machine.Entry) []machine.Entry { return e[1:] }, 1, "begins with record 3"},
		{"input that is refused", func(e []machine.Entry) []machine.Entry {
			e[2].Input.Command = machine.EmitEvent{Event: "Nope"}
			return e
		}, 6, "UNKNOWN_EVENT"},
		{"input without effect", func(e []machine.Entry) []machine.Entry {
			e[2].Input.Command = machine.Resume{}
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
	none := machine.Record{Seq: 1, Body: &machine.TurnCompleted{}}
	empty := machine.Record{Seq: 1, Body: &machine.TurnCompleted{Output: []machine.Part{}, Artifacts: []machine.ArtifactWrite{}}}
	if !EqualRecords(none, empty) {
		t.Error("none and empty differ")
	}
	for _, other := range []machine.Record{
		{Seq: 2, Body: &machine.TurnCompleted{}},
		{Seq: 1, Body: &machine.TurnCompleted{Output: []machine.Part{{}}}},
		{Seq: 1, Body: &machine.TurnFailed{}},
		{Seq: 1},
		{Seq: 1, Body: &machine.Origin{State: &machine.State{}}},
	} {
		if EqualRecords(none, other) || EqualRecords(other, none) {
			t.Errorf("%+v is said to be equal", other)
		}
	}
	if EqualRecords(machine.Record{Body: &machine.Origin{}}, machine.Record{Body: &machine.Origin{State: &machine.State{}}}) {
		t.Error("a missing state is said to be equal")
	}
}

func TestDiffOfStates(t *testing.T) {
	t.Parallel()
	a := &machine.State{
		Visits: []machine.Count{{State: "plan", N: 2}, {State: "work", N: 1}}, Edges: []machine.EdgeCount{{State: "plan", Event: "Ready", N: 1}},
		TotalVisits: 3, LastStep: 4, ModelSteps: 2, Tokens: 7, ArtifactBytes: 5,
	}
	b := &machine.State{
		Visits: []machine.Count{{State: "work", N: 1}, {State: "check", N: 4}, {State: "plan", N: 1}}, Edges: []machine.EdgeCount{{State: "plan", Event: "Ready", N: 1}, {State: "work", Event: "Again", N: 2}},
		TotalVisits: 3, LastStep: 6, ModelSteps: 1, Forked: &machine.Forked{Steps: 2}, Tokens: 7, ArtifactBytes: 5, CostMicro: 1,
	}
	for _, tt := range []struct {
		what      string
		got, want []machine.CountChange
	}{
		{"visits", DiffVisits(a, b), []machine.CountChange{{Name: "check", Base: 0, Other: 4}, {Name: "plan", Base: 2, Other: 1}}},
		{"edges", DiffEdges(a, b), []machine.CountChange{{Name: "work.Again", Base: 0, Other: 2}}},
		{"budgets", DiffBudgets(a, b), []machine.CountChange{{Name: "steps", Base: 2, Other: 3}, {Name: "model_calls", Base: 2, Other: 1}, {Name: "cost_micro_usd", Base: 0, Other: 1}}},
		{"the same", append(append(DiffVisits(a, a), DiffEdges(b, b)...), DiffBudgets(b, b)...), nil},
	} {
		if !reflect.DeepEqual(tt.got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.what, tt.got, tt.want)
		}
	}
}
