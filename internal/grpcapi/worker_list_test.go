package grpcapi

import (
	"testing"

	"google.golang.org/grpc/codes"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestListWorkers: who is connected, what they serve and hold, without any token, and
// what is ready that nobody has, with how many serve it.
func TestListWorkers(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	service := pawlv1.NewWorkerServiceClient(r.conn)
	list := func() *pawlv1.ListWorkersResponse {
		t.Helper()
		got, err := service.ListWorkers(ctx, &pawlv1.ListWorkersRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := list(); len(got.GetWorkers()) != 0 || len(got.GetReady()) != 0 {
		t.Fatalf("without workers: %v", got)
	}
	reg := registration("zeta")
	reg.Client = "pawl-test/1"
	r.register(ctx)
	h := r.hand(ctx, reg)
	other := registration("alpha")
	other.Prompts, other.Tools, other.TurnCapacity = nil, []string{"*"}, 0
	r.hand(ctx, other)
	started, waiting := r.startWorkers(ctx), r.startWorkers(ctx)
	turn := h.turn()
	got := list()
	if got.GetTotalWorkers() != 2 || got.GetWorkers()[0].GetWorkerId() != "alpha" || got.GetWorkers()[1].GetWorkerId() != "zeta" {
		t.Fatalf("%v", got)
	}
	zeta := got.GetWorkers()[1]
	if zeta.GetClient() != "pawl-test/1" || zeta.GetHeldTurns() != 1 || zeta.GetTurnCapacity() != 4 || zeta.GetPrompts()[0] != "*" ||
		!zeta.GetConnectedAt().IsValid() || !zeta.GetSeenAt().IsValid() || zeta.GetDraining() {
		t.Fatalf("%v", zeta)
	}
	held := zeta.GetTurns()[0]
	if held.GetRunId() != turn.GetLease().GetRunId() || held.GetTurnSeq() == 0 || !held.GetDeadline().IsValid() {
		t.Fatalf("%v holds %v, not %v", zeta, held, turn.GetLease())
	}
	if len(got.GetReady()) != 1 {
		t.Fatalf("ready: %v", got.GetReady())
	}
	ready := got.GetReady()[0]
	if ready.GetCount() != 1 || ready.GetWorkers() != 1 || ready.GetPrompt() == "" || ready.GetTool() != "" ||
		ready.GetPack().GetDigest() != started.GetRun().GetPack().GetDigest() {
		t.Fatalf("%v; %s waits", ready, waiting.GetRun().GetRunId())
	}
	if _, err := h.ask(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Drain{Drain: &pawlv1.WorkerDrain{}}}); err != nil {
		t.Fatal(err)
	}
	if !list().GetWorkers()[1].GetDraining() {
		t.Fatal("a worker that drains does not say so")
	}
}

// TestListWorkersNeedsScope: a worker's own scope does not let it see the others.
func TestListWorkersNeedsScope(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens)
	_, err := pawlv1.NewWorkerServiceClient(r.conn).ListWorkers(as(testContext(t), "work"), &pawlv1.ListWorkersRequest{})
	wantError(t, err, codes.PermissionDenied, "SCOPE_MISSING")
}
