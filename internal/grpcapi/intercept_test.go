package grpcapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
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

// brittleClock panics while broken is set. It simulates a fault of the engine below a handler.
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

// TestPanicTellsNothing: the caller gets an id, and the log has the details under this id. The server
// continues.
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
		ctx := withToken(testContext(t), "driver")
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
		_, err := r.runs.ListRuns(withToken(ctx, who), &pawlv1.ListRunsRequest{})
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
	_, err := r.stream(withToken(ctx, "driver"), &pawlv1.StreamTransitionsRequest{}).Recv()
	wantError(t, err, codes.ResourceExhausted, "RATE_LIMITED")
}

// TestHealth: the health is SERVING only while the store takes commits.
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

// TestOfBothOrOfNone: if the namespace has no quota left for a call, the call costs its caller nothing, even
// if the namespace is known only later.
func TestOfBothOrOfNone(t *testing.T) {
	t.Parallel()
	book := quota.New(map[string]uint32{"default": 0, "red": 1})
	book.Replace(&quota.Table{Namespace: quota.Bounds{quota.Calls: 1}})
	l := newCallLimiter(0.001, book) // one call, and the next in a quarter of an hour
	for n := 0; ; n++ {
		for l.OfSpace(t.Context(), "red") == nil {
		}
		ctx := auth.WithCaller(t.Context(), &auth.Caller{Principal: runtime.Principal{Subject: fmt.Sprint("caller-", n)}})
		entered, err := l.Enter(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if l.OfSpace(entered, "red") == nil {
			continue // A second has passed: try again with another caller.
		}
		if _, err := l.Enter(ctx); err != nil {
			t.Errorf("what the namespace refused cost its caller a call: %v", err)
		}
		return
	}
}

// TestTheSpeakerIsCharged: a call in the name of another principal is charged to the principal that made it.
func TestTheSpeakerIsCharged(t *testing.T) {
	t.Parallel()
	l := newCallLimiter(0.001, quota.New(map[string]uint32{"default": 0}))
	for n, caller := range []runtime.Principal{
		{Subject: "bridge"}, {Subject: "dave", Chain: []string{"bridge"}}, {Subject: "dave", Chain: []string{"bridge", "far"}}, {Subject: "dave"},
	} {
		_, err := l.Enter(auth.WithCaller(t.Context(), &auth.Caller{Principal: caller}))
		if charged := err == nil; charged != (caller.Speaker() != "bridge" || n == 0) {
			t.Errorf("%s, call %d: %v", caller.Name(), n+1, err)
		}
	}
}

const someRunID = "01J99999999999999999999999"

// goodMessages are requests that the fast check accepts.
func goodMessages() []proto.Message {
	parts := []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "x"}}, {Content: &pawlv1.Part_Json{Json: "1"}, MediaType: "m"}}
	writes := []*pawlv1.ArtifactWrite{
		{Name: "note", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: "x"}}},
		{Name: "log", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Json{Json: "1"}}},
	}
	completion := func() *pawlv1.CompleteTurnRequest {
		return &pawlv1.CompleteTurnRequest{
			RunId: someRunID, TurnSeq: 1, Attempt: 1, Output: parts, Event: "Again", Artifacts: writes,
			Messages: []*pawlv1.Message{{Role: "tool", Parts: parts, ToolCallId: "1"}}, Usage: &pawlv1.Usage{InputTokens: 1},
		}
	}
	return []proto.Message{
		&pawlv1.EmitEventRequest{Namespace: "a-0", RunId: someRunID, Event: "Again", EventId: "e", TurnToken: "t", Artifacts: writes},
		&pawlv1.GetTurnRequest{RunId: someRunID},
		&pawlv1.SetArtifactsRequest{RunId: someRunID, Artifacts: writes, WriteId: "w", TurnToken: "t"},
		completion(),
		&pawlv1.WorkRequest{Id: 1, Credits: &pawlv1.WorkCredits{Turns: 1}, Item: &pawlv1.WorkRequest_CompleteTurn{CompleteTurn: completion()}},
	}
}

// TestFastValidIsTheContract: a request that the fast check accepts keeps every constraint of the contract,
// even if its fields are moved to the edges of their bounds.
func TestFastValidIsTheContract(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	moved, stayed := 0, 0
	for _, m := range goodMessages() {
		if !fastValid(m) {
			t.Errorf("not sure of %v", m)
		}
		for range 2000 {
			changed := proto.Clone(m)
			for range 1 + rng.IntN(2) {
				moveField(rng, changed.ProtoReflect())
			}
			if !fastValid(changed) {
				moved++
				continue
			}
			stayed++
			if err := protovalidate.Validate(changed); err != nil {
				t.Fatalf("sure of what the contract refuses: %v: %.200s", err, changed)
			}
		}
	}
	if moved < 1000 || stayed < 1000 {
		t.Errorf("%d of the changed requests are sure, %d are not", stayed, moved)
	}
}

// moveField changes one field of a message, or of one within it.
func moveField(rng *rand.Rand, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	if fields.Len() == 0 {
		return
	}
	field := fields.Get(rng.IntN(fields.Len()))
	switch {
	case field.IsMap():
	case field.IsList():
		list := m.Mutable(field).List()
		if n := list.Len(); n > 0 && field.Message() != nil && rng.IntN(3) > 0 {
			moveField(rng, list.Get(rng.IntN(n)).Message())
			return
		}
		list.Truncate(0)
		for range []int{0, 1, 64, 65, 256, 257}[rng.IntN(6)] {
			list.Append(list.NewElement())
		}
	case field.Message() != nil:
		if rng.IntN(4) == 0 {
			m.Clear(field)
			return
		}
		moveField(rng, m.Mutable(field).Message())
	case rng.IntN(8) == 0:
		m.Clear(field)
	default:
		m.Set(field, atEdge(rng, field))
	}
}

// atEdge is a value at the edge of some bound.
func atEdge(rng *rand.Rand, field protoreflect.FieldDescriptor) protoreflect.Value {
	bounds := []int64{0, 1, 63, 64, 128, 255, 256, 1024, 8192, 10_000, 65536, 1_000_000, 1_000_000_000_000}
	n := bounds[rng.IntN(len(bounds))] + int64(rng.IntN(3)) - 1
	words := []string{"user", "robot", "a-1", "A", "-a", "a_b", someRunID, "8" + someRunID[1:], someRunID[1:] + "U", someRunID + "0", strings.ToLower(someRunID)}
	switch field.Kind() {
	case protoreflect.StringKind:
		if rng.IntN(2) == 0 {
			return protoreflect.ValueOfString(words[rng.IntN(len(words))])
		}
		return protoreflect.ValueOfString(strings.Repeat("a", int(min(max(n, 0), 65537))))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{1})
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rng.IntN(5) - 1))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(n)
	default:
		return protoreflect.ValueOfUint64(uint64(max(n, 0)))
	}
}
