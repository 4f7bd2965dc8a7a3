package runtime_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// Faults that other systems have (docs/dev/testing.md#fault-catalogue) and that need an engine with
// its restarts to be shown absent.

// TestRestartsChangeNoTotal plays one script twice, once with a restart after
// each input: counters, deadline, attempts, steps and artifacts are the same.
func TestRestartsChangeNoTotal(t *testing.T) {
	t.Parallel()
	calm := playTotals(t, func(*rig) {})
	shaken := playTotals(t, func(r *rig) { r.restart() })
	if !reflect.DeepEqual(calm, shaken) {
		t.Fatalf("without restarts %+v\nwith restarts    %+v", calm, shaken)
	}
	if s := shaken; s.Turn.Attempt != 2 || s.ToolCalls != 5 || s.TotalVisits != 3 || s.Tokens != 14 || s.Deadline == 0 || len(s.Artifacts) != 2 {
		t.Fatalf("the script did too little: %+v", s)
	}
}

// playTotals plays a script that moves every counter and returns the state that
// it leaves, without what only tells of deliveries.
func playTotals(t *testing.T, between func(*rig)) machine.State {
	t.Helper()
	r, ctx := newRig(t), context.Background()
	run := r.start("s1").RunID
	steps := func(payload string) func(runtime.TurnCall) error {
		return func(c runtime.TurnCall) error {
			answer, err := r.RequestSteps(ctx, runtime.StepsRequest{TurnCall: c, Requests: []machine.StepRequest{call("run_tests", payload)}})
			if err == nil && answer.Steps[0].Status == machine.StepStatusPending {
				_, err = r.ResolveStep(ctx, runtime.ResolveRequest{
					RunRef: c.RunRef, TurnToken: c.TurnToken, Step: answer.Steps[0].Step, Tool: "run_tests", Attempt: 1, OK: true, Result: []byte(`1`),
				})
			}
			return err
		}
	}
	again := func(c runtime.TurnCall) error {
		_, err := r.CompleteTurn(ctx, runtime.CompleteRequest{
			TurnCall: c, Event: "Again", Usage: machine.Usage{InputTokens: 3, OutputTokens: 4, ToolCalls: 1},
			Artifacts: []machine.ArtifactWrite{{Name: "note", Value: []byte("n")}, {Name: "log", Value: []byte("[1]")}},
		})
		return err
	}
	fail := func(c runtime.TurnCall) error {
		_, err := r.FailTurn(ctx, runtime.FailRequest{TurnCall: c, Retryable: true, Error: machine.Fault{Code: "x"}})
		return err
	}
	script := []func(runtime.TurnCall) error{
		steps(`{"path":"a"}`), again, steps(`{"path":"b"}`), steps(`{"path":"b"}`), again, steps(`{"path":"c"}`), fail, steps(`{"path":"c"}`),
	}
	for i, act := range script {
		r.clock.Advance(time.Second)
		turn, err := r.GetTurn(ctx, ref(run, everyone))
		if err == nil {
			err = act(runtime.TurnCall{RunRef: ref(run, everyone), TurnToken: turn.Token, TurnSeq: turn.Seq, Attempt: turn.Attempt})
		}
		if err != nil {
			t.Fatalf("input %d: %v", i, err)
		}
		between(r)
	}
	s := *r.view(run).State
	turn := *s.Turn
	turn.Assigned, turn.LastFailure = machine.Assignment{}, [32]byte{}
	s.Turn, s.PrevHash = &turn, [32]byte{}
	return s
}

// TestALongHistoryIsWhole: nothing of a long journal is dropped, and it goes on.
func TestALongHistoryIsWhole(t *testing.T) {
	t.Parallel()
	r, _, run := longRun(t, 9000)
	last := r.view(run).State.Seq
	var seen uint64
	for token := ""; ; {
		page, err := r.ListTransitions(context.Background(), streams.ListRecordsRequest{
			RunRef: ref(run, reader), Kinds: everyKind(), PageSize: validate.MaxPageSize, PageToken: token,
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Records {
			if seen++; page.Records[i].Record.Seq != seen {
				t.Fatalf("record %d follows %d", page.Records[i].Record.Seq, seen-1)
			}
		}
		if token = page.NextPage; token == "" {
			break
		}
	}
	if seen != last || seen < 12_000 {
		t.Fatalf("%d of %d records", seen, last)
	}
	turn, err := r.GetTurn(context.Background(), ref(run, everyone))
	if err != nil {
		t.Fatal(err)
	}
	if s := r.emit(run, "Again", "", turn.Token).State; s.Transitions != 9002 {
		t.Fatalf("%d transitions", s.Transitions)
	}
}

func everyKind() []machine.RecordKind {
	var kinds []machine.RecordKind
	for k := machine.RecTransition; k <= machine.RecTurnReady; k++ {
		kinds = append(kinds, k)
	}
	return kinds
}

// TestWaitingRunsAreKept: a run without a budget of time waits for ever, over
// restarts and with the timers running.
func TestWaitingRunsAreKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.register("", strings.NewReplacer(
		`"version": "1.0.0"`, `"version": "2.0.0"`, `"budget": {"max_wall_time_sec": 3600},`, ``,
		`{"gate": {"after_sec": 60, "event": "TimedOut"}}`, `{}`,
	).Replace(loopPack))
	run := r.start("s1")
	r.emit(run.RunID, "Ask", "e1", run.Turn.Token)
	for range 3 {
		r.clock.Advance(10 * 365 * 24 * time.Hour)
		r.restart()
		r.background()
	}
	if s := r.view(run.RunID).State; s.Status != machine.Waiting || s.Current != "gate" {
		t.Fatalf("after 30 years: %s in %s", s.Status, s.Current)
	}
	if again := r.emit(run.RunID, "Ask", "e1", ""); !again.Duplicate {
		t.Fatal("the id was forgotten")
	}
	if s := r.emit(run.RunID, "Approved", "", "").State; s.Current != "done" {
		t.Fatalf("the approval led to %s", s.Current)
	}
}
