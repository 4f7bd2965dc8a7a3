package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl/bench/load/template"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/store"
)

// bareChild serves RunService without an engine, on the data directory in its
// one argument: a call of EmitEvent is decoded, the keys and bytes of a captured
// transition go through the committer, and a captured answer goes back. No
// interceptor, no check, no state.
func bareChild(ctx context.Context, spec ChildSpec, w *wire) error {
	if len(spec.Args) != 1 {
		return fmt.Errorf("bare: %d arguments; want the directory", len(spec.Args))
	}
	service, err := newBareService(ctx, spec.Args[0])
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	pawlv1.RegisterRunServiceServer(server, service)
	return errors.Join(serveBare(ctx, server, w), service.store.Close())
}

// bareService answers StartRun and EmitEvent.
type bareService struct {
	pawlv1.UnimplementedRunServiceServer
	store    *store.BareCommitter
	template *template.Template
	answer   *pawlv1.EmitEventResponse

	mu   sync.RWMutex
	runs map[string]*replayer
}

func newBareService(ctx context.Context, dir string) (*bareService, error) {
	b := &bareService{runs: map[string]*replayer{}}
	if err := b.capture(ctx, filepath.Join(dir, "capture")); err != nil {
		return nil, err
	}
	var err error
	b.store, err = store.NewBareCommitter(store.Options{Dir: filepath.Join(dir, "data")})
	return b, err
}

// capture takes keys, bytes and answer from a real engine and a real server.
func (b *bareService) capture(ctx context.Context, dir string) error {
	l, err := openLocal(ctx, dir, localOptions{})
	if err != nil {
		return err
	}
	b.template, err = l.capture(ctx, artifactBytes)
	if err == nil {
		b.answer, err = l.captureAnswer(ctx)
	}
	return errors.Join(err, l.close())
}

// captureAnswer asks the sidecar's own server for the answer of one event.
func (l *local) captureAnswer(ctx context.Context) (*pawlv1.EmitEventResponse, error) {
	server, err := grpcapi.New(grpcapi.Config{Runtime: l.engine})
	if err != nil {
		return nil, err
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	answer, err := l.askOnce(ctx, server)
	return answer, errors.Join(err, server.Shutdown(ctx), <-served)
}

func (l *local) askOnce(ctx context.Context, server *grpcapi.Server) (*pawlv1.EmitEventResponse, error) {
	conn, err := server.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	run, err := l.start(ctx, packLoop)
	if err != nil {
		return nil, err
	}
	return pawlv1.NewRunServiceClient(conn).EmitEvent(ctx, &pawlv1.EmitEventRequest{
		RunId: run.id, Event: eventName, EventId: eventID(0, 0), TurnToken: run.token,
		Artifacts: []*pawlv1.ArtifactWrite{{Name: artifactName, Value: &pawlv1.ArtifactValue{
			Value: &pawlv1.ArtifactValue_Text{Text: string(bytes.Repeat([]byte("v"), artifactBytes))},
		}}},
	})
}

// StartRun makes up a run; nothing is stored.
func (b *bareService) StartRun(context.Context, *pawlv1.StartRunRequest) (*pawlv1.StartRunResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	number := len(b.runs)
	run := replayedRun(number)
	b.runs[run] = &replayer{template: b.template, commit: bareCommit(b.store), number: number}
	return &pawlv1.StartRunResponse{Run: &pawlv1.Run{RunId: run}}, nil
}

// EmitEvent commits the template as the run's next transition. One client at a
// time drives a run.
func (b *bareService) EmitEvent(ctx context.Context, request *pawlv1.EmitEventRequest) (*pawlv1.EmitEventResponse, error) {
	b.mu.RLock()
	run := b.runs[request.GetRunId()]
	b.mu.RUnlock()
	if run == nil {
		return nil, status.Errorf(codes.NotFound, "no run %q", request.GetRunId())
	}
	if err := run.once(ctx); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return b.answer, nil
}
