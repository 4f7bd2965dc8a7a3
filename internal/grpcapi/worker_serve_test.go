package grpcapi

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/services"
)

func serveRun(run string, tools ...string) *pawlv1.WorkRequest {
	return &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_ServeRun{ServeRun: &pawlv1.ServeRun{RunId: run, Tools: tools}}}
}

// unserved waits for the response that the worker does not serve a run any more.
func (h *testWorker) unserved() *pawlv1.RunUnserved {
	h.t.Helper()
	h.until("end of the serving", func() bool { return len(h.unservedRuns) > 0 })
	next := h.unservedRuns[0]
	h.unservedRuns = h.unservedRuns[1:]
	return next
}

// TestAServedTurnComesWithTheReceipt: the turn that a request leads to is queued ahead of the
// request's receipt, so both go in one message.
func TestAServedTurnComesWithTheReceipt(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	run := r.start(ctx).GetTurn().GetRunId()
	h := r.registerWorker(ctx, &pawlv1.WorkerRegistration{WorkerId: "app", Batches: true})
	if _, err := h.ask(serveRun(run)); err != nil {
		t.Fatal(err)
	}
	turn := h.turn()
	for range 20 {
		if _, err := h.ask(completion(turn, "Again")); err != nil {
			t.Fatal(err)
		}
		if len(h.turns) != 1 {
			t.Fatalf("with the receipt came %d turns", len(h.turns))
		}
		turn = h.turn()
	}
}

// TestServeRun: a principal that may start a run can serve it over a stream that offers nothing. It does not
// need the scope work, and the server may have workers turned off. The stream ends with the right to it.
func TestServeRun(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withTokens, func(_ *Config, c *services.Config) { c.Work.Off = true }), testContext(t)
	ctx = withToken(ctx, "driver")
	run := r.start(ctx).GetTurn().GetRunId()
	h := r.registerWorker(ctx, &pawlv1.WorkerRegistration{WorkerId: "app"})
	if _, err := h.ask(serveRun(run, "run_tests")); err != nil {
		t.Fatal(err)
	}
	turn := h.turn()
	if turn.GetLease().GetRunId() != run {
		t.Fatalf("assigned %v", turn.GetLease())
	}
	h.send(stepRequest(turn, "run_tests", `{"path":"a"}`))
	if _, err := h.ask(stepAnswer(h.step(), `{}`)); err != nil {
		t.Fatal(err)
	}
	list, err := pawlv1.NewWorkerServiceClient(r.conn).ListWorkers(ctx, &pawlv1.ListWorkersRequest{})
	if err != nil || list.GetWorkers()[0].GetServedRuns() != 1 {
		t.Fatalf("listed %v, %v", list, err)
	}
	h.send(completion(turn, "Finish"))
	if _, err := h.ask(completion(h.turn(), "")); err != nil {
		t.Fatal(err)
	}
	if got := h.unserved(); got.GetRunId() != run || got.GetCause() != pawlv1.UnservedCause_UNSERVED_CAUSE_RUN_ENDED {
		t.Fatalf("told %v", got)
	}
	_, err = h.ask(serveRun("01ARZ3NDEKTSV4RRFFQ69G5FAV"))
	wantError(t, err, codes.NotFound, "RUN_NOT_FOUND")
	_, err = h.ask(serveRun("no id"))
	wantError(t, err, codes.InvalidArgument, "INVALID_REQUEST")

	tokens := slices.Clone(r.server.cfg.Tokens)
	for i := range tokens {
		if tokens[i].Principal == "driver" {
			tokens[i].Scopes = runtime.ScopeRunsRead | runtime.ScopeWork
		}
	}
	if err := r.server.SetRights(Rights{Tokens: tokens}); err != nil {
		t.Fatal(err)
	}
	wantError(t, h.end(), codes.PermissionDenied, "SCOPE_MISSING")
}

// TestServedRunsAgain: a worker that connects again names the runs that it serves. After the answer to its
// registration, it receives which of them it does not serve any more.
func TestServedRunsAgain(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	run := r.start(ctx).GetTurn().GetRunId()
	h := r.registerWorker(ctx, &pawlv1.WorkerRegistration{WorkerId: "app", ServedRuns: []*pawlv1.ServeRun{
		{RunId: run}, {RunId: "01ARZ3NDEKTSV4RRFFQ69G5FAV"},
	}})
	if got := h.unserved(); got.GetRunId() == run || got.GetCause() != pawlv1.UnservedCause_UNSERVED_CAUSE_REFUSED {
		t.Fatalf("told %v", got)
	}
	h.turn()
	other := r.registerWorker(ctx, &pawlv1.WorkerRegistration{WorkerId: "other", ServedRuns: []*pawlv1.ServeRun{{RunId: run}}})
	if got := other.unserved(); got.GetRunId() != run || got.GetCause() != pawlv1.UnservedCause_UNSERVED_CAUSE_TAKEN_OVER {
		t.Fatalf("told %v", got)
	}
	if _, err := other.ask(serveRun(run)); err != nil {
		t.Fatal(err)
	}
	if got := h.unserved(); got.GetCause() != pawlv1.UnservedCause_UNSERVED_CAUSE_TAKEN_OVER {
		t.Fatalf("told %v", got)
	}
	turn := other.turn()
	if _, err := other.ask(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_ReleaseRun{ReleaseRun: &pawlv1.ReleaseRun{RunId: run}}}); err != nil {
		t.Fatal(err)
	}
	other.until("revocation", func() bool { return len(other.revoked) > 0 })
	if other.revoked[0].GetTurn().GetToken() != turn.GetLease().GetToken() {
		t.Fatalf("revoked %v", other.revoked)
	}
}
