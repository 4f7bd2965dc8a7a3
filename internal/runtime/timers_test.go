package runtime_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/test/testkit"
)

func TestTimersOfAThousandRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 1000
	var last string
	for i := range n {
		req := startRequest(fmt.Sprint("s", i))
		req.State, req.Principal = "gate", boss
		last = r.startWith(req).RunID
	}
	r.background()
	// The gate's timeout moves every run to "work", where only the wall clock runs.
	r.clock.AwaitAlarm(time.Minute)
	r.clock.Advance(time.Minute)
	r.awaitCommits(2 * n)
	if s := r.view(last).State; s.Current != "work" || s.Transitions != 2 {
		t.Fatalf("run is in %s after %d transitions", s.Current, s.Transitions)
	}
	r.clock.AwaitAlarm(time.Hour)
	r.clock.Advance(time.Hour)
	r.awaitCommits(3 * n)
	page, err := r.ListRuns(context.Background(), query.ListRunsRequest{
		Call: runtime.Call{Principal: everyone}, PageSize: n,
		Filter: machine.RunFilter{Status: []machine.Status{machine.BudgetExhausted}},
	})
	if err != nil || len(page.Runs) != n {
		t.Fatalf("%d runs ended, %v", len(page.Runs), err)
	}
	if s := page.Runs[0]; s.Reason != "max_wall_time_sec" {
		t.Fatalf("reason %s", s.Reason)
	}
}

// awaitCommits waits until the store has taken n batches.
func (r *rig) awaitCommits(n int) {
	r.t.Helper()
	if !r.store.AwaitCommits(n, within) {
		r.t.Fatalf("%d commits, want %d", r.store.Commits(), n)
	}
}

// TestOverdueTimersFireAtStart: a deadline that passed while no engine ran fires at the next start.
func TestOverdueTimersFireAtStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	r.clock.Advance(2 * time.Hour)
	r.restart()
	r.background()
	state, settled, err := r.WaitRun(context.Background(), streams.WaitRequest{RunRef: ref(run.RunID, everyone)})
	if err != nil || !settled || state.Status != machine.BudgetExhausted {
		t.Fatalf("%+v, %v, %v", state, settled, err)
	}
	if state.At <= state.CreatedAt {
		t.Fatal("the end is not later than the start")
	}
}

// TestAnEarlierTimerWakesTheLoop: the loop sleeps for the wall clock when a
// shorter timeout is set.
func TestAnEarlierTimerWakesTheLoop(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	r.background()
	r.clock.AwaitAlarm(time.Hour)
	r.emit(run.RunID, "Ask", "", run.Turn.Token)
	r.clock.AwaitAlarm(time.Minute)
	r.clock.Advance(time.Minute)
	state, _, err := r.WaitRun(context.Background(), streams.WaitRequest{RunRef: ref(run.RunID, everyone), AfterSeq: 2})
	if err != nil || state.Current != "work" {
		t.Fatalf("%+v, %v", state, err)
	}
	records := r.records(run.RunID, machine.RecTransition)
	if tr := records[len(records)-1].Body.(*machine.Transition); tr.Cause != machine.CauseTimeout || tr.Event != "TimedOut" {
		t.Fatalf("transition %+v", tr)
	}
}

// TestAStuckTimerHoldsUpNobody: commits of one run are refused for a while. The timers of the other
// runs fire, and the timer of this run fires later.
func TestAStuckTimerHoldsUpNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *services.Config) { c.TimersInFlight = 1 })
	stuck, free := r.start("stuck"), r.start("free")
	r.store.FailCommits(func(b *machine.Batch) testkit.Fault {
		if b.State.RunID == stuck.RunID {
			return testkit.Fault{Err: &machine.Error{Code: machine.CodeResourceExhausted, Reason: "DISK_LOW"}}
		}
		return testkit.Fault{}
	})
	r.clock.Advance(time.Hour)
	r.background()
	r.awaitEnd(free.RunID)
	if s := r.view(stuck.RunID).State; s.Status.Terminal() {
		t.Fatal("the stuck run has ended")
	}
	r.store.FailCommits(nil)
	r.awaitEnd(stuck.RunID)
}

// awaitEnd advances the clock each time that a timer waits for it, until the run has ended.
func (r *rig) awaitEnd(run string) {
	r.t.Helper()
	ctx := within60(r.t)
	ended, fault := make(chan struct{}), error(nil)
	go func() {
		defer close(ended)
		for seq, over := uint64(1), false; !over && fault == nil; {
			var s *machine.State
			if s, _, fault = r.WaitRun(ctx, streams.WaitRequest{RunRef: ref(run, everyone), AfterSeq: seq}); fault == nil {
				seq, over = s.Seq, s.Status.Terminal()
			}
		}
	}()
	r.clock.AdvanceUntil(ended, time.Second)
	if fault != nil {
		r.t.Fatalf("run %s never ended: %v", run, fault)
	}
}

// records are all records of a run of some kinds.
func (r *rig) records(run string, kinds ...machine.RecordKind) []machine.Record {
	r.t.Helper()
	var records []machine.Record
	for token := ""; ; {
		page, err := r.ListTransitions(context.Background(), streams.ListRecordsRequest{
			RunRef: ref(run, everyone), Kinds: kinds, PageSize: 7, PageToken: token,
		})
		if err != nil {
			r.t.Fatal(err)
		}
		for _, row := range page.Records {
			records = append(records, row.Record)
		}
		if page.NextPage == "" {
			return records
		}
		token = page.NextPage
	}
}

func TestFailedTurnsAreRetriedAfterTheirPause(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	r.background()
	token := run.Turn.Token
	for attempt := 1; ; attempt++ {
		call := runtime.FailRequest{
			TurnCall: runtime.TurnCall{RunRef: ref(run.RunID, everyone), TurnToken: token, TurnSeq: run.Turn.Seq, Attempt: attempt},
			Error:    machine.Fault{Code: "boom", Message: "it broke"}, Retryable: true,
		}
		answer, err := r.FailTurn(context.Background(), call)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := r.FailTurn(context.Background(), call); err != nil || !again.Duplicate || again.State.Seq != answer.State.Seq {
			t.Fatalf("the same failure again: %+v, %v", again, err)
		}
		if answer.State.Status.Terminal() {
			if attempt != 3 || answer.State.Status != machine.Escalated || answer.State.Reason != "turn_failed" {
				t.Fatalf("ended after attempt %d: %v %s", attempt, answer.State.Status, answer.State.Reason)
			}
			return
		}
		if answer.Turn.Attempt != attempt+1 || answer.Turn.NotBefore == 0 || answer.Turn.Token == token {
			t.Fatalf("next turn %+v", answer.Turn)
		}
		token = answer.Turn.Token
		r.clock.AwaitAlarm(time.Minute)
		r.clock.Advance(time.Minute)
		if _, _, err := r.WaitRun(context.Background(), streams.WaitRequest{RunRef: ref(run.RunID, everyone), AfterSeq: answer.State.Seq}); err != nil {
			t.Fatal(err)
		}
	}
}
