package grpcapi

import (
	"context"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/grpcapi/redact"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/blob"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
	"github.com/pawl-dev/pawl/internal/runtime/ratelimit"
	"github.com/pawl-dev/pawl/internal/runtime/retention"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/runtime/timetravel"
	"github.com/pawl-dev/pawl/internal/runtime/waiting"
)

// runService implements pawl.v1.RunService. Calls that change a run or work
// on its turns are in run_drive.go, calls that only read are in run_read.go and run_stream.go.
type runService struct {
	pawlv1.UnimplementedRunServiceServer
	engine     *runtime.Engine
	views      *query.Service
	work       *dispatch.Dispatcher
	blobs      *blob.Service
	timeTravel *timetravel.Service
	retain     *retention.Service
	// admission applies the operator's limits to model calls.
	admission *ratelimit.Service
	// waits says what runs wait for.
	waits *waiting.Service
	// watches reads streams of records.
	watches *streams.Service
	auth    *auth.Authenticator
	// draining is closed when streams must end, because the server is shutting down or another node takes over the runs.
	draining <-chan struct{}
	// streams limits the number of streams and waits that are open at once.
	streams  *streamLimiter
	settings *convert.SettingsCache
	metrics  *callMetrics
	// sent caches the encoded bytes of recently sent records.
	sent *codec.Records
	// redactor hides sensitive values from callers that may not read them.
	redactor redact.Gate
}

// finalArtifacts reads the artifacts of a run that has ended. If the principal may neither read nor change runs, it
// returns none.
func (s *runService) finalArtifacts(ctx context.Context, ref runtime.RunRef, seq uint64) ([]*pawlv1.Artifact, error) {
	if !ref.Principal.Scopes.Any(runtime.ScopeRunsRead | runtime.ScopeRunsWrite) {
		return nil, nil
	}
	view, err := s.views.GetRun(ctx, query.GetRunRequest{RunRef: ref, AtSeq: seq, Artifacts: true})
	if err != nil {
		return nil, err
	}
	return convert.ArtifactsToProto(view.State.Artifacts, view.Artifacts), nil
}

// run converts a state of a run. The result contains the events that the graph of the run allows.
func (s *runService) run(ctx context.Context, namespace string, state *machine.State) (*pawlv1.Run, error) {
	graph, err := s.views.Graph(ctx, namespace, state)
	if err != nil {
		return nil, err
	}
	run := convert.RunToProto(namespace, state, convert.AllowedEvents(graph, state))
	return run, s.redactor.Hide(ctx, callOf(ctx, namespace), state, run)
}
