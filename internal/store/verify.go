package store

import (
	"context"
	"io"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/backup"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Check checks every invariant of the store at the last synced commit and returns the first fault, see
// [check.Check].
func (s *Store) Check(ctx context.Context, graphs check.Graphs) (check.Report, error) {
	return check.Check(ctx, s.view, graphs)
}

// CheckWatched checks the store like [Store.Check], and calls step for each row, see [check.Watched].
func (s *Store) CheckWatched(graphs check.Graphs, step func(soFar *check.Report) error) (check.Report, error) {
	return check.Watched(s.view, graphs, step)
}

// Measure counts the current contents of the store. step is called for each row. If it returns an
// error, the measurement ends. See [measure].
func (s *Store) Measure(step func() error) (stats ContentStats, err error) {
	err = s.withCommittedView(func(_ uint64, view backup.View) error {
		stats, err = measure(viewFunc(view), step)
		return err
	})
	return stats, err
}

// Repair rebuilds every row that follows from journal entries and differs from the computed row, see
// [check.Rebuild]. The store must be opened with Options.Repair.
func (s *Store) Repair(ctx context.Context, graphs check.Graphs) (check.Repair, error) {
	done, err := check.Rebuild(ctx, s.view, func(ops []layout.Op) error { return s.put(ctx, ops) }, graphs)
	if err == nil {
		// A repair does not know which rows were lost, and an incremental backup could not record their
		// removal. So the next backup must be a full one.
		err = backup.Forget(ctx, s.view, s.put)
	}
	return done, err
}

// Prove checks the journal of one run, see [check.Prove].
func (s *Store) Prove(ctx context.Context, ns uint32, run string, g *machine.Graph) (machine.Proof, error) {
	return check.Prove(ctx, s.view, ns, run, g)
}

// ProveAll checks the journals of all runs. If run is not "", it checks only the runs with this id. It
// calls report for each run, in the order of namespaces and ids.
func (s *Store) ProveAll(ctx context.Context, run string, graphs check.Graphs, report func(ns uint32, run string, proof machine.Proof) error) error {
	return check.ProveAll(ctx, s.view, run, graphs, report)
}

// Export writes a file with one run, from which another store can import it, see [exportRun].
func (s *Store) Export(ctx context.Context, ns uint32, run string, out io.Writer) error {
	return exportRun(ctx, s, ns, run, out)
}

// Unpack is the function [check.Unpack], for the runtime.
func (s *Store) Unpack(in io.Reader) (machine.Export, error) { return check.Unpack(in) }

// Discard is the function [check.Discard], for the runtime.
func (s *Store) Discard(x machine.Export) error { return check.Discard(x) }
