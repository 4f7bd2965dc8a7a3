package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// The indexes of tasks; see machine.taskIndexes for their values.
const (
	taskIndex    = "task"
	contextIndex = "context"
)

// Tasks shows the heads of an owner's tasks, newest status first, equal ones by
// run, until visit returns false. An owner "" is every owner; a context id leaves
// the tasks of that context.
func (s *Store) Tasks(ctx context.Context, ns uint32, owner, contextID string, visit func(*machine.State) bool) error {
	// An owner or context may hold what parts them in a value.
	own := func(st *machine.State) bool {
		if st.Task == nil || owner != "" && st.Task.Owner != owner || contextID != "" && st.Task.ContextID != contextID {
			return true
		}
		return visit(st)
	}
	err := s.view(func(txn *badger.Txn) error {
		if owner != "" && contextID == "" {
			return showTasks(ctx, txn, ns, taskPrefix(ns, taskIndex, owner), own)
		}
		return sortTasks(ctx, txn, ns, owner, contextID, own)
	})
	if err != nil {
		return fmt.Errorf("list tasks: %w", err)
	}
	return nil
}

// taskPrefix is what the rows of one owner begin with, whatever comes behind the
// owner in their value.
func taskPrefix(ns uint32, index, owner string) []byte {
	p := name(prefix(nil, kindIndex, ns), index)
	if owner == "" {
		return p
	}
	// A value goes on where a name would end.
	return append(name(p, owner)[:len(name(p, owner))-1], 0xFF)
}

// showTasks follows rows that are in the order wanted.
func showTasks(ctx context.Context, txn *badger.Txn, ns uint32, p []byte, visit func(*machine.State) bool) error {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: p})
	defer it.Close()
	for it.Rewind(); has(it, p) && ctx.Err() == nil; it.Next() {
		run, err := taskRun(it.Item().Key(), ns)
		if err != nil {
			return err
		}
		st, err := readHead(txn, ns, run)
		if err != nil {
			return fmt.Errorf("head of run %q: %w", run, err)
		}
		if !visit(st) {
			return nil
		}
	}
	return ctx.Err()
}

// sortTasks orders what no index has in order: the tasks of a context, and those
// of all owners.
func sortTasks(ctx context.Context, txn *badger.Txn, ns uint32, owner, contextID string, visit func(*machine.State) bool) error {
	var heads []*machine.State
	collect := func(st *machine.State) bool {
		heads = append(heads, st)
		return true
	}
	p := taskPrefix(ns, taskIndex, owner)
	if owner != "" {
		p = indexPrefix(nil, ns, contextIndex, owner+"\x00"+contextID)
	}
	if err := showTasks(ctx, txn, ns, p, collect); err != nil {
		return err
	}
	slices.SortFunc(heads, func(a, b *machine.State) int {
		if a.StatusAt != b.StatusAt {
			if a.StatusAt > b.StatusAt {
				return -1
			}
			return 1
		}
		return strings.Compare(a.RunID, b.RunID)
	})
	for _, st := range heads {
		if !visit(st) {
			return nil
		}
	}
	return nil
}

// taskRun takes the run from a row's key: index, value, run.
func taskRun(key []byte, ns uint32) (string, error) {
	rest := key[len(prefix(nil, kindIndex, ns)):]
	var run string
	for range 3 {
		var ok bool
		if run, rest, ok = cutName(rest); !ok {
			return "", errors.New("malformed index key")
		}
	}
	return run, nil
}
