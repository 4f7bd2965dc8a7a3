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
	"github.com/pawl-dev/pawl/internal/grpcapi/encoded"
	"github.com/pawl-dev/pawl/internal/grpcapi/inprocess"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
	"github.com/pawl-dev/pawl/internal/services"
)

// switchboard is a [Router] that has one home at a time. remote: who calls and what is answered
// goes as between two processes.
type switchboard struct {
	remote bool
	mu     sync.Mutex
	home   *Services
	// came is closed when there is a home; nil: there is one.
	came chan struct{}
}

// put opens a home to calls; nil: there is none, and calls wait.
func (b *switchboard) put(home *Services) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.home = home
	if home == nil {
		b.came = make(chan struct{})
	} else if b.came != nil {
		close(b.came)
	}
}

// has waits for a home.
func (b *switchboard) has(ctx context.Context) (*Services, error) {
	for {
		b.mu.Lock()
		home, came := b.home, b.came
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

// over is a context as it is in the other process: nothing but the principal comes along.
func (b *switchboard) over(ctx context.Context) context.Context {
	if !b.remote {
		return ctx
	}
	return auth.WithCaller(ctx, &auth.Caller{Principal: auth.CallerOf(ctx).Principal})
}

// Unary implements [Router].
func (b *switchboard) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	home, err := b.has(ctx)
	if err != nil {
		return nil, err
	}
	_ = grpc.SetTrailer(ctx, metadata.Pairs("answered", "elsewhere"))
	got, err := home.Call(b.over(ctx), info.FullMethod, req)
	if err != nil || !b.remote {
		return got, err
	}
	raw, ok := got.(encoded.Message)
	if !ok {
		raw, err = proto.Marshal(got.(proto.Message))
	}
	return raw, err
}

// Stream implements [Router].
func (b *switchboard) Stream(_ any, stream grpc.ServerStream, info *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
	home, err := b.has(stream.Context())
	if err != nil {
		return err
	}
	return home.Stream(info.FullMethod, &keptStream{stream, b.over(stream.Context())})
}

// ServeHTTP implements [Router].
func (b *switchboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if home, err := b.has(r.Context()); err == nil {
		home.ServeHTTP(w, r.WithContext(b.over(r.Context())))
	}
}

// through is a rig whose server has this before its house.
func (b *switchboard) through(c *Config, _ *services.Config) { c.Router = b }

// everyWay runs a test with the house in the server, behind a router, and in another process.
func everyWay(t *testing.T, test func(t *testing.T, how func(*Config, *services.Config))) {
	t.Helper()
	for name, how := range map[string]func(*Config, *services.Config){
		"here": func(c *Config, _ *services.Config) { c.Router = nil }, "routed": (&switchboard{}).through, "elsewhere": (&switchboard{remote: true}).through,
		"at another node": func(c *Config, _ *services.Config) { c.Router = newFar(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, how)
		})
	}
}

// TestEveryWayToAHouse: calls are answered alike, wherever the house is.
func TestEveryWayToAHouse(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, how func(*Config, *services.Config)) {
		r, ctx := newRig(t, how, withTokens, withBlobs(t)), testContext(t)
		driver := as(ctx, "driver")
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
			_, err = r.runs.GetRun(as(ctx, name), &pawlv1.GetRunRequest{RunId: turn.GetRunId()})
			wantError(t, err, code, want)
			_, err = r.stream(as(ctx, name), &pawlv1.StreamTransitionsRequest{}).Recv()
			wantError(t, err, code, want)
			_, err = r.put(as(ctx, name), &pawlv1.PutBlobRequest{Data: []byte("x"), Last: true})
			if name != "work" { // whose scope it is
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

// TestAHouseComesAndGoes: streams end with DRAINING, and calls are made at the next house.
func TestAHouseComesAndGoes(t *testing.T) {
	t.Parallel()
	for name, remote := range map[string]bool{"routed": false, "elsewhere": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			board := &switchboard{remote: remote}
			r, ctx := newRig(t, board.through, withTokens), testContext(t)
			driver := as(ctx, "driver")
			turn := r.start(driver).GetTurn()
			follow := r.stream(driver, &pawlv1.StreamTransitionsRequest{RunId: turn.GetRunId(), Follow: true})
			first := next(t, follow)
			idle := r.hand(as(ctx, "work"), registration("w"))
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

// TestASlowReaderOutlivesAHouse: who takes nothing while the store goes to another node has each record
// once and in order all the same, on the same stream.
func TestASlowReaderOutlivesAHouse(t *testing.T) {
	t.Parallel()
	far := newFar(t)
	r := newRig(t, func(c *Config, _ *services.Config) { c.Router = far })
	ctx := testContext(t)
	turn := r.start(ctx).GetTurn()
	// More than all windows on the way take.
	const events = 48
	for range events {
		turn = r.emit(ctx, turn, "Again", text("note", strings.Repeat("x", 60<<10))).GetTurn()
	}
	slow := r.stream(ctx, &pawlv1.StreamTransitionsRequest{RunId: turn.GetRunId()})
	seq := next(t, slow).GetRecord().GetSeq()
	if _, err := far.seats.At(0).Detach(ctx); err != nil {
		t.Fatal(err)
	}
	r.replace(far)
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

// replace has the house of a rig go, once nobody is in it, and another one come.
func (r *rig) replace(board seated) {
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

// withdraw takes the token of a principal back.
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

// errReached is told by a call that has come to its handler.
var errReached = errors.New("reached")

// ending is a stream that ends whatever is done on it first.
type ending struct {
	grpc.ServerStream
	ctx context.Context
}

func (e ending) Context() context.Context   { return e.ctx }
func (ending) SendMsg(any) error            { return errReached }
func (ending) RecvMsg(any) error            { return errReached }
func (ending) SendHeader(metadata.MD) error { return errReached }

// TestEveryMethodIsOnTheBoard: what the server has registered, the services of a house answer.
func TestEveryMethodIsOnTheBoard(t *testing.T) {
	t.Parallel()
	r := newRig(t, (&switchboard{}).through)
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
			if _, err := inprocess.Decoded(name, encoded.Message{}); err != nil {
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

// requestOf is an empty request of a method.
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

// TestReady: a server with a router serves when it is told to, and no more once it drains.
func TestReady(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, (&switchboard{}).through), testContext(t)
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

// TestRouterOrHouse: one of both, and what belongs to a house comes with it.
func TestRouterOrHouse(t *testing.T) {
	t.Parallel()
	tests := map[string]Config{
		"house is required":        {},
		"not served; served are":   {Router: &switchboard{}, Tokens: []auth.Token{{Principal: "p", Secret: goodSecret, Scopes: runtime.ScopeWork, Namespaces: []string{"red"}}}},
		"store and deliveries are": {Router: &switchboard{}, Store: &endlessStore{}},
	}
	for want, conf := range tests {
		if _, err := New(conf); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	served := Config{Router: &switchboard{}, Spaces: validate.Namespaces{"red": 1}, Tokens: tests["not served; served are"].Tokens}
	s, err := New(served)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.release(); err != nil {
		t.Error(err)
	}
}

// TestTheSuiteThroughARouter runs all other tests of this package with a router in front of each
// house, which passes on nothing but principals and bytes, as between two processes.
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
