package grpcapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
	"github.com/pawl-dev/pawl/internal/services"
)

// fakeSwitch is a [Router] that has one set of services at a time. If remote is set, callers and answers pass
// as between two processes.
type fakeSwitch struct {
	remote   bool
	mu       sync.Mutex
	services *Services
	// attached is made by put(nil). It is closed when there are services again.
	attached chan struct{}
}

// put makes calls go to home. If home is nil, calls wait.
func (b *fakeSwitch) put(home *Services) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.services = home
	if home == nil {
		b.attached = make(chan struct{})
	} else if b.attached != nil {
		close(b.attached)
	}
}

// awaitServices waits until there are services and returns them.
func (b *fakeSwitch) awaitServices(ctx context.Context) (*Services, error) {
	for {
		b.mu.Lock()
		home, came := b.services, b.attached
		b.mu.Unlock()
		if home != nil {
			return home, nil
		}
		select {
		case <-came:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// remoteContext returns the context that the other process has: only the principal is passed on.
func (b *fakeSwitch) remoteContext(ctx context.Context) context.Context {
	if !b.remote {
		return ctx
	}
	return auth.WithCaller(ctx, &auth.Caller{Principal: auth.CallerOf(ctx).Principal})
}

// Unary implements [Router].
func (b *fakeSwitch) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	home, err := b.awaitServices(ctx)
	if err != nil {
		return nil, err
	}
	_ = grpc.SetTrailer(ctx, metadata.Pairs("answered", "elsewhere"))
	got, err := home.Call(b.remoteContext(ctx), info.FullMethod, req)
	if err != nil || !b.remote {
		return got, err
	}
	raw, ok := got.(codec.Message)
	if !ok {
		raw, err = proto.Marshal(got.(proto.Message))
	}
	return raw, err
}

// Stream implements [Router].
func (b *fakeSwitch) Stream(_ any, stream grpc.ServerStream, info *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
	home, err := b.awaitServices(stream.Context())
	if err != nil {
		return err
	}
	return home.Stream(info.FullMethod, &keptStream{stream, b.remoteContext(stream.Context())})
}

// ServeHTTP implements [Router].
func (b *fakeSwitch) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if home, err := b.awaitServices(r.Context()); err == nil {
		home.ServeHTTP(w, r.WithContext(b.remoteContext(r.Context())))
	}
}

// configure makes the server of a rig use this router.
func (b *fakeSwitch) configure(c *Config, _ *services.Config) { c.Router = b }

// everyWay runs a test with the services in the server itself, behind a router, in another process, and at
// another node.
func everyWay(t *testing.T, test func(t *testing.T, how func(*Config, *services.Config))) {
	t.Helper()
	for name, how := range map[string]func(*Config, *services.Config){
		"here": func(c *Config, _ *services.Config) { c.Router = nil }, "routed": (&fakeSwitch{}).configure, "elsewhere": (&fakeSwitch{remote: true}).configure,
		"at another node": func(c *Config, _ *services.Config) { c.Router = newFar(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, how)
		})
	}
}

// TestEveryWayToAHouse: calls get the same answers, wherever the services are.
func TestEveryWayToAHouse(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, how func(*Config, *services.Config)) {
		r, ctx := newRig(t, how, withTokens, withBlobs(t)), testContext(t)
		driver := withToken(ctx, "driver")
		turn := r.drive(driver, r.start(driver).GetTurn(), 2)
		got, err := r.runs.GetRun(driver, &pawlv1.GetRunRequest{RunId: turn.GetRunId()})
		if err != nil || got.GetRun().GetRunId() != turn.GetRunId() {
			t.Fatalf("%v, %v", got, err)
		}
		for name, want := range map[string]string{"": "TOKEN_MISSING", "nobody": "TOKEN_UNKNOWN", "work": "SCOPE_MISSING"} {
			code := codes.Unauthenticated
			if name == "work" {
				code = codes.PermissionDenied
			}
			_, err = r.runs.GetRun(withToken(ctx, name), &pawlv1.GetRunRequest{RunId: turn.GetRunId()})
			wantError(t, err, code, want)
			_, err = r.stream(withToken(ctx, name), &pawlv1.StreamTransitionsRequest{}).Recv()
			wantError(t, err, code, want)
			_, err = r.put(withToken(ctx, name), &pawlv1.PutBlobRequest{Data: []byte("x"), Last: true})
			if name != "work" { // which has the scope for this call
				wantError(t, err, code, want)
			}
		}
		if items := collect(t, r.stream(driver, &pawlv1.StreamTransitionsRequest{RunId: turn.GetRunId()})); len(items) < 3 {
			t.Errorf("%d records", len(items))
		}
		if put, err := r.put(driver, &pawlv1.PutBlobRequest{Data: []byte("x"), Last: true}); err != nil || put.GetSize() != 1 {
			t.Errorf("%v, %v", put, err)
		}
	})
}

// TestAHouseComesAndGoes: when the services end, streams end with DRAINING. Calls wait for the next services.
func TestAHouseComesAndGoes(t *testing.T) {
	t.Parallel()
	for name, remote := range map[string]bool{"routed": false, "elsewhere": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			board := &fakeSwitch{remote: remote}
			r, ctx := newRig(t, board.configure, withTokens), testContext(t)
			driver := withToken(ctx, "driver")
			turn := r.start(driver).GetTurn()
			follow := r.stream(driver, &pawlv1.StreamTransitionsRequest{RunId: turn.GetRunId(), Follow: true})
			first := next(t, follow)
			idle := r.registerWorker(withToken(ctx, "work"), registration("w"))
			for range 8 {
				turn = r.emit(driver, turn, "Again", text("note", "x")).GetTurn()
				next(t, follow)
			}
			board.put(nil)
			r.services.End()
			_, err := follow.Recv()
			wantError(t, err, codes.Unavailable, "DRAINING")
			wantError(t, idle.end(), codes.Unavailable, "DRAINING")
			cancelled := make(chan error, 1)
			go func() {
				_, err := r.runs.CancelRun(driver, &pawlv1.CancelRunRequest{RunId: turn.GetRunId()})
				cancelled <- err
			}()
			r.replace(board)
			if err := <-cancelled; err != nil {
				t.Fatalf("a call that waited for a house: %v", err)
			}
			again := r.stream(driver, &pawlv1.StreamTransitionsRequest{AfterCursor: first.GetRecord().GetCursor(), Follow: true})
			for range 9 {
				next(t, again)
			}
			r.withdraw("driver")
			_, err = again.Recv()
			wantError(t, err, codes.Unauthenticated, "TOKEN_REVOKED")
		})
	}
}

// TestASlowReaderOutlivesAHouse: a reader takes nothing while the store moves to another node. It still gets
// each record once and in order, on the same stream.
func TestASlowReaderOutlivesAHouse(t *testing.T) {
	t.Parallel()
	remote := newFar(t)
	r := newRig(t, func(c *Config, _ *services.Config) { c.Router = remote })
	ctx := testContext(t)
	turn := r.start(ctx).GetTurn()
	// This is more than all flow control windows on the way hold.
	const events = 48
	for range events {
		turn = r.emit(ctx, turn, "Again", text("note", strings.Repeat("x", 60<<10))).GetTurn()
	}
	slow := r.stream(ctx, &pawlv1.StreamTransitionsRequest{RunId: turn.GetRunId()})
	seq := next(t, slow).GetRecord().GetSeq()
	if _, err := remote.seats.At(0).Detach(ctx); err != nil {
		t.Fatal(err)
	}
	r.replace(remote)
	for range events {
		if got := next(t, slow).GetRecord().GetSeq(); got != seq+1 {
			t.Fatalf("record %d behind %d", got, seq)
		}
		seq++
	}
	if _, err := slow.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("it ended with %v", err)
	}
}

// replace closes the engine of a rig and starts a new one. Then it gives the services of the new engine to the
// router.
func (r *rig) replace(board backendRouter) {
	r.t.Helper()
	if err := r.engine.Close(); err != nil {
		r.t.Fatal(err)
	}
	var err error
	if r.engine, err = services.New(r.conf); err != nil {
		r.t.Fatal(err)
	}
	if r.services, err = r.server.Services(ServiceConfig{Runtime: r.engine}); err != nil {
		r.t.Fatal(err)
	}
	board.put(r.services)
}

// withdraw removes the tokens of a principal.
func (r *rig) withdraw(name string) {
	r.t.Helper()
	var now Rights
	for _, token := range r.server.cfg.Tokens {
		if token.Principal != name {
			now.Tokens = append(now.Tokens, token)
		}
	}
	if err := r.server.SetRights(now); err != nil {
		r.t.Fatal(err)
	}
}

// errReached is the error of a call that has reached its handler.
var errReached = errors.New("reached")

// ending is a stream on which the first operation of a handler fails with errReached.
type ending struct {
	grpc.ServerStream
	ctx context.Context
}

func (e ending) Context() context.Context   { return e.ctx }
func (ending) SendMsg(any) error            { return errReached }
func (ending) RecvMsg(any) error            { return errReached }
func (ending) SendHeader(metadata.MD) error { return errReached }

// TestEveryMethodIsOnTheBoard: the services behind a router answer every method that the server has
// registered.
func TestEveryMethodIsOnTheBoard(t *testing.T) {
	t.Parallel()
	r := newRig(t, (&fakeSwitch{}).configure)
	ctx, methods := auth.WithCaller(testContext(t), auth.Anonymous), 0
	for service, info := range r.server.grpc.GetServiceInfo() {
		if !strings.HasPrefix(service, "pawl.v1.") {
			continue
		}
		for _, m := range info.Methods {
			methods++
			name := "/" + service + "/" + m.Name
			var err error
			if m.IsClientStream || m.IsServerStream {
				err = r.services.Stream(name, ending{ctx: ctx})
				if !errors.Is(err, errReached) {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			_, err = r.services.Call(ctx, name, requestOf(t, name))
			if codeOf(err) == codes.Unimplemented {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := decodedAnswer(name, codec.Message{}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if methods < 50 {
		t.Errorf("%d methods", methods)
	}
	_, err := r.services.Call(ctx, "/pawl.v1.RunService/Nothing", &pawlv1.GetRunRequest{})
	if codeOf(err) != codes.Unimplemented || codeOf(r.services.Stream("/pawl.v1.RunService/Nothing", ending{ctx: ctx})) != codes.Unimplemented {
		t.Errorf("a method that there is not: %v", err)
	}
}

// requestOf returns an empty request of a method.
func requestOf(t *testing.T, method string) proto.Message {
	t.Helper()
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(method[1:], "/", ".")))
	if err != nil {
		t.Fatal(err)
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(found.(protoreflect.MethodDescriptor).Input().FullName())
	if err != nil {
		t.Fatal(err)
	}
	return kind.New().Interface()
}

// TestReady: the health of a server with a router is what Ready last set. Once the server drains, it is
// NOT_SERVING.
func TestReady(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, (&fakeSwitch{}).configure), testContext(t)
	client := healthpb.NewHealthClient(r.conn)
	check := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if got, err := client.Check(ctx, &healthpb.HealthCheckRequest{}); err != nil || got.GetStatus() != want {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
	check(healthpb.HealthCheckResponse_SERVING)
	r.server.Ready(false)
	check(healthpb.HealthCheckResponse_NOT_SERVING)
	r.server.Ready(true)
	check(healthpb.HealthCheckResponse_SERVING)
	r.server.drain()
	r.server.Ready(true)
	check(healthpb.HealthCheckResponse_NOT_SERVING)
}

// TestRouterOrHouse: a server needs a runtime or a router. With a router, its configuration may have no store,
// and it must list the namespaces that its tokens name.
func TestRouterOrHouse(t *testing.T) {
	t.Parallel()
	tests := map[string]Config{
		"runtime is required":       {},
		"not served; served are":    {Router: &fakeSwitch{}, Tokens: []auth.Token{{Principal: "p", Secret: goodSecret, Scopes: runtime.ScopeWork, Namespaces: []string{"red"}}}},
		"store and deliveries need": {Router: &fakeSwitch{}, Store: &endlessStore{}},
	}
	for want, conf := range tests {
		if _, err := New(conf); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	served := Config{Router: &fakeSwitch{}, Spaces: validate.Namespaces{"red": 1}, Tokens: tests["not served; served are"].Tokens}
	s, err := New(served)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.release(); err != nil {
		t.Error(err)
	}
}

// TestTheSuiteThroughARouter runs all other tests of this package with a router before the services. The
// router passes on only principals and bytes, as between two processes.
func TestTheSuiteThroughARouter(t *testing.T) {
	t.Parallel()
	if routedSuite != "" || testing.Short() {
		t.Skip("it is running, or was not asked for")
	}
	suite := exec.CommandContext(t.Context(), os.Args[0], "-test.timeout=10m", "-test.skip=^Fuzz|ThroughARouter")
	suite.Env = append(os.Environ(), "PAWL_ROUTED=board")
	if out, err := suite.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
