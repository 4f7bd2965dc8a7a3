package grpcapi

import (
	"context"
	"os"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/redact"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestListWorkers: the list has the connected workers, with what they serve and hold but without any token. It
// also has the ready work that no worker holds, with the number of workers that serve it.
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
	h := r.registerWorker(ctx, reg)
	other := registration("alpha")
	other.Prompts, other.Tools, other.TurnCapacity = nil, []string{"*"}, 0
	r.registerWorker(ctx, other)
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
	work := zeta.GetTurns()[0]
	if work.GetRunId() != turn.GetLease().GetRunId() || work.GetTurnSeq() == 0 || !work.GetDeadline().IsValid() {
		t.Fatalf("%v holds %v, not %v", zeta, work, turn.GetLease())
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
	_, err := pawlv1.NewWorkerServiceClient(r.conn).ListWorkers(withToken(testContext(t), "work"), &pawlv1.ListWorkersRequest{})
	wantError(t, err, codes.PermissionDenied, "SCOPE_MISSING")
}

// runPacks are the packs of the runs that can be read. read lists the runs whose packs were requested.
type runPacks struct {
	redact.Views
	packs map[string]*pack.Pack
	read  []string
}

func (p *runPacks) PackFor(_ context.Context, ref runtime.RunRef) (*machine.State, *pack.Pack, error) {
	p.read = append(p.read, ref.RunID)
	switch owner := p.packs[ref.RunID]; {
	case owner != nil:
		return &machine.State{RunID: ref.RunID}, owner, nil
	case ref.RunID == "deleted":
		return nil, nil, runtime.RunNotFound()
	}
	return nil, nil, &machine.Error{Code: machine.CodeUnavailable, Reason: "DATABASE_AWAY"}
}

// TestListWorkersHidesFailures tests which messages of last failures a caller gets, and that the rules of a run are
// read once, and never again after an error of the store.
func TestListWorkersHidesFailures(t *testing.T) {
	t.Parallel()
	packOf := func(file string) *pack.Pack {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, found, err := pack.Load(text, pack.Options{})
		if err != nil || p == nil {
			t.Fatal(found, err)
		}
		return p
	}
	packs := map[string]*pack.Pack{
		"sensitive": packOf("../../test/e2e/testdata/sensitive.pack.yaml"), "open": packOf("../../test/e2e/testdata/loop.pack.yaml"),
	}
	for name, c := range map[string]struct {
		scopes           runtime.Scopes
		runs, want, read []string
	}{
		"each run once": {
			runs: []string{"sensitive", "open", "sensitive", "open"}, want: []string{redact.TextMark, "boom", redact.TextMark, "boom"}, read: []string{"sensitive", "open"},
		},
		"a deleted run": {
			runs: []string{"deleted", "open", "deleted"}, want: []string{"", "boom", ""}, read: []string{"deleted", "open"},
		},
		"no store": {
			runs: []string{"open", "away", "sensitive", "away", "open"}, want: []string{"boom", "", "", "", "boom"}, read: []string{"open", "away"},
		},
		"a caller that may read all values": {
			scopes: runtime.ScopeValuesSensitive, runs: []string{"sensitive", "away"}, want: []string{"boom", "boom"},
		},
	} {
		workers := []*pawlv1.ConnectedWorker{{}, {LastFailure: &pawlv1.WorkFailure{RunId: "forgotten", Error: &pawlv1.Fault{Code: "C"}}}}
		for _, run := range c.runs {
			workers = append(workers, &pawlv1.ConnectedWorker{LastFailure: &pawlv1.WorkFailure{RunId: run, Error: &pawlv1.Fault{Code: "C", Message: "boom"}}})
		}
		views := &runPacks{packs: packs}
		call := runtime.Call{Principal: runtime.Principal{Scopes: runtime.ScopeRunsRead | c.scopes}}
		hideFailures(t.Context(), redact.Gate{Views: views}, call, workers)
		var got []string
		for _, w := range workers[2:] {
			got = append(got, w.GetLastFailure().GetError().GetMessage())
		}
		if !slices.Equal(got, c.want) || !slices.Equal(views.read, c.read) {
			t.Errorf("%s: messages %q, rules read of %q", name, got, views.read)
		}
	}
}
