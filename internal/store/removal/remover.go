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
	// Head is the head key of a run. The last record of the run must be Last. After the commit the run
	// does not exist. If Head is nil, the run was already removed, and the key Mark must exist.
	Head []byte
	Last uint64
	Mark []byte
	// Bytes is the approximate disk space of the removed rows in bytes.
	Bytes int64
}

// ErrEnded is the error of a write if the mark does not exist. In this case another caller has
// completed the removal.
var ErrEnded = errors.New("the run is removed")

// Remover removes the runs of one store. Safe for concurrent use.
type Remover struct {
	// View reads the last synced group. Write stores a change and waits until it is synced.
	View  func(read func(txn *layout.Txn) error) error
	Write func(ctx context.Context, c Change) error
	// Rows is the approximate number of rows in one commit. Default 4096.
	Rows int

	// cursorRowsMu is held from the time when rows of cursors are read until they are rewritten. No
	// other code rewrites existing rows of cursors.
	cursorRowsMu sync.Mutex
}

// Run deletes a run and waits until the deletion is synced. asked contains the caller, the time and the
// reason. The result also contains a description of the run. duplicate reports whether the run was
// already deleted. After the first commit the run does not exist, even if later commits fail.
//
// Errors: machine.ErrNoRun; *machine.Error RUN_NOT_ENDED; the errors of a commit.
func (r *Remover) Run(ctx context.Context, ns uint32, run string, asked machine.Deleted) (d machine.Deleted, duplicate bool, err error) {
	d, going, err := r.before(ns, run)
	if err == nil && d.RunID != "" {
		if going {
			err = r.Finish(ctx, ns, run)
		}
		return d, true, wrapped(run, err)
	}
	if err != nil {
		return d, false, wrapped(run, err)
	}
	d, more, err := r.first(ctx, ns, run, asked)
	if err == nil && more {
		// The run is deleted, so its other rows must be removed even if the caller has disconnected.
		err = r.Finish(context.WithoutCancel(ctx), ns, run)
	}
	return d, false, wrapped(run, err)
}

func wrapped(run string, err error) error {
	if err != nil {
		return fmt.Errorf("removal of run %q: %w", run, err)
	}
	return nil
}

// before returns the remains of a run that was deleted and does not exist now. going reports whether
// some of the rows of the run are still being removed.
func (r *Remover) before(ns uint32, run string) (d machine.Deleted, going bool, err error) {
	err = r.View(func(txn *layout.Txn) error {
		if there, err := layout.There(txn, ns, run); err != nil || there {
			return err
		}
		was, err := layout.DeletedOf(txn, ns, run)
		if err != nil || was == nil {
			return errors.Join(err, missing(was))
		}
		d = *was
		mark, err := layout.Get(txn, layout.RemovalKey(ns, run))
		going = mark != nil
		return err
	})
	return d, going, err
}

func missing(was *machine.Deleted) error {
	if was == nil {
		return machine.ErrNoRun
	}
	return nil
}

// first removes the head of the run. In the same commit it removes as many other rows as fit.
func (r *Remover) first(ctx context.Context, ns uint32, run string, d machine.Deleted) (_ machine.Deleted, more bool, err error) {
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
		more, err = page.fill(ctx, &position{})
		c.Ops = append(c.Ops, layout.ReleaseAccounts(end.Head)...)
		c.Ops = append(append(c.Ops, layout.Op{Key: layout.DeletedKey(ns, run), Value: codec.EncodeDeleted(&d)}), page.ops...)
		c.Bytes = page.freed
		return err
	})
	if err != nil {
		return d, false, err
	}
	if more {
		c.Ops = append(c.Ops, layout.Op{Key: layout.RemovalKey(ns, run), Value: codec.Mark})
	}
	return d, more, r.write(ctx, c)
}

// write stores a change even if its caller has stopped waiting, because the next read must see the
// change, and a removal that has begun must be completed.
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

// remember sets the id that started the run and the number of the run's cursors. If a run was deleted,
// imported again and is now deleted again, it keeps the id that first started it.
func remember(txn *layout.Txn, ns uint32, run string, d *machine.Deleted, imported bool) error {
	was, err := layout.DeletedOf(txn, ns, run)
	if err != nil {
		return err
	}
	if was != nil {
		d.Starter, d.StartKind, d.StartID, d.Commits = was.Starter, was.StartKind, was.StartID, was.Commits
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
	for it.Rewind(); layout.Has(it, p); it.Next() {
		n++
	}
	return n
}

// headRows returns the ops that remove the rows by which a run is found. These are the head of the run
// and the rows that follow from the head.
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
	// The only outgoing work of an ended run consists of cancellations that were not sent yet.
	untold, err := layout.DropUntold(txn, ns, st.RunID)
	return append(ops, untold...), err
}

// Untold reports whether an agent has not yet received the cancellation of a delegation of the run.
func (r *Remover) Untold(ctx context.Context, ns uint32, run string) (some bool, err error) {
	err = r.View(func(txn *layout.Txn) error {
		untold, err := layout.DropUntold(txn, ns, run)
		some = len(untold) > 0
		return errors.Join(err, ctx.Err())
	})
	return some, wrapped(run, err)
}

// Bytes returns the approximate disk space of the rows of a run in bytes. The blobs that the run refers
// to are not counted.
func (r *Remover) Bytes(ctx context.Context, ns uint32, run string) (bytes int64, err error) {
	err = r.View(func(txn *layout.Txn) error {
		for _, p := range prefixes(ns, run) {
			it := txn.Scan(kv.Range{Prefix: p, KeysOnly: true})
			for it.Rewind(); layout.Has(it, p); it.Next() {
				bytes += it.StoredSize()
			}
			it.Close()
		}
		return ctx.Err()
	})
	return bytes, wrapped(run, err)
}

// Unfinished completes the removal of a run if the removal was interrupted.
func (r *Remover) Unfinished(ctx context.Context, ns uint32, run string) error {
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

// Finish completes the removal of a run whose mark is stored.
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

// page removes the next rows. The last page also removes the mark.
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
