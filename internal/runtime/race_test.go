package runtime_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/services"
)

func TestConcurrentStartsWithOneIDAreOneRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.store.Hold()
	answers := make([]runtime.Answer, 100)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			var err error
			if answers[i], err = r.StartRun(context.Background(), startRequest("one")); err != nil {
				t.Error(err)
			}
		})
	}
	// All hundred are past the point where a look at the store would have helped.
	r.store.AwaitHeld(len(answers))
	r.store.Sync()
	all.Wait()
	firsts := 0
	for _, a := range answers {
		if a.RunID != answers[0].RunID {
			t.Fatalf("runs %s and %s", a.RunID, answers[0].RunID)
		}
		if !a.Duplicate {
			firsts++
		}
	}
	if firsts != 1 || r.store.Commits() != 1 {
		t.Fatalf("%d first answers, %d commits", firsts, r.store.Commits())
	}
}

// TestTwoRacingEventsAreOneTransition: the second event is judged against the
// state that the first led to. Where its sender has no say any more, that comes
// first (section 4, check 5 before 6); either way it learns which record won.
func TestTwoRacingEventsAreOneTransition(t *testing.T) {
	t.Parallel()
	tests := []struct {
		state  string
		events [2]string
	}{
		{"desk", [2]string{"Round", "Round"}},
		{"gate", [2]string{"Rejected", "Rejected"}},
	}
	r := newRig(t)
	for _, tt := range tests {
		for round := range 50 {
			req := startRequest(fmt.Sprint(tt.state, round))
			req.State, req.Principal = tt.state, boss
			run := r.startWith(req)
			errs := make([]error, 2)
			var both sync.WaitGroup
			for i, event := range tt.events {
				both.Go(func() {
					_, errs[i] = r.EmitEvent(context.Background(), runtime.EmitRequest{
						RunRef: ref(run.RunID, approver), Event: event, ExpectedSeq: run.State.VisitSeq,
					})
				})
			}
			both.Wait()
			lost := errs[0]
			if lost == nil {
				lost = errs[1]
			}
			if (errs[0] == nil) == (errs[1] == nil) {
				t.Fatalf("round %d: %v and %v", round, errs[0], errs[1])
			}
			wantReason(t, lost, "SEQ_MISMATCH")
			if won := r.view(run.RunID).State.VisitSeq; lost.(*machine.Error).Seq != won {
				t.Fatalf("the loser was told of record %d, %d won", lost.(*machine.Error).Seq, won)
			}
		}
	}
}

// eventInput and eventOutput are one EmitEvent with expected_seq, as the model
// of a register with compare-and-set sees it.
type eventInput struct{ expected uint64 }

type eventOutput struct {
	moved bool
	// now is the visit_seq after the call: the new one, or the one that won.
	now uint64
}

var visitModel = porcupine.Model{
	Init: func() any { return uint64(0) },
	Step: func(state, input, output any) (bool, any) {
		at, in, out := state.(uint64), input.(eventInput), output.(eventOutput)
		if out.moved {
			return in.expected == at && out.now > at, out.now
		}
		return in.expected != at && out.now == at, at
	},
}

// TestEventsAreLinearizable lets callers race with expected_seq on one run and
// checks the history against a register with compare-and-set.
func TestEventsAreLinearizable(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *services.Config) { c.CacheBytes = 1 })
	run := r.startWith(func() runtime.StartRequest {
		q := startRequest("s")
		q.State, q.Principal = "desk", boss
		return q
	}())
	const callers, calls = 8, 40
	histories := make([][]porcupine.Operation, callers)
	began := time.Now()
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() { histories[c] = raceEvents(r, run, c, calls, began) })
	}
	all.Wait()
	model := visitModel
	model.Init = func() any { return run.State.VisitSeq }
	var history []porcupine.Operation
	moved := 0
	for _, h := range histories {
		history = append(history, h...)
		for _, op := range h {
			if op.Output.(eventOutput).moved {
				moved++
			}
		}
	}
	if result := porcupine.CheckOperationsTimeout(model, history, within); result != porcupine.Ok {
		t.Fatalf("the history is %v", result)
	}
	if moved == 0 || moved != r.view(run.RunID).State.Transitions-1 {
		t.Fatalf("%d events moved the run, it made %d transitions", moved, r.view(run.RunID).State.Transitions)
	}
}

// raceEvents sends events that a hybrid state and the one behind it take.
func raceEvents(r *rig, run runtime.Answer, caller, calls int, began time.Time) []porcupine.Operation {
	var history []porcupine.Operation
	seen := run.State.VisitSeq
	for range calls {
		op := porcupine.Operation{ClientId: caller, Input: eventInput{expected: seen}, Call: int64(time.Since(began))}
		answer, err := r.EmitEvent(context.Background(), runtime.EmitRequest{
			RunRef: ref(run.RunID, everyone), Event: "Round", ExpectedSeq: seen,
		})
		op.Return = int64(time.Since(began))
		if err == nil {
			seen = answer.State.VisitSeq
			op.Output = eventOutput{moved: true, now: seen}
		} else {
			seen = err.(*machine.Error).Seq
			op.Output = eventOutput{now: seen}
		}
		history = append(history, op)
	}
	return history
}

func TestQueueIsBoundedAndFirstInFirstOut(t *testing.T) {
	t.Parallel()
	const limit = 4
	r := newRig(t, func(c *services.Config) { c.QueueLimit = limit })
	run := r.start("s1")
	r.store.Hold()
	send := func(ctx context.Context, text string) error {
		_, err := r.SendInput(ctx, runtime.InputRequest{
			RunRef: ref(run.RunID, everyone), MessageID: text, Parts: []machine.Part{{Kind: machine.PartText, Text: text}},
		})
		return err
	}
	var all sync.WaitGroup
	results := make(chan error, limit+1)
	all.Go(func() { results <- send(context.Background(), "0") })
	r.store.AwaitHeld(1)
	for i := range limit {
		waiting := i + 1
		all.Go(func() { results <- send(context.Background(), fmt.Sprint(waiting)) })
		awaitQueue(t, r, run.RunID, waiting)
	}
	err := send(context.Background(), "too many")
	wantReason(t, err, "QUEUE_FULL")
	if refusal := err.(*machine.Error); refusal.RetryAfter == 0 || refusal.Limit != limit || refusal.Code != machine.CodeResourceExhausted {
		t.Fatalf("refusal %+v", refusal)
	}
	r.store.Sync()
	all.Wait()
	close(results)
	for err := range results {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := inputs(t, r, run.RunID); fmt.Sprint(got) != "[0 1 2 3 4]" {
		t.Fatalf("inputs in the order %v", got)
	}
}

// awaitQueue waits until n inputs wait for a run: until one more would find
// the queue as long as that.
func awaitQueue(t testing.TB, r *rig, run string, n int) {
	t.Helper()
	for deadline := time.Now().Add(within); r.Waiting(0, run) < n; {
		if time.Now().After(deadline) {
			t.Fatalf("%d inputs never waited", n)
		}
	}
}

// inputs are the texts that a run received, in order.
func inputs(t *testing.T, r *rig, run string) []string {
	t.Helper()
	page, err := r.ListTransitions(context.Background(), streams.ListRecordsRequest{
		RunRef: ref(run, everyone), Kinds: []machine.RecordKind{machine.RecInputReceived},
	})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, row := range page.Records {
		texts = append(texts, row.Record.Body.(*machine.InputReceived).Parts[0].Text)
	}
	return texts
}

// TestCallerMayLeave: the context bounds the waiting, the accepted input takes
// its course.
func TestCallerMayLeave(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	r.store.Hold()
	var all sync.WaitGroup
	all.Go(func() { r.emit(run.RunID, "Again", "e1", run.Turn.Token) })
	r.store.AwaitHeld(1)
	ctx, leave := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() {
		_, err := r.SendInput(ctx, runtime.InputRequest{
			RunRef: ref(run.RunID, everyone), MessageID: "m1", Parts: []machine.Part{{Kind: machine.PartText, Text: "hi"}},
		})
		left <- err
	}()
	awaitQueue(t, r, run.RunID, 1)
	leave()
	if err := <-left; err != context.Canceled {
		t.Fatalf("the caller that left got %v", err)
	}
	r.store.Sync()
	all.Wait()
	if err := r.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := inputs(t, r, run.RunID); len(got) != 1 {
		t.Fatalf("inputs %v", got)
	}
	if _, err := r.SendInput(ctx, runtime.InputRequest{RunRef: ref(run.RunID, everyone)}); err != context.Canceled {
		t.Fatalf("a caller that is gone already got %v", err)
	}
}
