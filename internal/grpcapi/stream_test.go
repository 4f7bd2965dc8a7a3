package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/services"
)

func (r *rig) stream(ctx context.Context, req *pawlv1.StreamTransitionsRequest) grpc.ServerStreamingClient[pawlv1.StreamTransitionsResponse] {
	r.t.Helper()
	stream, err := r.runs.StreamTransitions(ctx, req)
	if err != nil {
		r.t.Fatal(err)
	}
	return stream
}

// next reads one item and fails the test if the stream is over.
func next(t testing.TB, stream grpc.ServerStreamingClient[pawlv1.StreamTransitionsResponse]) *pawlv1.StreamTransitionsResponse {
	t.Helper()
	item, err := stream.Recv()
	if err != nil {
		t.Fatalf("Recv: %v", err)
	}
	return item
}

// drive makes n transitions of a run and returns the last turn.
func (r *rig) drive(ctx context.Context, turn *pawlv1.TurnRef, n int) *pawlv1.TurnRef {
	r.t.Helper()
	for i := range n {
		turn = r.emit(ctx, turn, "Again", text("note", fmt.Sprint(i))).GetTurn()
	}
	return turn
}

func TestStreamOfOneRun(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.drive(ctx, r.start(ctx).GetTurn(), 9)
	items := collect(t, r.stream(ctx, &pawlv1.StreamTransitionsRequest{RunId: turn.GetRunId()}))
	if len(items) != 10 {
		t.Fatalf("%d items", len(items))
	}
	prev := uint64(0)
	for i, item := range items {
		record := item.GetRecord()
		if record.GetPrevSeq() != prev || record.GetSeq() <= prev || item.GetSnapshot() != nil {
			t.Fatalf("item %d: %v after seq %d", i, record, prev)
		}
		prev = record.GetSeq()
	}
	if got := items[9].GetRecord().GetTransition().GetArtifactsWritten()[0].GetValue(); got.GetText() != "8" || got.GetMediaType() != "text/plain" {
		t.Fatalf("value %v", got)
	}
	all := collect(t, r.stream(ctx, &pawlv1.StreamTransitionsRequest{
		RunId: turn.GetRunId(), AfterSeq: items[7].GetRecord().GetSeq(),
	}))
	if len(all) != 2 || !proto.Equal(all[0], items[8]) {
		t.Fatalf("resumed by seq: %v", all)
	}
	page, err := r.runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: turn.GetRunId(), PageSize: 6})
	if err != nil || len(page.GetRecords()) != 6 || !proto.Equal(page.GetRecords()[5], items[5].GetRecord()) {
		t.Fatalf("ListTransitions %v, %v", page, err)
	}
	page, err = r.runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: turn.GetRunId(), PageSize: 6, PageToken: page.GetNextPageToken()})
	if err != nil || len(page.GetRecords()) != 4 || !proto.Equal(page.GetRecords()[0], items[6].GetRecord()) {
		t.Fatalf("ListTransitions %v, %v", page, err)
	}
}

// TestStreamResumesAtEveryCursor: after each cursor, a reader that resumes gets what an uninterrupted reader
// got, without a gap or a repeat.
func TestStreamResumesAtEveryCursor(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	one := r.start(ctx).GetTurn()
	two := r.startOnly(ctx).GetTurn()
	for range 3 {
		one, two = r.drive(ctx, one, 1), r.drive(ctx, two, 1)
	}
	r.emit(ctx, one, "Finish")
	if _, err := r.runs.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: two.GetRunId()}); err != nil {
		t.Fatal(err)
	}
	kinds := []pawlv1.RecordKind{
		pawlv1.RecordKind_RECORD_KIND_TRANSITION, pawlv1.RecordKind_RECORD_KIND_TURN_COMPLETED,
		pawlv1.RecordKind_RECORD_KIND_TURN_ABANDONED, pawlv1.RecordKind_RECORD_KIND_ENDED,
	}
	for _, req := range []*pawlv1.StreamTransitionsRequest{{Kinds: kinds}, {Kinds: kinds, RunId: one.GetRunId()}, {Kinds: kinds, RunId: two.GetRunId()}} {
		responses := collect(t, r.stream(ctx, req))
		if len(responses) < 5 {
			t.Fatalf("%d items", len(responses))
		}
		for i, item := range responses {
			again := proto.Clone(req).(*pawlv1.StreamTransitionsRequest)
			again.AfterCursor = item.GetRecord().GetCursor()
			rest := collect(t, r.stream(ctx, again))
			if !slices.EqualFunc(rest, responses[i+1:], func(a, b *pawlv1.StreamTransitionsResponse) bool { return proto.Equal(a, b) }) {
				t.Fatalf("after item %d of %v: %d items, want %d", i, req, len(rest), len(responses)-i-1)
			}
		}
	}
}

func TestStreamSnapshots(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.drive(ctx, r.start(ctx).GetTurn(), 3)
	r.emit(ctx, turn, "Check")
	items := collect(t, r.stream(ctx, &pawlv1.StreamTransitionsRequest{RunId: turn.GetRunId(), Snapshots: true}))
	for i, item := range items {
		snapshot := item.GetSnapshot()
		if snapshot.GetRun().GetTotalVisits() != int32(i)+1 || snapshot.GetRun().GetSeq() < item.GetRecord().GetSeq() {
			t.Fatalf("snapshot %d: %v", i, snapshot)
		}
		if i == 0 {
			continue
		}
		want := fmt.Sprint(min(i, 3) - 1)
		if got := snapshot.GetArtifacts(); len(got) != 1 || got[0].GetValue().GetText() != want {
			t.Fatalf("artifacts of snapshot %d: %v", i, got)
		}
	}
	if events := items[4].GetSnapshot().GetRun().GetAllowedEvents(); !slices.Equal(events, []string{"Back"}) {
		t.Fatalf("allowed events %v", events)
	}
}

func TestStreamFilters(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	labelled := startRequest()
	labelled.Labels = map[string]string{"team": "a"}
	started, err := r.runs.StartRun(ctx, labelled)
	if err != nil {
		t.Fatal(err)
	}
	r.drive(ctx, started.GetTurn(), 1)
	other := r.startOnly(ctx).GetTurn()
	r.emit(ctx, other, "Ask")
	tests := []struct {
		name   string
		filter *pawlv1.RunFilter
		want   int
	}{
		{"none", nil, 4},
		{"label", &pawlv1.RunFilter{Labels: map[string]string{"team": "a"}}, 2},
		{"state", &pawlv1.RunFilter{State: "gate"}, 1},
		{"status", &pawlv1.RunFilter{Statuses: []pawlv1.RunStatus{pawlv1.RunStatus_RUN_STATUS_WAITING}}, 1},
		{"pack", &pawlv1.RunFilter{Pack: "loop@1.0.0"}, 4},
		{"other pack", &pawlv1.RunFilter{Pack: "else"}, 0},
		{"parent", &pawlv1.RunFilter{ParentRunId: other.GetRunId()}, 0},
	}
	for _, tt := range tests {
		if items := collect(t, r.stream(ctx, &pawlv1.StreamTransitionsRequest{Filter: tt.filter})); len(items) != tt.want {
			t.Errorf("%s: %d items, want %d", tt.name, len(items), tt.want)
		}
	}
	runs, err := r.runs.ListRuns(ctx, &pawlv1.ListRunsRequest{Filter: &pawlv1.RunFilter{Labels: map[string]string{"team": "a"}}})
	if err != nil || len(runs.GetRuns()) != 1 || runs.GetRuns()[0].GetLabels()["team"] != "a" {
		t.Fatalf("ListRuns %v, %v", runs, err)
	}
	oldest, err := r.runs.ListRuns(ctx, &pawlv1.ListRunsRequest{Order: pawlv1.RunOrder_RUN_ORDER_OLDEST_FIRST, PageSize: 1})
	if err != nil || oldest.GetRuns()[0].GetRunId() != started.GetRun().GetRunId() || oldest.GetNextPageToken() == "" {
		t.Fatalf("ListRuns %v, %v", oldest, err)
	}
}

// TestFollow: a follower gets the records that come later. Its stream ends when its run ends.
func TestFollow(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	stream := r.stream(ctx, &pawlv1.StreamTransitionsRequest{RunId: turn.GetRunId(), Follow: true})
	if got := next(t, stream).GetRecord().GetSeq(); got != 1 {
		t.Fatalf("seq %d", got)
	}
	r.drive(ctx, turn, 1)
	if got := next(t, stream).GetRecord().GetTransition().GetEvent(); got != "Again" {
		t.Fatalf("event %q", got)
	}
	if _, err := r.runs.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: turn.GetRunId()}); err != nil {
		t.Fatal(err)
	}
	rest := collect(t, stream)
	if len(rest) != 1 || len(rest[0].GetRecord().GetEnded().GetFinalArtifacts()) != 1 {
		t.Fatalf("rest %v", rest)
	}
}

// TestHeartbeat: a quiet stream says up to which position it has looked. A reader can resume there.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	stream := r.stream(ctx, &pawlv1.StreamTransitionsRequest{Filter: &pawlv1.RunFilter{State: "gate"}, Follow: true})
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	r.clock.AwaitAlarm(streams.DefaultHeartbeat)
	r.clock.Advance(streams.DefaultHeartbeat)
	beat := next(t, stream).GetHeartbeat()
	if beat.GetCursor() == "" || beat.GetAt() == nil {
		t.Fatalf("heartbeat %v", beat)
	}
	rest := collect(t, r.stream(ctx, &pawlv1.StreamTransitionsRequest{AfterCursor: beat.GetCursor()}))
	if len(rest) != 0 {
		t.Fatalf("rest %v", rest)
	}
	r.emit(ctx, turn, "Ask")
	if got := next(t, stream).GetRecord().GetTransition().GetToState(); got != "gate" {
		t.Fatalf("state %q", got)
	}
}

func TestStreamPositionsThatAreNone(t *testing.T) {
	t.Parallel()
	r, other := newRig(t), newRig(t)
	ctx := testContext(t)
	turn := r.start(ctx).GetTurn()
	foreign := other.start(ctx).GetRecord().GetCursor()
	tests := []struct {
		name   string
		req    *pawlv1.StreamTransitionsRequest
		code   codes.Code
		reason string
	}{
		{"foreign cursor", &pawlv1.StreamTransitionsRequest{AfterCursor: foreign}, codes.OutOfRange, "CURSOR_FOREIGN"},
		{"no cursor", &pawlv1.StreamTransitionsRequest{AfterCursor: "abc"}, codes.InvalidArgument, "BAD_CURSOR"},
		{"seq to come", &pawlv1.StreamTransitionsRequest{RunId: turn.GetRunId(), AfterSeq: 99}, codes.OutOfRange, "SEQ_AHEAD"},
		{"seq of all runs", &pawlv1.StreamTransitionsRequest{AfterSeq: 1}, codes.InvalidArgument, "INVALID_REQUEST"},
		{"two positions", &pawlv1.StreamTransitionsRequest{RunId: turn.GetRunId(), AfterSeq: 1, AfterCursor: foreign}, codes.InvalidArgument, "INVALID_REQUEST"},
		{"filter of one run", &pawlv1.StreamTransitionsRequest{RunId: turn.GetRunId(), Filter: &pawlv1.RunFilter{State: "x"}}, codes.InvalidArgument, "INVALID_REQUEST"},
		{"unknown run", &pawlv1.StreamTransitionsRequest{RunId: "01J99999999999999999999999"}, codes.NotFound, "RUN_NOT_FOUND"},
	}
	for _, tt := range tests {
		_, err := r.stream(ctx, tt.req).Recv()
		t.Log(tt.name)
		wantError(t, err, tt.code, tt.reason)
	}
}

// TestStreamEndsWithTheRight: a stream ends when its token is removed, whether the stream reads or waits.
func TestStreamEndsWithTheRight(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withTokens), testContext(t)
	r.start(withToken(ctx, "driver"))
	reader := r.stream(withToken(ctx, "runs:read"), &pawlv1.StreamTransitionsRequest{Follow: true})
	next(t, reader)
	driver := r.stream(withToken(ctx, "driver"), &pawlv1.StreamTransitionsRequest{Follow: true})
	next(t, driver)
	token := auth.Token{Principal: "driver", Secret: secretOf("driver"), Scopes: runtime.ScopeRunsRead}
	if err := r.server.SetRights(Rights{Tokens: []auth.Token{token}}); err != nil {
		t.Fatal(err)
	}
	_, err := reader.Recv()
	wantError(t, err, codes.Unauthenticated, "TOKEN_REVOKED")
	token.Scopes = runtime.ScopeWork
	if err := r.server.SetRights(Rights{Tokens: []auth.Token{token}}); err != nil {
		t.Fatal(err)
	}
	_, err = driver.Recv()
	wantError(t, err, codes.PermissionDenied, "SCOPE_MISSING")
	if err := r.server.SetRights(Rights{Tokens: nil}); err == nil {
		t.Fatal("authentication was turned off while serving")
	}
	if err := r.server.SetRights(Rights{Tokens: []auth.Token{{Principal: "x", Secret: "short", Scopes: runtime.ScopeAdmin}}}); err == nil {
		t.Fatal("a short token was taken")
	}
}

// TestStreamEndsWithSensitiveValues: a stream that shows sensitive values ends when its principal may no
// longer read them, even if it may still read the rest.
func TestStreamEndsWithSensitiveValues(t *testing.T) {
	t.Parallel()
	for _, had := range []runtime.Scopes{runtime.ScopeValuesSensitive, runtime.ScopeAdmin} {
		r, ctx := newRig(t, withTokens), testContext(t)
		r.start(withToken(ctx, "driver"))
		token := auth.Token{Principal: "reader", Secret: secretOf("reader"), Scopes: runtime.ScopeRunsRead | had}
		set := func() {
			t.Helper()
			if err := r.server.SetRights(Rights{Tokens: append(slices.Clone(r.server.cfg.Tokens), token)}); err != nil {
				t.Fatal(err)
			}
		}
		set()
		reader := r.stream(withToken(ctx, "reader"), &pawlv1.StreamTransitionsRequest{Follow: true})
		next(t, reader)
		token.Scopes = runtime.ScopeRunsRead
		set()
		_, err := reader.Recv()
		wantError(t, err, codes.Unauthenticated, "SCOPE_REVOKED")
	}
}

// TestSlowReader: a reader that does not read delays neither the run nor other readers. Later it gets
// everything.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	slow := r.stream(ctx, &pawlv1.StreamTransitionsRequest{RunId: turn.GetRunId(), Follow: true, Snapshots: true})
	value := make([]byte, 32<<10)
	for i := range value {
		value[i] = 'x'
	}
	const n = 60
	for range n {
		turn = r.emit(ctx, turn, "Again", text("note", string(value))).GetTurn()
	}
	r.emit(ctx, turn, "Finish")
	for i := range n + 2 {
		if got := next(t, slow).GetRecord().GetTransition().GetTotalVisits(); got != int32(i)+1 {
			t.Fatalf("item %d is visit %d", i, got)
		}
	}
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config, _ *services.Config) { c.MaxStreams = 1 })
	ctx := testContext(t)
	run := r.start(ctx).GetRun().GetRunId()
	streaming, stop := context.WithCancel(ctx)
	first := r.stream(streaming, &pawlv1.StreamTransitionsRequest{RunId: run, Follow: true})
	next(t, first)
	_, err := r.stream(ctx, &pawlv1.StreamTransitionsRequest{RunId: run}).Recv()
	wantError(t, err, codes.ResourceExhausted, "MAX_STREAMS")
	_, err = r.runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: run})
	wantError(t, err, codes.ResourceExhausted, "MAX_STREAMS")
	stop()
	for {
		if _, err := r.stream(ctx, &pawlv1.StreamTransitionsRequest{RunId: run}).Recv(); err == nil {
			return
		}
	}
}

// TestDrainEndsStreamsAndWaits: a server that stops does not wait for streams and calls that would stay for
// ever.
func TestDrainEndsStreamsAndWaits(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	run := r.start(ctx).GetRun().GetRunId()
	stream := r.stream(ctx, &pawlv1.StreamTransitionsRequest{Follow: true})
	next(t, stream)
	waited := make(chan error, 1)
	entered := make(chan struct{})
	go func() {
		close(entered)
		got, err := r.runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: run})
		if err == nil && !got.GetTimedOut() {
			err = fmt.Errorf("the run did not end: %v", got)
		}
		waited <- err
	}()
	<-entered
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := r.server.Shutdown(short); err != nil {
		t.Fatal(err)
	}
	_, err := stream.Recv()
	wantError(t, err, codes.Unavailable, "DRAINING")
	if err := <-waited; err != nil && codes.Unavailable != codeOf(err) {
		t.Fatal(err)
	}
}

// TestWhyAStreamIsOver: if the server ended a stream, the stream has the server's reason. If it is unknown
// whether the request took effect, the stream has that error instead.
func TestWhyAStreamIsOver(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancelCause(t.Context())
	end(draining())
	unsure := &machine.Error{Code: machine.CodeUnavailable, Reason: apierror.CommitUnknown}
	for name, one := range map[string]struct{ got, want error }{
		"its reader is there": {context.Canceled, context.Cause(ctx)}, "it ended by itself": {streams.ErrEnded, nil}, "nobody knows": {unsure, unsure},
	} {
		if err := streamEnd(ctx, one.got); !errors.Is(err, one.want) || (err == nil) != (one.want == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStreamStatuses: if the caller asks for statuses, each record has the status of the run after the commit
// that holds the record. Other records of the commit and the start of the stream do not change it.
func TestStreamStatuses(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.drive(ctx, r.start(ctx).GetTurn(), 1)
	run := turn.GetRunId()
	r.emit(ctx, turn, "Ask")
	kinds := []pawlv1.RecordKind{
		pawlv1.RecordKind_RECORD_KIND_TRANSITION, pawlv1.RecordKind_RECORD_KIND_TURN_ABANDONED, pawlv1.RecordKind_RECORD_KIND_ENDED,
	}
	if _, err := r.runs.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: run}); err != nil {
		t.Fatal(err)
	}
	const running, waiting, cancelled = pawlv1.RunStatus_RUN_STATUS_RUNNING, pawlv1.RunStatus_RUN_STATUS_WAITING, pawlv1.RunStatus_RUN_STATUS_CANCELLED
	responses := collect(t, r.stream(ctx, &pawlv1.StreamTransitionsRequest{RunId: run, Statuses: true, Kinds: kinds}))
	for i, want := range map[int]pawlv1.RunStatus{0: running, len(responses) - 2: waiting, len(responses) - 1: cancelled} {
		if got := responses[i].GetStatus(); got != want {
			t.Errorf("item %d: %v, want %v: %v", i, got, want, responses[i].GetRecord())
		}
	}
	for i, item := range responses {
		after := item.GetRecord().GetSeq()
		rest := collect(t, r.stream(ctx, &pawlv1.StreamTransitionsRequest{RunId: run, Statuses: true, Kinds: kinds, AfterSeq: after}))
		if !slices.EqualFunc(rest, responses[i+1:], func(a, b *pawlv1.StreamTransitionsResponse) bool { return proto.Equal(a, b) }) {
			t.Errorf("behind record %d: %v, want %v", after, rest, responses[i+1:])
		}
	}
	for _, item := range collect(t, r.stream(ctx, &pawlv1.StreamTransitionsRequest{RunId: run})) {
		if item.GetStatus() != 0 {
			t.Errorf("nobody asked for %v", item.GetStatus())
		}
	}
}

// TestStreamOfAHeldCall: the record of a call that waits for a decision has the digest that the
// decision names, unless the reader may not see the payload.
func TestStreamOfAHeldCall(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register1(ctx, "", controlled("held", `"max_tokens": 1000, "tools": {"run_tests": {"approve": "always"}}`))
	run := r.startRun(ctx, "", "held", "a").GetRunId()
	// A run whose call waits for a decision is WAITING.
	items := collect(t, r.stream(ctx, &pawlv1.StreamTransitionsRequest{
		RunId: run, Statuses: true, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_REQUESTED},
	}))
	if len(items) != 1 || items[0].GetStatus() != pawlv1.RunStatus_RUN_STATUS_WAITING {
		t.Fatalf("calls %v", items)
	}
	if got, want := items[0].GetRecord().GetStepRequested().GetHold().GetDigest(), r.digestOf(ctx, "", run, 1); got != want || got == "" {
		t.Fatalf("digest %q, want %q", got, want)
	}
}
