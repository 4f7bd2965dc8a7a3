package grpcapi

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/door"
	"github.com/pawl-dev/pawl/internal/grpcapi/sent"
	"github.com/pawl-dev/pawl/internal/house"
)

// switchboard is a [Router] that has one home at a time. remote: who calls and what is answered
// goes as between two processes.
type switchboard struct {
	remote bool
	mu     sync.Mutex
	home   *Services
}

func (b *switchboard) put(home *Services) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.home = home
}

func (b *switchboard) has() *Services {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.home
}

// over is a context as it is in the other process: nothing but the principal comes along.
func (b *switchboard) over(ctx context.Context) context.Context {
	if !b.remote {
		return ctx
	}
	return door.WithCaller(ctx, &door.Caller{Principal: door.CallerOf(ctx).Principal})
}

// Unary implements [Router].
func (b *switchboard) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	got, err := b.has().Call(b.over(ctx), info.FullMethod, req)
	if err != nil || !b.remote {
		return got, err
	}
	raw, ok := got.(sent.Message)
	if !ok {
		raw, err = proto.Marshal(got.(proto.Message))
	}
	return raw, err
}

// Stream implements [Router].
func (b *switchboard) Stream(_ any, stream grpc.ServerStream, info *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
	return b.has().Stream(info.FullMethod, &keptStream{stream, b.over(stream.Context())})
}

// ServeHTTP implements [Router].
func (b *switchboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.has().ServeHTTP(w, r.WithContext(b.over(r.Context())))
}

// moved is a rig whose server has a router before the house.
func moved(t *testing.T, board seated, configure ...func(*Config, *house.Config)) *rig {
	t.Helper()
	return newRig(t, append(configure, func(c *Config, _ *house.Config) { c.Router = board })...)
}

// everyMode are the ways in which a house is behind a server.
func everyMode(t *testing.T, test func(t *testing.T, open func(configure ...func(*Config, *house.Config)) *rig)) {
	t.Helper()
	t.Run("here", func(t *testing.T) {
		t.Parallel()
		test(t, func(configure ...func(*Config, *house.Config)) *rig { return newRig(t, configure...) })
	})
	for name, board := range map[string]func() seated{
		"routed": func() seated { return &switchboard{} }, "elsewhere": func() seated { return &switchboard{remote: true} },
		"at another node": func() seated { return newFar(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(configure ...func(*Config, *house.Config)) *rig {
				return moved(t, board(), configure...)
			})
		})
	}
}

// TestEveryWayToAHouse: unary calls are answered alike, wherever the house is.
func TestEveryWayToAHouse(t *testing.T) {
	t.Parallel()
	everyMode(t, func(t *testing.T, open func(...func(*Config, *house.Config)) *rig) {
		r, ctx := open(withTokens), testContext(t)
		driver := as(ctx, "driver")
		turn := r.drive(driver, r.start(driver).GetTurn(), 2)
		got, err := r.runs.GetRun(driver, &pawlv1.GetRunRequest{RunId: turn.GetRunId()})
		if err != nil || got.GetRun().GetRunId() != turn.GetRunId() {
			t.Fatalf("%v, %v", got, err)
		}
		_, err = r.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: turn.GetRunId()})
		wantError(t, err, codes.Unauthenticated, "TOKEN_MISSING")
		_, err = r.runs.GetRun(as(ctx, "work"), &pawlv1.GetRunRequest{RunId: turn.GetRunId()})
		wantError(t, err, codes.PermissionDenied, "SCOPE_MISSING")
	})
}
