package grpcapi

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/test/testkit"
)

// loopPack has a state of each orchestration, a guard, tools, agents, and
// artifacts of every form.
//
//go:embed testdata/loop.json
var loopPack []byte

// routedSuite, if set, makes every test reach its services through a router. With "peer" the services are at
// another node.
var routedSuite = os.Getenv("PAWL_ROUTED")

// rig is a server over a real engine on a store in memory.
type rig struct {
	t      testing.TB
	store  *testkit.Store
	clock  *testkit.Clock
	engine *services.Runtime
	// conf is that of engine.
	conf   services.Config
	server *Server
	// services serve the runs of engine.
	services *Services
	conn     *grpc.ClientConn
	packs    pawlv1.PackServiceClient
	runs     pawlv1.RunServiceClient
}

// newRig serves until the test ends. configure may change either configuration.
func newRig(t testing.TB, configure ...func(*Config, *services.Config)) *rig {
	t.Helper()
	r := &rig{t: t, store: testkit.StoreFor(t), clock: testkit.NewClock()}
	engineConf := services.Config{Config: runtime.Config{
		Store: r.store, Clock: r.clock, IDs: &testkit.IDs{}, AllowTools: []string{"*"},
		Pack: pack.Options{Limits: pack.Limits{Bytes: 256 << 10}},
	}, Archive: &archive{}}
	conf := Config{Log: slog.New(slog.DiscardHandler)}
	if routedSuite != "" {
		conf.Router = routerOf(t, routedSuite)
	}
	for _, f := range configure {
		f(&conf, &engineConf)
	}
	var err error
	if r.engine, err = services.New(engineConf); err != nil {
		t.Fatal(err)
	}
	r.conf = engineConf
	r.build(conf, engineConf.Namespaces)
	r.serve()
	r.conn = r.dial()
	r.packs, r.runs = pawlv1.NewPackServiceClient(r.conn), pawlv1.NewRunServiceClient(r.conn)
	return r
}

// build makes the server of the rig. If the configuration has a router, the server reaches the rig's services
// through it.
func (r *rig) build(conf Config, spaces validate.Namespaces) {
	r.t.Helper()
	board, routed := conf.Router.(backendRouter)
	offer := ServiceConfig{Runtime: r.engine, Store: conf.Store, Deliveries: conf.Deliveries}
	if routed {
		conf.Store, conf.Deliveries, conf.Spaces, conf.Quotas = nil, nil, spaces, r.engine.Quotas
	} else {
		conf.Runtime, conf.Failed = r.engine, r.engine.Failed()
	}
	var err error
	if r.server, err = New(conf); err != nil {
		r.t.Fatal(err)
	}
	r.services = r.server.Own()
	if routed {
		if r.services, err = r.server.Services(offer); err != nil {
			r.t.Fatal(err)
		}
		board.put(r.services)
		r.ready()
	}
}

// ready makes the server ready, and not ready once the engine has failed.
func (r *rig) ready() {
	r.server.Ready(true)
	failed, over := r.engine.Failed(), make(chan struct{})
	r.t.Cleanup(func() { close(over) })
	go func() {
		select {
		case <-failed:
			r.server.Ready(false)
		case <-over:
		}
	}()
}

func (r *rig) serve() {
	served := make(chan error, 1)
	go func() { served <- r.server.Serve() }()
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.server.Shutdown(ctx); err != nil {
			r.t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			r.t.Errorf("Serve: %v", err)
		}
		if err := r.engine.Close(); err != nil {
			r.t.Errorf("Close: %v", err)
		}
		if err := r.store.Check(); err != nil {
			r.t.Errorf("the store is damaged: %v", err)
		}
	})
}

func (r *rig) dial() *grpc.ClientConn {
	r.t.Helper()
	conn, err := r.server.Dial()
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return conn
}

// withTokens turns authentication on. There is one principal per scope, named after it, and "driver", which
// may read and write.
func withTokens(c *Config, _ *services.Config) {
	for _, scope := range auth.EveryScope {
		c.Tokens = append(c.Tokens, auth.Token{Principal: scope.String(), Secret: secretOf(scope.String()), Scopes: scope})
	}
	c.Tokens = append(c.Tokens, auth.Token{
		Principal: "driver", Secret: secretOf("driver"), Scopes: runtime.ScopeRunsRead | runtime.ScopeRunsWrite | runtime.ScopePacksWrite,
	})
}

func secretOf(name string) string { return "secret-of-" + name + "-0123456789" }

// withToken returns a context with the bearer token of a principal, or without a token if name is "".
func withToken(ctx context.Context, name string) context.Context {
	if name == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+secretOf(name))
}

func (r *rig) register(ctx context.Context) {
	r.t.Helper()
	if _, err := r.packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: loopPack}); err != nil {
		r.t.Fatalf("RegisterPack: %v", err)
	}
}

func startRequest() *pawlv1.StartRunRequest {
	return &pawlv1.StartRunRequest{
		Pack: "loop", VariablesJson: `{"goal": "ship"}`, Execution: pawlv1.Execution_EXECUTION_CALLER,
		Entry: nil,
	}
}

// start registers the pack and starts a run of it.
func (r *rig) start(ctx context.Context) *pawlv1.StartRunResponse {
	r.t.Helper()
	r.register(ctx)
	return r.startOnly(ctx)
}

func (r *rig) startOnly(ctx context.Context) *pawlv1.StartRunResponse {
	r.t.Helper()
	started, err := r.runs.StartRun(ctx, startRequest())
	if err != nil {
		r.t.Fatalf("StartRun: %v", err)
	}
	return started
}

// emit sends an event with the token of the turn and returns the answer.
func (r *rig) emit(ctx context.Context, turn *pawlv1.TurnRef, event string, writes ...*pawlv1.ArtifactWrite) *pawlv1.EmitEventResponse {
	r.t.Helper()
	answer, err := r.runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{
		RunId: turn.GetRunId(), Event: event, TurnToken: turn.GetToken(), Artifacts: writes,
	})
	if err != nil {
		r.t.Fatalf("EmitEvent %s: %v", event, err)
	}
	return answer
}

func text(name, value string) *pawlv1.ArtifactWrite {
	return &pawlv1.ArtifactWrite{Name: name, Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: value}}}
}

func jsonValue(name, value string) *pawlv1.ArtifactWrite {
	return &pawlv1.ArtifactWrite{Name: name, Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Json{Json: value}}}
}

// wantError fails unless err has the code and the reason, and returns its status.
func wantError(t testing.TB, err error, code codes.Code, reason string) *status.Status {
	t.Helper()
	st := status.Convert(err)
	info, _ := detail[*errdetails.ErrorInfo](st)
	if st.Code() != code || info.GetReason() != reason || info.GetDomain() != apierror.Domain {
		t.Fatalf("error %v (%s), want %v %s", err, info.GetReason(), code, reason)
	}
	return st
}

// collect reads a stream to its end and returns the items.
func collect(t testing.TB, stream grpc.ServerStreamingClient[pawlv1.StreamTransitionsResponse]) []*pawlv1.StreamTransitionsResponse {
	t.Helper()
	var items []*pawlv1.StreamTransitionsResponse
	for {
		item, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return items
		}
		if err != nil {
			t.Fatalf("Recv: %v", err)
		}
		items = append(items, item)
	}
}

// testContext ends long after any test that does not hang. The time is long because parallel subtests that
// wait for their turn use up the time of their parent.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func codeOf(err error) codes.Code { return status.Code(err) }

// detail finds a detail of a status by its type.
func detail[T proto.Message](st *status.Status) (found T, ok bool) {
	for _, d := range st.Details() {
		if found, ok = d.(T); ok {
			return found, true
		}
	}
	return found, false
}

// goodSecret is a token that is long enough.
const goodSecret = "o8Zc2mJ5hQ1rT7vX"
