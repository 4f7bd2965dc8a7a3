package grpcapi

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestShowTurn: ShowTurn returns a turn as it was, even when the turn is over. It gives no token, and the
// tokens that were given before stay valid.
func TestShowTurn(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	started := r.start(ctx)
	run := started.GetRun().GetRunId()
	show := func(seq uint64) *pawlv1.GetTurnResponse {
		t.Helper()
		shown, err := r.runs.ShowTurn(ctx, &pawlv1.ShowTurnRequest{RunId: run, TurnSeq: seq})
		if err != nil {
			t.Fatal(err)
		}
		if shown.GetTurn().GetTurn().GetToken() != "" {
			t.Fatal("the answer holds a token")
		}
		return shown.GetTurn()
	}
	show(1)
	second := r.emit(ctx, started.GetTurn(), "Again", text("note", "first"))
	r.emit(ctx, second.GetTurn(), "Finish", text("note", "second"))
	for seq, want := range map[uint64]string{1: "Goal: ship. Note: ", second.GetSeq(): "Goal: ship. Note: first"} {
		if got := show(seq).GetSystemPrompt(); got != want {
			t.Errorf("prompt of turn %d %q, want %q", seq, got, want)
		}
	}
	_, err := r.runs.ShowTurn(ctx, &pawlv1.ShowTurnRequest{RunId: run, TurnSeq: 99})
	wantError(t, err, codes.NotFound, "RECORD_NOT_FOUND")
}

func TestShowTurnOfARecordThatOpenedNone(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	run := r.start(ctx).GetRun().GetRunId()
	paused, err := r.runs.PauseRun(ctx, &pawlv1.PauseRunRequest{RunId: run})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.runs.ShowTurn(ctx, &pawlv1.ShowTurnRequest{RunId: run, TurnSeq: paused.GetSeq()})
	wantError(t, err, codes.FailedPrecondition, "NO_OPEN_TURN")
}

func TestCountRuns(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	first := r.start(ctx).GetRun().GetRunId()
	r.startOnly(ctx)
	if _, err := r.runs.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: first}); err != nil {
		t.Fatal(err)
	}
	counted, err := r.runs.CountRuns(ctx, &pawlv1.CountRunsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range counted.GetCounts() {
		want := map[pawlv1.RunStatus]int64{pawlv1.RunStatus_RUN_STATUS_RUNNING: 1, pawlv1.RunStatus_RUN_STATUS_CANCELLED: 1}[c.GetStatus()]
		if c.GetStatus() != pawlv1.RunStatus(i+1) || c.GetRuns() != want {
			t.Errorf("count %v, want %d", c, want)
		}
	}
	if len(counted.GetCounts()) != len(pawlv1.RunStatus_name)-1 {
		t.Errorf("%d statuses", len(counted.GetCounts()))
	}
}

func TestGetCaller(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withTokens), testContext(t)
	for name, want := range map[string][]string{
		"driver": {"packs:write", "runs:write", "runs:read"}, "work": {"work"}, "admin": {"admin"},
	} {
		got, err := r.runs.GetCaller(withToken(ctx, name), &pawlv1.GetCallerRequest{})
		if err != nil || got.GetPrincipal() != name || !slices.Equal(got.GetScopes(), want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	_, err := r.runs.GetCaller(ctx, &pawlv1.GetCallerRequest{})
	wantError(t, err, codes.Unauthenticated, "TOKEN_MISSING")
}

// TestListRunsByReasonTimeAndID: the filter for the reason matches a whole reason or the part before a colon.
// The filter for the id matches the beginning of an id.
func TestListRunsByReasonTimeAndID(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	first := r.start(ctx).GetRun()
	if _, err := r.runs.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: first.GetRunId()}); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(1e9)
	second := r.startOnly(ctx).GetRun()
	for _, c := range []struct {
		filter *pawlv1.RunFilter
		want   []string
	}{
		{&pawlv1.RunFilter{Reason: "cancelled"}, []string{first.GetRunId()}},
		{&pawlv1.RunFilter{Reason: "cancel"}, nil},
		{&pawlv1.RunFilter{CreatedAfter: second.GetCreatedAt()}, []string{second.GetRunId()}},
		{&pawlv1.RunFilter{CreatedBefore: second.GetCreatedAt()}, []string{first.GetRunId()}},
		{&pawlv1.RunFilter{RunIdPrefix: first.GetRunId()}, []string{first.GetRunId()}},
		{&pawlv1.RunFilter{RunIdPrefix: first.GetRunId()[:1]}, []string{second.GetRunId(), first.GetRunId()}},
		{&pawlv1.RunFilter{RunIdPrefix: second.GetRunId(), Reason: "cancelled"}, nil},
		{&pawlv1.RunFilter{CreatedAfter: timestamppb.New(second.GetCreatedAt().AsTime().Add(1))}, nil},
	} {
		listed, err := r.runs.ListRuns(ctx, &pawlv1.ListRunsRequest{Filter: c.filter})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, run := range listed.GetRuns() {
			got = append(got, run.GetRunId())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.filter, got, c.want)
		}
	}
}

// TestStreamFromNow: a stream from now begins with its position, from which a reader can resume.
func TestStreamFromNow(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	started := r.start(ctx)
	stream, err := r.runs.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{FromNow: true, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil || first.GetHeartbeat().GetCursor() == "" {
		t.Fatalf("first item %v, %v", first, err)
	}
	moved := r.emit(ctx, started.GetTurn(), "Again")
	for _, req := range []*pawlv1.StreamTransitionsRequest{
		{FromNow: true, Follow: true}, {AfterCursor: first.GetHeartbeat().GetCursor(), Follow: true},
	} {
		from := stream
		if !req.GetFromNow() {
			if from, err = r.runs.StreamTransitions(ctx, req); err != nil {
				t.Fatal(err)
			}
		}
		item, err := from.Recv()
		if err != nil || item.GetRecord().GetSeq() != moved.GetSeq() {
			t.Fatalf("%v, %v; want record %d", item, err, moved.GetSeq())
		}
	}
}
