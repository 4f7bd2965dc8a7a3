package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/test/testkit"
)

func ExampleClock() {
	clock := testkit.NewClock()
	from, alarm := clock.Now(), clock.After(time.Minute)
	clock.Advance(59 * time.Second)
	fmt.Println(len(alarm))
	clock.Advance(time.Second)
	fmt.Println((<-alarm).Sub(from))
	// Output:
	// 0
	// 1m0s
}

// A crash loses what was not stored; the next process finds the rest.
func ExampleStore() {
	ctx, store := context.Background(), testkit.NewStore()
	batch := func(run string) *machine.Batch {
		return &machine.Batch{Records: []machine.Record{{Seq: 1}}, State: &machine.State{RunID: run, Seq: 1}}
	}
	_, err := store.Commit(ctx, batch("kept"))
	fmt.Println(err)

	store.FailCommits(func(*machine.Batch) testkit.Fault { return testkit.Fault{Err: machine.ErrIndeterminate} })
	_, err = store.Commit(ctx, batch("lost"))
	fmt.Println(errors.Is(err, machine.ErrIndeterminate))

	next := store.Reopen()
	kept, _ := next.Head(ctx, 0, "kept")
	_, err = next.Head(ctx, 0, "lost")
	fmt.Println(kept.Seq, errors.Is(err, machine.ErrNoRun))
	// Output:
	// <nil>
	// true
	// 1 true
}
