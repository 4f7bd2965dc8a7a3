package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/services"
)

// noLease is a worker that was given nothing.
type noLease struct{}

func (noLease) Holds(string, string, policy.Act, machine.Command) (runtime.Grant, bool) {
	return runtime.Grant{}, false
}
func (noLease) Counted(string, int) {}

// TestNewWorkIsRefusedWhenThereIsTooMuch: past the bound what asks for new work is refused at
// once and leaves nothing; who holds a turn, or ends a run, is served, up to four times as
// much; a worker always; and new work is taken again as soon as there is room.
func TestNewWorkIsRefusedWhenThereIsTooMuch(t *testing.T) {
	t.Parallel()
	const limit, hard = 3, 12
	r := newRig(t, func(c *services.Config) { c.MaxInputs = limit })
	ctx := context.Background()
	var runs []runtime.Answer
	for i := range hard + 1 {
		runs = append(runs, r.start(fmt.Sprint("s", i)))
	}
	r.store.Hold()
	var all sync.WaitGroup
	results := make(chan error, hard)
	send := func(run runtime.Answer) error {
		_, err := r.SendInput(ctx, runtime.InputRequest{
			RunRef: ref(run.RunID, everyone), MessageID: run.RunID, Parts: []machine.Part{{Kind: machine.PartText, Text: "x"}},
		})
		return err
	}
	for i := range limit {
		all.Go(func() { results <- send(runs[i]) })
	}
	r.store.AwaitHeld(limit)
	for name, ask := range map[string]func() error{
		"a start":  func() error { _, err := r.StartRun(ctx, startRequest("late")); return err },
		"an input": func() error { return send(runs[limit]) },
	} {
		err := ask()
		wantReason(t, err, "OVERLOADED")
		if refusal, ok := errors.AsType[*machine.Error](err); !ok || refusal.RetryAfter == 0 || refusal.Limit != limit || refusal.Got != limit+1 {
			t.Errorf("%s: %+v", name, refusal)
		}
	}
	// The holder of a turn ends it all the same.
	all.Go(func() {
		_, err := r.EmitEvent(ctx, runtime.EmitRequest{RunRef: ref(runs[limit].RunID, everyone), Event: "Again", TurnToken: runs[limit].Turn.Token})
		results <- err
	})
	// Neither is refused who makes it less.
	all.Go(func() {
		_, err := r.CancelRun(ctx, runtime.ControlRequest{RunRef: ref(runs[limit+1].RunID, everyone)})
		results <- err
	})
	r.store.AwaitHeld(limit + 2)
	for i := limit + 2; i < hard; i++ {
		all.Go(func() {
			_, err := r.CancelRun(ctx, runtime.ControlRequest{RunRef: ref(runs[i].RunID, everyone)})
			results <- err
		})
	}
	r.store.AwaitHeld(hard)
	more := runs[hard]
	for name, ask := range map[string]func() error{
		"a text for a token": func() error {
			_, err := r.EmitEvent(ctx, runtime.EmitRequest{RunRef: ref(more.RunID, everyone), Event: "Again", TurnToken: "any text"})
			return err
		},
		"a cancellation": func() error {
			_, err := r.CancelRun(ctx, runtime.ControlRequest{RunRef: ref(more.RunID, everyone)})
			return err
		},
	} {
		err := ask()
		wantReason(t, err, "OVERLOADED")
		if refusal, ok := errors.AsType[*machine.Error](err); !ok || refusal.RetryAfter == 0 || refusal.Limit != hard || refusal.Got != hard+1 {
			t.Errorf("%s: %+v", name, refusal)
		}
	}
	// What comes by a worker's lease is judged by that.
	leased := ref(more.RunID, everyone)
	leased.Worker = noLease{}
	_, err := r.Apply(ctx, runtime.Request{RunRef: leased, TurnToken: "any text", Command: machine.CompleteTurn{}})
	if refusal, ok := errors.AsType[*machine.Error](err); !ok || refusal.Reason == "OVERLOADED" {
		t.Errorf("a worker's answer: %v", err)
	}
	r.store.Sync()
	all.Wait()
	close(results)
	for err := range results {
		if err != nil {
			t.Error(err)
		}
	}
	if got := r.start("late"); got.Duplicate {
		t.Error("a start that was refused left something behind")
	}
}
