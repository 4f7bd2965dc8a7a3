package removal

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Change is one commit of a removal.
type Change struct {
	Ns  uint32
	Ops []layout.Op
	// Head is the key of the run's head (current state), which the change removes. Afterwards the run does not
	// exist. The last record of the run must be Last. If Head is nil, the head was removed before, and the key
	// Mark must exist. If Mark is nil, too, the change has no condition (Prune).
	Head []byte
	Last uint64
	Mark []byte
	// Bytes is the approximate disk space of the removed rows in bytes.
	Bytes int64
}

// ErrEnded is the error of a write if another caller has completed the removal, so that the mark of the
// removal no longer exists.
var ErrEnded = errors.New("the run is removed")

// Remover removes the runs of one store. Safe for concurrent use.
type Remover struct {
	// View reads the last synced commit. Write stores a change and waits until it is synced.
	View  func(read func(txn *layout.Txn) error) error
	Write func(ctx context.Context, c Change) error
	// Rows is the approximate number of rows that one commit removes. Default 4096.
	Rows int

	// cursorRowsMu is held while cursor rows are read and rewritten. While the store serves, no other code
	// rewrites existing cursor rows. A repair does.
	cursorRowsMu sync.Mutex
}

// Run deletes a run and waits until the deletion is synced. asked contains the caller, the time and the
// reason. The result also describes the run. duplicate reports whether the run was already deleted.
// After the first commit the run does not exist, even if later commits fail.
//
// Errors: machine.ErrNoRun; *machine.Error RUN_NOT_ENDED; the errors of a commit.
func (r *Remover) Run(ctx context.Context, ns uint32, run string, asked machine.Deleted) (d machine.Deleted, duplicate bool, err error) {
	d, going, err := r.deletedRow(ns, run)
	if err == nil && d.RunID != "" {
		if going {
			err = r.Finish(ctx, ns, run)
		}
		return d, true, wrapError(run, err)
	}
	if err != nil {
		return d, false, wrapError(run, err)
	}
	d, more, err := r.removeHead(ctx, ns, run, asked)
	if err == nil && more {
		// The run no longer exists, so its other rows must be removed even if the caller stops waiting.
		err = r.Finish(context.WithoutCancel(ctx), ns, run)
	}
	return d, false, wrapError(run, err)
}

func wrapError(run string, err error) error {
	if err != nil {
		return fmt.Errorf("removal of run %q: %w", run, err)
	}
	return nil
}

// deletedRow returns the row that the store keeps of a run that was deleted and does not exist now. going
// reports whether other rows of the run are still being removed. If the run exists, all results are zero. If
// the store does not know the run, the error is machine.ErrNoRun.
func (r *Remover) deletedRow(ns uint32, run string) (d machine.Deleted, going bool, err error) {
	err = r.View(func(txn *layout.Txn) error {
		if there, err := layout.RunExists(txn, ns, run); err != nil || there {
			return err
		}
		was, err := layout.DeletedOf(txn, ns, run)
		if err != nil || was == nil {
			return errors.Join(err, missingRunError(was))
		}
		d = *was
		mark, err := layout.Get(txn, layout.RemovalKey(ns, run))
		going = mark != nil
		return err
	})
	return d, going, err
}

func missingRunError(was *machine.Deleted) error {
	if was == nil {
		return machine.ErrNoRun
	}
	return nil
}

// removeHead removes the head (current state) of the run, and in the same commit as many other rows as fit.
func (r *Remover) removeHead(ctx context.Context, ns uint32, run string, d machine.Deleted) (_ machine.Deleted, moreRows bool, err error) {
	r.cursorRowsMu.Lock()
	defer r.cursorRowsMu.Unlock()
	c := Change{Ns: ns, Head: layout.HeadKey(ns, run)}
	err = r.View(func(txn *layout.Txn) error {
		end, err := layout.EndOf(txn, ns, run)
		if err != nil {
			return err
		}
		if !end.Head.Status.Terminal() && !end.Head.Imported {
			return notEnded(end.Head)
		}
		d.RunID, d.Status, d.Records, d.Hash, c.Last = run, end.Head.Status, end.Last, end.Hash, end.Last
		if err := remember(txn, ns, run, &d, end.Head.Imported); err != nil {
			return err
		}
		if c.Ops, err = headRows(txn, ns, end.Head); err != nil {
			return err
		}
		page := newPage(txn, ns, run, r.Rows)
		moreRows, err = page.fill(ctx, &position{})
		c.Ops = append(c.Ops, layout.ReleaseAccounts(end.Head)...)
		c.Ops = append(append(c.Ops, layout.Op{Key: layout.DeletedKey(ns, run), Value: codec.EncodeDeleted(&d)}), page.ops...)
		c.Bytes = page.freed
		return err
	})
	if err != nil {
		return d, false, err
	}
	if moreRows {
		c.Ops = append(c.Ops, layout.Op{Key: layout.RemovalKey(ns, run), Value: codec.Mark})
	}
	return d, moreRows, r.write(ctx, c)
}

// write stores a change of a removal. After it has begun, it does not end with ctx, because the next
// read must see the change.
func (r *Remover) write(ctx context.Context, c Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.Write(context.WithoutCancel(ctx), c)
}

func notEnded(st *machine.State) error {
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "RUN_NOT_ENDED", Field: "run_id", Seq: st.Seq,
		Message: fmt.Sprintf("the run is %s: only a run that has ended is deleted, cancel it first", st.Status),
	}
}

// remember stores in d the id of the request that started the run, and the number of the run's entries. If the
// run was deleted before and then imported, it takes both from the row of the first deletion. For any other
// imported run it stores nothing.
func remember(txn *layout.Txn, ns uint32, run string, d *machine.Deleted, imported bool) error {
	deleted, err := layout.DeletedOf(txn, ns, run)
	if err != nil {
		return err
	}
	if deleted != nil {
		d.Starter, d.StartKind, d.StartID, d.Commits = deleted.Starter, deleted.StartKind, deleted.StartID, deleted.Commits
		return nil
	}
	if imported {
		return nil
	}
	d.Commits = countUnder(txn, layout.RunKey(nil, layout.KindEntry, ns, run))
	value, err := layout.Get(txn, layout.EntryKey(ns, run, 1))
	if err != nil || value == nil {
		return err
	}
	e, err := codec.LeftOfEntry(run, value)
	if err == nil && e.Input.ID != "" {
		d.Starter, d.StartKind, d.StartID = e.Input.Principal, machine.KindOf(e.Input.Command), e.Input.ID
	}
	return err
}

func countUnder(txn *layout.Txn, p []byte) (n uint64) {
	it := txn.Scan(kv.Range{Prefix: p, KeysOnly: true})
	defer it.Close()
	for it.Rewind(); layout.AtPrefix(it, p); it.Next() {
		n++
	}
	return n
}

// headRows returns the ops that remove the rows by which a run is found: its head (current state), and
// the rows that follow from it.
func headRows(txn *layout.Txn, ns uint32, st *machine.State) ([]layout.Op, error) {
	ops := []layout.Op{
		{Key: layout.HeadKey(ns, st.RunID), Delete: true},
		{Key: layout.RunKey(nil, layout.KindReady, ns, st.RunID), Delete: true},
	}
	for _, c := range rules.Indexes(st) {
		ops = append(ops, layout.Op{Key: layout.IndexKey(nil, ns, st.RunID, &c), Delete: true})
	}
	for _, t := range rules.Timers(st) {
		ops = append(ops, layout.Op{Key: layout.TimerKey(nil, ns, &t), Delete: true})
	}
	// Cancellations that agents have not confirmed are the only outgoing work that an ended run can
	// have.
	untold, err := layout.DropUntold(txn, ns, st.RunID)
	return append(ops, untold...), err
}

// HasUnconfirmedCancel reports whether the store still has a cancellation of a delegation of the run, which no agent
// has confirmed.
func (r *Remover) HasUnconfirmedCancel(ctx context.Context, ns uint32, run string) (some bool, err error) {
	err = r.View(func(txn *layout.Txn) error {
		untold, err := layout.DropUntold(txn, ns, run)
		some = len(untold) > 0
		return errors.Join(err, ctx.Err())
	})
	return some, wrapError(run, err)
}

// Bytes returns the approximate disk space of the rows of a run in bytes, without the blobs that the
// run refers to.
func (r *Remover) Bytes(ctx context.Context, ns uint32, run string) (bytes int64, err error) {
	err = r.View(func(txn *layout.Txn) error {
		for _, p := range prefixes(ns, run) {
			it := txn.Scan(kv.Range{Prefix: p, KeysOnly: true})
			for it.Rewind(); layout.AtPrefix(it, p); it.Next() {
				bytes += it.StoredSize()
			}
			it.Close()
		}
		return ctx.Err()
	})
	return bytes, wrapError(run, err)
}

// FinishInterrupted completes the removal of a run if the removal was interrupted.
func (r *Remover) FinishInterrupted(ctx context.Context, ns uint32, run string) error {
	var mark []byte
	err := r.View(func(txn *layout.Txn) (err error) {
		mark, err = layout.Get(txn, layout.RemovalKey(ns, run))
		return err
	})
	if err != nil || mark == nil {
		return err
	}
	return r.Finish(ctx, ns, run)
}

// Finish completes the removal of a run whose first commit (see [Remover.Run]) has stored the mark of
// the removal.
func (r *Remover) Finish(ctx context.Context, ns uint32, run string) error {
	at := &position{}
	for {
		more, err := r.page(ctx, ns, run, at)
		if errors.Is(err, ErrEnded) {
			return nil
		}
		if err != nil || !more {
			return err
		}
	}
}

// page removes the next rows of the run in one commit. The last commit also removes the mark of the
// removal.
func (r *Remover) page(ctx context.Context, ns uint32, run string, at *position) (more bool, err error) {
	r.cursorRowsMu.Lock()
	defer r.cursorRowsMu.Unlock()
	c := Change{Ns: ns, Mark: layout.RemovalKey(ns, run)}
	err = r.View(func(txn *layout.Txn) error {
		page := newPage(txn, ns, run, r.Rows)
		more, err = page.fill(ctx, at)
		c.Ops, c.Bytes = page.ops, page.freed
		return err
	})
	if err != nil {
		return false, err
	}
	if !more {
		c.Ops = append(c.Ops, layout.Op{Key: c.Mark, Delete: true})
	}
	return more, r.write(ctx, c)
}
