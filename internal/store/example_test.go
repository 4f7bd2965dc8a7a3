package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/datadir"
)

// must ends an example that cannot go on.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// openExample opens a store of its own. The guard against a full disk is off,
// so that the example runs anywhere.
func openExample() (s *store.Store, done func()) {
	dir, err := os.MkdirTemp("", "pawl-store-")
	must(err)
	s, err = store.Open(store.Options{Dir: dir, MemTableSize: 8 << 20, MinFree: 1})
	must(err)
	return s, func() {
		must(errors.Join(s.Close(), os.RemoveAll(dir)))
	}
}

// A batch of the machine is one synced commit. Its precondition is that the run
// is still where the batch found it.
func ExampleStore_Commit() {
	s, done := openExample()
	defer done()
	ctx := context.Background()
	graph := &machine.Graph{
		Entry: "draft",
		States: map[string]*machine.Node{
			"draft": {Name: "draft", OnEvent: map[string]string{"Ready": "done"}},
			"done":  {Name: "done", Terminal: true},
		},
	}
	s.ReplayWith(func(_ context.Context, head *machine.State, tail []machine.Entry) (*machine.State, error) {
		return rules.ReplayFrom(graph, head, tail)
	})
	var state *machine.State
	for i, command := range []machine.Command{
		machine.Start{RunID: "01J", Execution: machine.Caller}, machine.EmitEvent{Event: "Ready"},
	} {
		result, err := rules.Step(graph, state, machine.Input{At: int64(i + 1), Principal: "app", Command: command})
		must(err)
		committed, err := s.Commit(ctx, result.Batch)
		fmt.Println(committed.Cursor, result.State.Current, err)
		_, err = s.Commit(ctx, result.Batch)
		fmt.Println("again:", errors.Is(err, machine.ErrSeqConflict))
		state = result.State
	}
	head, err := s.Head(ctx, 0, "01J")
	fmt.Println(head.Seq, head.Current, err)
	report, err := s.Check(ctx, nil)
	fmt.Println(report.Runs, report.Entries, err)
	// Output:
	// 1 draft <nil>
	// again: true
	// 2 done <nil>
	// again: true
	// 2 done <nil>
	// 1 2 <nil>
}

// A directory has one process at a time.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "pawl-store-")
	must(err)
	defer os.RemoveAll(dir)
	options := store.Options{Dir: dir, MemTableSize: 8 << 20, MinFree: 1}
	s, err := store.Open(options)
	must(err)
	_, err = store.Open(options)
	fmt.Println(errors.Is(err, datadir.ErrLocked))
	fmt.Println(s.Close())
	// Output:
	// true
	// <nil>
}
