package grpcapi

import (
	"context"
	"slices"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/blob"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/travel"
)

// runService is pawl.v1.RunService. What drives a run is in run_drive.go, the
// work on its turns in run_turn.go, what only reads in run_read.go and
// run_stream.go; Drive in drive.go.
type runService struct {
	pawlv1.UnimplementedRunServiceServer
	engine *runtime.Engine
	blobs  *blob.Room
	travel *travel.Room
	auth   *authenticator
	// draining is closed when streams have to end because the server does.
	draining <-chan struct{}
	// streams bounds the streams and waits that are open at once.
	streams  *openStreams
	settings *settingsCache
	tally    *tally
	// sent are the records that were sent lately, as bytes.
	sent *recordBytes
	// commands makes those of Drive.
	commands *commander
}

// answer is an engine's answer on its way into a response.
type answer struct {
	runtime.Answer
	engine *runtime.Engine
	types  mediaTypes
	final  []*pawlv1.Artifact
}

// answer collects what the records of an answer are shown with. It takes the
// engine's answer with its error, which it returns as it is.
func (s *runService) answer(ctx context.Context, call runtime.Call, got runtime.Answer, err error) (*answer, error) {
	if err != nil {
		return nil, err
	}
	a := &answer{Answer: got, engine: s.engine, types: declaredTypes(nil)}
	if got.State == nil {
		return a, nil
	}
	graph, err := s.engine.Graph(ctx, call.Namespace, got.State)
	if err != nil {
		return nil, err
	}
	a.types = declaredTypes(graph)
	if a.find(machine.RecEnded) >= 0 {
		a.final, err = s.finalArtifacts(ctx, runtime.RunRef{Call: call, RunID: got.RunID}, got.State.Seq)
	}
	return a, err
}

// finalArtifacts reads the artifacts of a run that ended; a principal that may
// not read runs is told none.
func (s *runService) finalArtifacts(ctx context.Context, ref runtime.RunRef, seq uint64) ([]*pawlv1.Artifact, error) {
	if !ref.Principal.Scopes.Any(runtime.ScopeRunsRead | runtime.ScopeRunsWrite) {
		return nil, nil
	}
	view, err := s.engine.GetRun(ctx, runtime.GetRunRequest{RunRef: ref, AtSeq: seq, Artifacts: true})
	if err != nil {
		return nil, err
	}
	return artifactsToProto(view.State.Artifacts, view.Artifacts), nil
}

// declaredTypes reads media types off a graph.
func declaredTypes(graph *machine.Graph) mediaTypes {
	return func(artifact string) string {
		if graph == nil {
			return ""
		}
		return graph.Artifacts[artifact].Type
	}
}

func (a *answer) find(kind machine.RecordKind) int {
	return slices.IndexFunc(a.Entry.Records, func(r machine.Record) bool { return machine.RecordKindOf(r.Body) == kind })
}

// record converts the answer's first record of a kind; nil if there is none.
func (a *answer) record(kind machine.RecordKind) *pawlv1.Record {
	i := a.find(kind)
	if i < 0 {
		return nil
	}
	rec := a.Entry.Records[i]
	return recordToProto(&runtime.RecordRow{
		RunID: a.RunID, Record: rec, PrevSeq: rec.Seq - 1, Cursor: a.engine.CursorAt(&a.Entry, i),
		PrevHash: a.Entry.PrevHash, Hash: a.Entry.Hash,
	}, a.types, a.final)
}

func (a *answer) status() pawlv1.RunStatus {
	if a.State == nil {
		return pawlv1.RunStatus_RUN_STATUS_UNSPECIFIED
	}
	return pawlv1.RunStatus(a.State.Status)
}

func (a *answer) seq() uint64 {
	if a.State == nil {
		return 0
	}
	return a.State.Seq
}

func (a *answer) turn() *pawlv1.TurnRef {
	if a.State == nil {
		return nil
	}
	return turnToProto(a.State, a.Turn)
}

// run converts a state with what its graph says of it.
func (s *runService) run(ctx context.Context, namespace string, state *machine.State) (*pawlv1.Run, error) {
	graph, err := s.engine.Graph(ctx, namespace, state)
	if err != nil {
		return nil, err
	}
	return runToProto(namespace, state, allowedEvents(graph, state)), nil
}

// allowedEvents are those that the current state declares, sorted; none if it is
// terminal or the run is.
func allowedEvents(graph *machine.Graph, s *machine.State) []string {
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
