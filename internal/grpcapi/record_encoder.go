package grpcapi

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/grpcapi/redact"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// maxShownGraphs limits the number of runs whose graphs one reader caches.
const maxShownGraphs = 8192

// recordEncoder converts the records for one reader. It also looks up the data that a record does not
// contain: the media types of the run's artifacts, and the final artifacts of a run that has ended. Not
// safe for concurrent use.
type recordEncoder struct {
	s    *runService
	call runtime.Call
	// redacting means that the reader may not see sensitive values.
	redacting bool
	// one means that the reader reads a single run. The stream then ends with the run.
	one    bool
	graphs *cache.LRU[string, shown]
}

// shown is the data about a run that is needed to convert the records of the run.
type shown struct {
	graph *machine.Graph
	rules *redact.Rules
	// pack is the digest of the run's pack.
	pack string
	// erasable means that the values of the run can be erased. A dead letter of a webhook then does not keep them.
	erasable bool
}

func newRecordEncoder(s *runService, call runtime.Call) *recordEncoder {
	return &recordEncoder{s: s, call: call, redacting: redact.Hidden(call), graphs: cache.New[string, shown](maxShownGraphs)}
}

// item converts a record for a stream.
func (sh *recordEncoder) item(ctx context.Context, row *runtime.RecordRow) (*pawlv1.StreamTransitionsResponse, error) {
	record, err := sh.record(ctx, row)
	if err != nil {
		return nil, err
	}
	out := &pawlv1.StreamTransitionsResponse{Item: &pawlv1.StreamTransitionsResponse_Record{Record: record}}
	out.Status = pawlv1.RunStatus(row.Status)
	if row.Snapshot == nil {
		return out, nil
	}
	run, err := sh.s.run(ctx, sh.call.Namespace, row.Snapshot.State)
	if err != nil {
		return nil, err
	}
	out.Snapshot = &pawlv1.Snapshot{Run: run, Artifacts: convert.ArtifactsToProto(row.Snapshot.State.Artifacts, row.Snapshot.Artifacts)}
	return out, sh.redact(ctx, row.RunID, out.Snapshot)
}

// encoded converts a record for all readers with the same rights, without the fields that only some readers request.
// The result is encoded bytes that these readers share.
func (sh *recordEncoder) encoded(ctx context.Context, row *runtime.RecordRow) (codec.Message, error) {
	place := codec.RecordKey{
		Namespace: sh.namespace(), Position: row.Cursor.Position, Index: row.Cursor.Index, Prev: row.PrevSeq, Redacted: sh.redacting, Erased: row.Erased,
	}
	return sh.s.sent.Message(place, func() (codec.Message, error) {
		item, err := sh.item(ctx, row)
		if err != nil {
			return nil, err
		}
		return proto.Marshal(item)
	})
}

// namespace returns the name of the namespace that the reader reads.
func (sh *recordEncoder) namespace() string {
	if sh.call.Namespace == "" {
		return runtime.DefaultNamespace
	}
	return sh.call.Namespace
}

// record converts a record for the reader. A held call gets its digest, and the end of a run gets the final
// artifacts.
func (sh *recordEncoder) record(ctx context.Context, row *runtime.RecordRow) (*pawlv1.Record, error) {
	var graph *machine.Graph
	if len(machine.ArtifactWrites(row.Record.Body)) > 0 {
		run, err := sh.run(ctx, row.RunID)
		if err != nil {
			return nil, err
		}
		graph = run.graph
	}
	var final []*pawlv1.Artifact
	if _, ended := row.Record.Body.(*machine.Ended); ended && !row.Erased {
		var err error
		if final, err = sh.s.finalArtifacts(ctx, sh.ref(row.RunID), row.Record.Seq); err != nil {
			return nil, err
		}
	}
	out := convert.RecordToProto(row, convert.DeclaredTypes(graph), final)
	if requested, ok := row.Record.Body.(*machine.StepRequested); ok && requested.Hold != nil && !row.Erased {
		run, err := sh.run(ctx, row.RunID)
		if err != nil {
			return nil, err
		}
		payload := validate.PayloadHash(requested.Payload)
		out.GetStepRequested().GetHold().Digest = convert.DigestToProto(machine.CallDigest(requested.Tool, run.pack, row.RunID, requested.Step, payload))
	}
	return out, sh.redact(ctx, row.RunID, out)
}

// redact replaces the values that the reader may not see.
func (sh *recordEncoder) redact(ctx context.Context, run string, out proto.Message) error {
	if !sh.redacting {
		return nil
	}
	known, err := sh.run(ctx, run)
	if err == nil {
		known.rules.Apply(out)
	}
	return err
}

func (sh *recordEncoder) ref(run string) runtime.RunRef {
	return runtime.RunRef{Call: sh.call, RunID: run}
}

// run returns the data about a run. It uses the cache if possible.
func (sh *recordEncoder) run(ctx context.Context, run string) (known shown, err error) {
	if known, ok := sh.graphs.Get(run); ok {
		return known, nil
	}
	state, err := sh.s.views.StateAt(ctx, sh.ref(run), 0)
	if err != nil {
		return known, err
	}
	known.erasable, known.pack = state.Erasable, state.Digest
	if known.graph, err = sh.s.views.Graph(ctx, sh.call.Namespace, state); err != nil {
		return known, err
	}
	if known.rules, err = sh.s.redactor.Rules(ctx, sh.call.Namespace, state); err != nil {
		return known, err
	}
	sh.graphs.Put(run, known, 1)
	return known, nil
}

func heartbeatToProto(at runtime.Cursor) *pawlv1.StreamTransitionsResponse {
	return &pawlv1.StreamTransitionsResponse{Item: &pawlv1.StreamTransitionsResponse_Heartbeat{
		Heartbeat: &pawlv1.Heartbeat{Cursor: at.String(), At: timestamppb.Now()},
	}}
}
