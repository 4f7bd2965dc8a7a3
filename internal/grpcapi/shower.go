package grpcapi

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// maxShownGraphs bounds the runs whose graph one reader's shower remembers.
const maxShownGraphs = 8192

// shower converts the records that one reader reads. It looks up what a record
// alone does not tell: the media types of its run's artifacts, and the final
// artifacts of a run that ended. Not safe for concurrent use.
type shower struct {
	s      *runService
	call   runtime.Call
	graphs *cache.LRU[string, *machine.Graph]
}

func newShower(s *runService, call runtime.Call) *shower {
	return &shower{s: s, call: call, graphs: cache.New[string, *machine.Graph](maxShownGraphs)}
}

// item converts a row of a watch.
func (sh *shower) item(ctx context.Context, row *runtime.RecordRow) (*pawlv1.StreamTransitionsResponse, error) {
	record, err := sh.record(ctx, row)
	if err != nil {
		return nil, err
	}
	out := &pawlv1.StreamTransitionsResponse{Item: &pawlv1.StreamTransitionsResponse_Record{Record: record}}
	if row.Snapshot == nil {
		return out, nil
	}
	run, err := sh.s.run(ctx, sh.call.Namespace, row.Snapshot.State)
	out.Snapshot = &pawlv1.Snapshot{Run: run, Artifacts: convert.ArtifactsToProto(row.Snapshot.State.Artifacts, row.Snapshot.Artifacts)}
	return out, err
}

// encoded is item of a row without a snapshot, in bytes that its readers share.
func (sh *shower) encoded(ctx context.Context, row *runtime.RecordRow) (wireMessage, error) {
	place := recordPlace{sh.namespace(), row.Cursor.Position, row.Cursor.Index, row.PrevSeq}
	return sh.s.sent.of(place, func() (wireMessage, error) {
		item, err := sh.item(ctx, row)
		if err != nil {
			return nil, err
		}
		return proto.Marshal(item)
	})
}

// namespace is the one that is read, by name.
func (sh *shower) namespace() string {
	if sh.call.Namespace == "" {
		return runtime.DefaultNamespace
	}
	return sh.call.Namespace
}

func (sh *shower) record(ctx context.Context, row *runtime.RecordRow) (*pawlv1.Record, error) {
	var graph *machine.Graph
	if len(machine.Written(row.Record.Body)) > 0 {
		var err error
		if graph, err = sh.graph(ctx, row.RunID); err != nil {
			return nil, err
		}
	}
	var final []*pawlv1.Artifact
	if _, ended := row.Record.Body.(*machine.Ended); ended {
		var err error
		if final, err = sh.s.finalArtifacts(ctx, sh.ref(row.RunID), row.Record.Seq); err != nil {
			return nil, err
		}
	}
	return convert.RecordToProto(row, convert.DeclaredTypes(graph), final), nil
}

func (sh *shower) ref(run string) runtime.RunRef { return runtime.RunRef{Call: sh.call, RunID: run} }

func (sh *shower) graph(ctx context.Context, run string) (*machine.Graph, error) {
	if graph, ok := sh.graphs.Get(run); ok {
		return graph, nil
	}
	state, err := sh.s.views.StateAt(ctx, sh.ref(run), 0)
	if err != nil {
		return nil, err
	}
	graph, err := sh.s.views.Graph(ctx, sh.call.Namespace, state)
	if err != nil {
		return nil, err
	}
	sh.graphs.Put(run, graph, 1)
	return graph, nil
}

func heartbeatToProto(at runtime.Cursor) *pawlv1.StreamTransitionsResponse {
	return &pawlv1.StreamTransitionsResponse{Item: &pawlv1.StreamTransitionsResponse_Heartbeat{
		Heartbeat: &pawlv1.Heartbeat{Cursor: at.String(), At: timestamppb.Now()},
	}}
}
