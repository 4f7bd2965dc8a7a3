package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// These are the names of the indexes of A2A tasks. rules.taskIndexes defines the values in these
// indexes.
const (
	taskIndex    = "task"
	contextIndex = "context"
)

// Tasks calls visit with the states of the runs of an owner's A2A tasks, at most most times, until
// visit returns false. The task whose status is newest comes first. Tasks with equal times are in the
// order of their runs. An empty owner means all owners. A context id restricts the tasks to this
// context.
func (s *Store) Tasks(ctx context.Context, ns uint32, owner, contextID string, most int, visit func(*machine.State) bool) error {
	// The index may also find tasks of other owners, because an owner or a context id may contain the
	// separator of an index value. So the state of every task is checked.
	own := func(st *machine.State) bool {
		return st.Task != nil && (owner == "" || st.Task.Owner == owner) && (contextID == "" || st.Task.ContextID == contextID)
	}
	shown := 0
	show := func(st *machine.State) bool {
		if !own(st) {
			return true
		}
		shown++
		return visit(st) && shown < most
	}
	err := s.view(func(txn *layout.Txn) error {
		switch {
		case contextID != "":
			return s.showContext(ctx, txn, ns, owner, contextID, most, own, show)
		case owner != "":
			return s.showTasks(ctx, txn, ns, taskPrefix(ns, taskIndex, owner), show)
		}
		return s.showEverybodys(ctx, txn, ns, most, show)
	})
	if err != nil {
		return fmt.Errorf("list tasks: %w", err)
	}
	return nil
}

// taskPrefix returns the prefix of the index rows of an owner's tasks. If owner is "", it returns the
// prefix of the rows of all owners.
func taskPrefix(ns uint32, index, owner string) []byte {
	p := layout.AppendName(layout.Prefix(nil, layout.KindIndex, ns), index)
	if owner == "" {
		return p
	}
	// In these keys, the owner is only the beginning of a name. So the bytes that mark the end of a
	// name are replaced.
	return append(layout.AppendName(p, owner)[:len(layout.AppendName(p, owner))-1], 0xFF)
}

// showTasks calls visit with the state of each task in an index, in the order of the index rows.
func (s *Store) showTasks(ctx context.Context, txn *layout.Txn, ns uint32, p []byte, visit func(*machine.State) bool) error {
	return eachTask(ctx, txn, ns, p, func(_, run string) (bool, error) {
		st, err := s.headOf(ctx, txn, ns, run)
		return err == nil && visit(st), err
	})
}

// showEverybodys calls visit for the tasks of all owners, the newest first. It finds the order from the
// index keys and reads only the states that it shows.
func (s *Store) showEverybodys(ctx context.Context, txn *layout.Txn, ns uint32, most int, visit func(*machine.State) bool) error {
	newest := newestTasks{limit: most}
	err := eachTask(ctx, txn, ns, taskPrefix(ns, taskIndex, ""), func(value, run string) (bool, error) {
		age, err := strconv.ParseUint(value[max(0, len(value)-taskAge):], 16, 64)
		newest.add(taskPlace{age, run})
		return true, err
	})
	if err != nil {
		return err
	}
	return newest.show(ctx, s, txn, ns, visit)
}

// taskAge is the number of characters at the end of an index value that contain the age of the task's
// status. They determine the order of an owner's tasks.
const taskAge = 16

// showContext calls visit for the tasks of a context, the newest first. It reads every state, because
// the keys do not contain the time of the status.
func (s *Store) showContext(ctx context.Context, txn *layout.Txn, ns uint32, owner, contextID string, most int, own, visit func(*machine.State) bool) error {
	p := taskPrefix(ns, taskIndex, "")
	if owner != "" {
		p = layout.IndexPrefix(nil, ns, contextIndex, owner+"\x00"+contextID)
	}
	newest := newestTasks{limit: most}
	err := s.showTasks(ctx, txn, ns, p, func(st *machine.State) bool {
		if own(st) {
			newest.add(taskPlace{uint64(math.MaxInt64 - st.StatusAt), st.RunID})
		}
		return true
	})
	if err != nil {
		return err
	}
	return newest.show(ctx, s, txn, ns, visit)
}

// taskPlace is the position of a task in a list that begins with the newest task. The newest task has
// the smallest age.
type taskPlace struct {
	age uint64
	run string
}

// newestTasks collects tasks and keeps only the positions of the newest ones, fewer than twice limit. So its
// size does not depend on the number of tasks.
type newestTasks struct {
	limit int
	tasks []taskPlace
}

func (n *newestTasks) add(p taskPlace) {
	n.tasks = append(n.tasks, p)
	if len(n.tasks) >= 2*n.limit {
		n.sort()
	}
}

func (n *newestTasks) sort() {
	slices.SortFunc(n.tasks, func(a, b taskPlace) int {
		return cmp.Or(cmp.Compare(a.age, b.age), strings.Compare(a.run, b.run))
	})
	n.tasks = n.tasks[:min(len(n.tasks), n.limit)]
}

func (n *newestTasks) show(ctx context.Context, s *Store, txn *layout.Txn, ns uint32, visit func(*machine.State) bool) error {
	n.sort()
	for _, place := range n.tasks {
		if err := ctx.Err(); err != nil {
			return err
		}
		st, err := s.headOf(ctx, txn, ns, place.run)
		if err != nil || !visit(st) {
			return err
		}
	}
	return nil
}

// eachTask calls see for each row of a task index, with the value and the run in the row's key. It
// stops when see returns false.
func eachTask(ctx context.Context, txn *layout.Txn, ns uint32, p []byte, see func(value, run string) (bool, error)) error {
	it := txn.Scan(kv.Range{Prefix: p, KeysOnly: true})
	defer it.Close()
	for it.Rewind(); layout.AtPrefix(it, p) && ctx.Err() == nil; it.Next() {
		value, run, err := layout.TaskRow(it.Key(), ns)
		if err != nil {
			return err
		}
		if more, err := see(value, run); err != nil || !more {
			return err
		}
	}
	return ctx.Err()
}

func (s *Store) headOf(ctx context.Context, txn *layout.Txn, ns uint32, run string) (*machine.State, error) {
	st, err := s.headAt(ctx, txn, ns, run)
	if err != nil {
		return nil, fmt.Errorf("head of run %q: %w", run, err)
	}
	return st, nil
}
