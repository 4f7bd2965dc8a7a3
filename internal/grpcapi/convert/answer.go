package convert

import (
	"slices"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Answer is the engine's answer to a call, with everything that the response needs.
type Answer struct {
	runtime.Answer
	// Cursors returns the cursor of a record of an entry.
	Cursors interface {
		CursorAt(entry *machine.Entry, i int) runtime.Cursor
	}
}

// DeclaredTypes returns the media types of artifacts that a graph declares.
func DeclaredTypes(graph *machine.Graph) MediaTypes {
	return func(artifact string) string {
		if graph == nil {
			return ""
		}
		return graph.Artifacts[artifact].Type
	}
}

// Record converts the answer's first record of a kind. It returns nil if there is none.
func (a *Answer) Record(kind machine.RecordKind) *pawlv1.Record {
	i := slices.IndexFunc(a.Entry.Records, func(r machine.Record) bool { return machine.RecordKindOf(r.Body) == kind })
	if i < 0 {
		return nil
	}
	rec := a.Entry.Records[i]
	row := &runtime.RecordRow{
		RunID: a.RunID, Record: rec, PrevSeq: rec.Seq - 1, Cursor: a.Cursors.CursorAt(&a.Entry, i),
		PrevHash: a.Entry.PrevHash, Hash: a.Entry.Hash,
	}
	var final []*pawlv1.Artifact
	if a.Final != nil {
		final = ArtifactsToProto(a.State.Artifacts, a.Final)
	}
	return RecordToProto(row, DeclaredTypes(a.Graph), final)
}

// Status returns the status of the run after the input.
func (a *Answer) Status() pawlv1.RunStatus {
	if a.State == nil {
		return pawlv1.RunStatus_RUN_STATUS_UNSPECIFIED
	}
	return pawlv1.RunStatus(a.State.Status)
}

// Seq returns the number of the run's newest record after the input.
func (a *Answer) Seq() uint64 {
	if a.State == nil {
		return 0
	}
	return a.State.Seq
}

// TurnRef returns the open turn after the input, or nil.
func (a *Answer) TurnRef() *pawlv1.TurnRef {
	if a.State == nil {
		return nil
	}
	return turnToProto(a.State, a.Turn)
}

// Run returns the run after the input.
func (a *Answer) Run(namespace string) *pawlv1.Run {
	return RunToProto(namespace, a.State, AllowedEvents(a.Graph, a.State))
}

// AllowedEvents returns the events that the current state declares, sorted. It returns none if the
// state is terminal or the run has ended.
func AllowedEvents(graph *machine.Graph, s *machine.State) []string {
	node := graph.States[s.Current]
	if node == nil || node.Terminal || s.Status.Terminal() {
		return nil
	}
	events := make([]string, 0, len(node.OnEvent))
	for event := range node.OnEvent {
		events = append(events, event)
	}
	slices.Sort(events)
	return events
}
