package pawl_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestAShortLeaseOutlivesItsHandler (8.17): the worker chooses the heartbeat's pause while it holds no
// lease. A turn that then arrives with a lease of one second is kept. On a machine that stalls for a
// second the test uses a longer lease, still far below that pause.
func TestAShortLeaseOutlivesItsHandler(t *testing.T) {
	t.Parallel()
	for sec := 1; ; sec *= 2 {
		run, failed := underLease(t, sec)
		if run.GetStatus() == pawlv1.RunStatus_RUN_STATUS_COMPLETED && len(failed) == 0 {
			return
		}
		if sec == 4 {
			t.Fatalf("under a lease of %d s the run is %v, failed executions: %v", sec, run, failed)
		}
	}
}

// underLease has a run executed by a handler that works for two leases, and returns it as
// it ended, and its failed executions.
func underLease(t *testing.T, sec int) (*pawlv1.Run, []*pawlv1.Record) {
	t.Helper()
	s, ctx := newSidecar(t), testContext(t)
	lease := fmt.Sprintf(`"lease_sec": %d, "retry"`, sec)
	content := strings.Replace(strings.Replace(pack, `"retry"`, lease, 1), `"1.0.0"`, `"1.1.0"`, 1)
	if _, err := s.packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: []byte(content)}); err != nil {
		t.Fatal(err)
	}
	turn := func(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
		if t.Assignment.GetTurn().GetTerminal() {
			return pawl.Completion{}, nil
		}
		over := time.NewTimer(2 * t.Assignment.GetLease().GetDuration().AsDuration())
		defer over.Stop()
		select {
		case <-over.C:
			return pawl.Completion{Event: "Enough"}, nil
		case <-ctx.Done():
			return pawl.Completion{}, ctx.Err()
		}
	}
	stop := s.work(ctx, pawl.WorkerConfig{ID: "w", Prompts: map[string]pawl.TurnFunc{"counter": turn}})
	defer stop()
	run := s.ended(ctx, s.start(ctx))
	records, err := s.runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{
		RunId: run.GetRunId(), Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_TURN_FAILED},
	})
	if err != nil {
		t.Fatal(err)
	}
	return run, records.GetRecords()
}

// TestBadFailures (8.17): for any code and message of a failure, the worker's slot is free afterwards
// and the failure is recorded.
func TestBadFailures(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), testContext(t)
	bad := map[string]*pawl.Failure{
		"nothing":   {Final: true},
		"no UTF-8":  {Code: "\xff\xfe", Message: "\xc3", Final: true},
		"too long":  {Code: strings.Repeat("ä", 100_000), Message: strings.Repeat("ö", 6<<20), Final: true},
		"cut in ä":  {Code: "x" + strings.Repeat("ä", 100), Final: true},
		"with NULs": {Code: "\x00", Message: "\x00", Final: true},
	}
	var next *pawl.Failure
	turn := func(context.Context, *pawl.Turn) (pawl.Completion, error) { return pawl.Completion{}, next }
	stop := s.work(ctx, pawl.WorkerConfig{ID: "w", Prompts: map[string]pawl.TurnFunc{"counter": turn}})
	defer stop()
	for name, failure := range bad {
		next = failure
		if run := s.ended(ctx, s.start(ctx)); run.GetStatus() != pawlv1.RunStatus_RUN_STATUS_FAILED {
			t.Errorf("%s: the run is %v", name, run.GetStatus())
		}
	}
}
