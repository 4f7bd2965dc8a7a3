package grpcapi

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/services"
)

// syncBuffer is a log that tests may read while the server writes.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// brittleClock panics when told to: a fault of the engine under a handler.
type brittleClock struct {
	runtime.Clock
	broken atomic.Bool
}

func (c *brittleClock) Now() time.Time {
	if c.broken.Load() {
		panic("the clock fell down: token-1")
	}
	return c.Clock.Now()
}

func (c *brittleClock) Elapsed() time.Duration {
	if c.broken.Load() {
		panic("the clock fell down: token-1")
	}
	return c.Clock.Elapsed()
}

// TestPanicTellsNothing: the caller gets an id under which the log has the rest,
// and the server lives on.
func TestPanicTellsNothing(t *testing.T) {
	t.Parallel()
	var log syncBuffer
	var clock brittleClock
	r := newRig(t, func(c *Config, e *services.Config) {
		c.Log = slog.New(slog.NewJSONHandler(&log, nil))
		clock.Clock = e.Clock
		e.Clock = &clock
	})
	ctx := testContext(t)
	turn := r.start(ctx).GetTurn()
	clock.broken.Store(true)
	_, err := r.runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{RunId: turn.GetRunId(), Event: "Again", TurnToken: turn.GetToken()})
	st := wantError(t, err, codes.Internal, "INTERNAL")
	if strings.Contains(st.Proto().String(), "clock") {
		t.Fatalf("leaks: %v", st)
	}
	_, err = r.stream(ctx, &pawlv1.StreamTransitionsRequest{Follow: true}).Recv()
	wantError(t, err, codes.Internal, "INTERNAL")
	clock.broken.Store(false)
	r.emit(ctx, turn, "Again")

	info, _ := detail[*errdetails.ErrorInfo](st)
	line, _, _ := strings.Cut(log.String(), "\n")
	var entry map[string]any
	if err := json.Unmarshal([]byte(line), &entry); err != nil {
		t.Fatalf("log %q: %v", log.String(), err)
	}
	if entry["correlation_id"] != info.GetMetadata()["correlation_id"] || entry["method"] != pawlv1.RunService_EmitEvent_FullMethodName ||
		!strings.Contains(entry["stack"].(string), "brittleClock") {
		t.Fatalf("log %v", entry)
	}
}

// TestLogs: a good call logs nothing at the usual level; at debug level calls
// are logged without payload or secret.
func TestLogs(t *testing.T) {
	t.Parallel()
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
		var log syncBuffer
		r := newRig(t, withTokens, func(c *Config, _ *services.Config) {
			c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))
		})
		ctx := as(testContext(t), "driver")
		turn := r.start(ctx).GetTurn()
		r.emit(ctx, turn, "Again", text("note", "payload-of-the-caller"))
		got := log.String()
		if calls := strings.Contains(got, "EmitEvent"); calls != (level == slog.LevelDebug) {
			t.Errorf("level %v: log %q", level, got)
		}
		for _, secret := range []string{"payload-of-the-caller", secretOf("driver"), turn.GetToken()} {
			if strings.Contains(got, secret) {
				t.Errorf("level %v: the log tells %q", level, secret)
			}
		}
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens, func(c *Config, _ *services.Config) { c.RequestsPerSecond = 0.001 })
	ctx := testContext(t)
	list := func(who string) error {
		_, err := r.runs.ListRuns(as(ctx, who), &pawlv1.ListRunsRequest{})
		return err
	}
	if err := list("runs:read"); err != nil {
		t.Fatal(err)
	}
	st := wantError(t, list("runs:read"), codes.ResourceExhausted, "RATE_LIMITED")
	retry, ok := detail[*errdetails.RetryInfo](st)
	if !ok || retry.GetRetryDelay().AsDuration() < time.Minute {
		t.Fatalf("RetryInfo %v", retry)
	}
	if err := list("driver"); err != nil {
		t.Fatalf("another principal pays for it: %v", err)
	}
	_, err := r.stream(as(ctx, "driver"), &pawlv1.StreamTransitionsRequest{}).Recv()
	wantError(t, err, codes.ResourceExhausted, "RATE_LIMITED")
}

// TestHealth: serving only while the store takes commits.
func TestHealth(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	client := healthpb.NewHealthClient(r.conn)
	for _, service := range healthServices {
		watch, err := client.Watch(ctx, &healthpb.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		for {
			got, err := watch.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if got.GetStatus() == healthpb.HealthCheckResponse_SERVING {
				break
			}
		}
	}
	watch, err := client.Watch(ctx, &healthpb.HealthCheckRequest{Service: "pawl.v1.RunService"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	turn := r.start(ctx).GetTurn()
	r.store.Crash()
	_, err = r.runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{RunId: turn.GetRunId(), Event: "Again", TurnToken: turn.GetToken()})
	wantError(t, err, codes.Unavailable, "COMMIT_UNKNOWN")
	if got, err := watch.Recv(); err != nil || got.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Fatalf("health %v, %v", got, err)
	}
}
