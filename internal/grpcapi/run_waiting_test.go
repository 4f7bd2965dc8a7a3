package grpcapi

import (
	"strings"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestRunsSayWhatTheyWaitFor: GetRun, ListRuns and WaitRun agree about what each run waits for, and a
// list can be filtered by it.
func TestRunsSayWhatTheyWaitFor(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	r.register1(ctx, "", controlled("held", `"tools": {"run_tests": {"approve": "always"}}`))
	runs := make(map[string]pawlv1.WaitingKind)
	expect := func(run string, kind pawlv1.WaitingKind) { runs[run] = kind }

	expect(r.startOnly(ctx).GetRun().GetRunId(), pawlv1.WaitingKind_WAITING_KIND_CALLER)
	expect(r.startRun(ctx, "", "held", "a.go").GetRunId(), pawlv1.WaitingKind_WAITING_KIND_APPROVAL)
	expect(r.startRun(ctx, "", "loop", "a.go").GetRunId(), pawlv1.WaitingKind_WAITING_KIND_NO_WORKER)
	gate := r.startOnly(ctx).GetTurn()
	r.emit(ctx, gate, "Ask")
	expect(gate.GetRunId(), pawlv1.WaitingKind_WAITING_KIND_EVENT)
	paused := r.startOnly(ctx).GetRun().GetRunId()
	if _, err := r.runs.PauseRun(ctx, &pawlv1.PauseRunRequest{RunId: paused}); err != nil {
		t.Fatal(err)
	}
	expect(paused, pawlv1.WaitingKind_WAITING_KIND_PAUSED)
	done := r.startOnly(ctx).GetTurn()
	if _, err := r.runs.CompleteTurn(ctx, &pawlv1.CompleteTurnRequest{RunId: done.GetRunId(), TurnSeq: done.GetTurnSeq(), Attempt: done.GetAttempt(), TurnToken: done.GetToken()}); err != nil {
		t.Fatal(err)
	}
	expect(done.GetRunId(), pawlv1.WaitingKind_WAITING_KIND_INPUT)
	failed := r.startOnly(ctx).GetTurn()
	if _, err := r.runs.FailTurn(ctx, &pawlv1.FailTurnRequest{
		RunId: failed.GetRunId(), TurnSeq: failed.GetTurnSeq(), Attempt: failed.GetAttempt(), TurnToken: failed.GetToken(), Retryable: true, Error: &pawlv1.Fault{Code: "X", Message: "x"},
	}); err != nil {
		t.Fatal(err)
	}
	expect(failed.GetRunId(), pawlv1.WaitingKind_WAITING_KIND_RETRY)
	reg := registration("w1")
	reg.Tools = nil
	h := r.registerWorker(ctx, reg)
	expect(r.startWorkers(ctx).GetRun().GetRunId(), pawlv1.WaitingKind_WAITING_KIND_WORKER)
	h.turn()

	for run, want := range runs {
		got, err := r.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: run})
		if err != nil {
			t.Fatal(err)
		}
		waits := got.GetRun().GetWaiting()
		if waits.GetKind() != want || waits.GetSentence() == "" || !strings.HasSuffix(waits.GetSentence(), ".") {
			t.Errorf("%s: %v, want %s", run, waits, want)
		}
		list, err := r.runs.ListRuns(ctx, &pawlv1.ListRunsRequest{Filter: &pawlv1.RunFilter{Waiting: []pawlv1.WaitingKind{want}}})
		if err != nil || len(list.GetRuns()) != 1 || list.GetRuns()[0].GetRunId() != run || list.GetRuns()[0].GetWaiting().GetSentence() != waits.GetSentence() {
			t.Errorf("filter %s: %v, %v", want, list, err)
		}
		past, err := r.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: run, AtSeq: 1})
		if err != nil || past.GetRun().GetWaiting() != nil {
			t.Errorf("a past state: %v, %v", past, err)
		}
	}
	all, err := r.runs.ListRuns(ctx, &pawlv1.ListRunsRequest{})
	if err != nil || len(all.GetRuns()) != len(runs) {
		t.Fatalf("%v, %v", all, err)
	}
	for _, run := range all.GetRuns() {
		if got := run.GetWaiting().GetKind(); got != runs[run.GetRunId()] {
			t.Errorf("listed %s: %s, want %s", run.GetRunId(), got, runs[run.GetRunId()])
		}
	}
}

// TestFilterByWaitingHasPages: a list by what runs wait for goes on behind runs that wait for something
// else.
func TestFilterByWaitingHasPages(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	var paused []string
	for i := range 7 {
		run := r.startOnly(ctx).GetRun().GetRunId()
		if i%3 == 0 {
			if _, err := r.runs.PauseRun(ctx, &pawlv1.PauseRunRequest{RunId: run}); err != nil {
				t.Fatal(err)
			}
			paused = append([]string{run}, paused...)
		}
	}
	req := &pawlv1.ListRunsRequest{Filter: &pawlv1.RunFilter{Waiting: []pawlv1.WaitingKind{pawlv1.WaitingKind_WAITING_KIND_PAUSED}}, PageSize: 1}
	var got []string
	for {
		page, err := r.runs.ListRuns(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range page.GetRuns() {
			got = append(got, run.GetRunId())
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if strings.Join(got, " ") != strings.Join(paused, " ") {
		t.Errorf("%v, want %v", got, paused)
	}
}
