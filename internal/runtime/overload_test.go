package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestNewWorkIsRefusedWhenThereIsTooMuch: past the bound what asks for new work is refused at
// once and leaves nothing; who holds a turn, or ends a run, is served; and new
// work is taken again as soon as there is room.
func TestNewWorkIsRefusedWhenThereIsTooMuch(t *testing.T) {
	t.Parallel()
	const limit = 3
	r := newRig(t, func(c *house.Config) { c.MaxInputs = limit })
	ctx := context.Background()
	var runs []runtime.Answer
	for i := range limit + 2 {
		runs = append(runs, r.start(fmt.Sprint("s", i)))
	}
	r.store.Hold()
	var all sync.WaitGroup
	results := make(chan error, limit+2)
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
		if refusal, ok := errors.AsType[*machine.Refusal](err); !ok || refusal.RetryAfter == 0 || refusal.Limit != limit || refusal.Got != limit+1 {
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
