package erasure

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/seal"
)

// Keys provides and destroys the keys of runs.
type Keys interface {
	// Doom makes a key unavailable for readers. Destroy overwrites the key and syncs.
	Doom(slot uint64)
	Destroy(slot uint64, at int64) error
	DestroyedAt(slot uint64) int64
	// Last returns a key after Doom was called for it. It is used by the code that removes the rows
	// that are sealed with this key.
	Last(slot uint64) (*seal.Key, error)
}

// ErrInProgress is the error of a write when another caller is already erasing the run.
var ErrInProgress = errors.New("the run is being erased")

// Eraser erases the runs of one store. It is safe for concurrent use.
type Eraser struct {
	// View reads the last synced group. Write stores rows and waits until they are synced. If the key
	// absent exists, Write returns [ErrInProgress].
	View  func(read func(txn *layout.Txn) error) error
	Write func(ctx context.Context, ns uint32, ops []layout.Op, absent []byte) error
	Keys  Keys
}

// pageRows is the approximate number of rows in one commit.
const pageRows = 4096

// Run erases the values of a run and waits until the erasure is synced. asked contains the caller, the
// time and the reason. duplicate reports whether the run was already erased. After the first commit no
// read returns the values.
//
// Errors: machine.ErrNoRun; *machine.Error RUN_NOT_ENDED or RUN_NOT_ERASABLE; errors of a commit and of
// the file of keys. After an error of the last two kinds the caller should call Run again.
func (e *Eraser) Run(ctx context.Context, ns uint32, run string, asked machine.Erased) (end layout.RunEnd, duplicate bool, err error) {
	var ops []layout.Op
	err = e.View(func(txn *layout.Txn) error {
		if end, err = layout.EndOf(txn, ns, run); err != nil || end.Head.Erased != nil || refused(end.Head) != nil {
			return err
		}
		ops, err = layout.DropUntold(txn, ns, run)
		return err
	})
	if err != nil {
		return end, false, wrapped(run, err)
	}
	if end.Head.Erased != nil {
		return end, true, wrapped(run, e.finish(ctx, ns, end.Head.Erased))
	}
	if err := refused(end.Head); err != nil {
		return end, false, wrapped(run, err)
	}
	asked.RunID, asked.Key = run, end.Head.Key
	key := layout.ErasedKey(ns, run)
	ops = append(ops, layout.Op{Key: key, Value: codec.EncodeErased(&asked)})
	if err := e.Write(ctx, ns, ops, key); err != nil {
		return end, false, wrapped(run, err)
	}
	e.Keys.Doom(asked.Key)
	head := *end.Head
	head.Erased = &asked
	end.Head = &head
	// The run is already marked as erased, so its key must be destroyed even if the caller has
	// disconnected.
	return end, false, wrapped(run, e.finish(context.WithoutCancel(ctx), ns, &asked))
}

func wrapped(run string, err error) error {
	if err != nil {
		return fmt.Errorf("erase run %q: %w", run, err)
	}
	return nil
}

func refused(st *machine.State) error {
	switch {
	case !st.Status.Terminal() && !st.Imported:
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "RUN_NOT_ENDED", Field: "run_id", Seq: st.Seq,
			Message: fmt.Sprintf("the run is %s: only a run that has ended is erased, cancel it first", st.Status),
		}
	case st.Key == 0:
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "RUN_NOT_ERASABLE", Field: "run_id", Seq: st.Seq,
			Message: "its values lie under no key of its own, since its pack does not say x_pawl.erasable: delete the run",
		}
	}
	return nil
}

// ForDeletion erases a run that is about to be deleted, so that its values cannot be read from files
// that are not rewritten yet. If the run may not be deleted or has no key, it does nothing.
func (e *Eraser) ForDeletion(ctx context.Context, ns uint32, run string, asked *machine.Deleted) error {
	var st *machine.State
	err := e.View(func(txn *layout.Txn) (err error) {
		st, err = layout.StoredHead(txn, ns, run)
		return err
	})
	if errors.Is(err, machine.ErrNoRun) || err == nil && (st.Key == 0 || !st.Status.Terminal() && !st.Imported) {
		return nil
	}
	if err == nil {
		_, _, err = e.Run(ctx, ns, run, machine.Erased{At: asked.At, By: asked.By, Why: "deleted"})
	}
	return err
}

// Rows calls visit for the rows that record erased runs.
func Rows(txn *layout.Txn, visit func(ns uint32, e *machine.Erased) error) error {
	p := []byte{layout.KindErased}
	it := txn.Scan(kv.Range{Prefix: p})
	defer it.Close()
	for it.Rewind(); layout.Has(it, p); it.Next() {
		ns, run, err := layout.RunOf(it.Key())
		if err != nil {
			return err
		}
		var e machine.Erased
		err = layout.ValueOf(it, func(v []byte) error {
			e, err = codec.DecodeErased(v)
			return err
		})
		if err != nil {
			return err
		}
		e.RunID = run
		if err := visit(ns, &e); err != nil {
			return err
		}
	}
	return nil
}

// Unfinished completes interrupted erasures: it destroys the key of every run that is marked as
// erased.
func (e *Eraser) Unfinished(ctx context.Context) error {
	type one struct {
		ns     uint32
		erased machine.Erased
	}
	var all []one
	err := e.View(func(txn *layout.Txn) error {
		return Rows(txn, func(ns uint32, erased *machine.Erased) error {
			if e.Keys.DestroyedAt(erased.Key) == 0 {
				all = append(all, one{ns, *erased})
			}
			return nil
		})
	})
	for i := range all {
		if err == nil {
			err = wrapped(all[i].erased.RunID, e.finish(ctx, all[i].ns, &all[i].erased))
		}
	}
	return err
}

// finish removes the rows that can be found only with the values, and then destroys the key.
func (e *Eraser) finish(ctx context.Context, ns uint32, erased *machine.Erased) error {
	if e.Keys.DestroyedAt(erased.Key) != 0 {
		return nil
	}
	refs, err := e.refs(ctx, ns, erased)
	if err != nil {
		return err
	}
	for len(refs) > 0 {
		n := min(len(refs), pageRows)
		if err := e.Write(ctx, ns, refs[:n], nil); err != nil {
			return err
		}
		refs = refs[n:]
	}
	return e.Keys.Destroy(erased.Key, erased.At)
}

// last provides the key of a run that is being erased.
type last struct{ Keys }

func (l last) Key(slot uint64) (*seal.Key, error) { return l.Keys.Last(slot) }

// refs returns the ops that remove the run's references to blobs.
func (e *Eraser) refs(ctx context.Context, ns uint32, erased *machine.Erased) (ops []layout.Op, err error) {
	seen := map[[32]byte]bool{}
	err = layout.EachRow(ctx, e.View, layout.RunKey(nil, layout.KindEntry, ns, erased.RunID), func(_, value []byte) error {
		plain, err := codec.OpenEntry(value, last{e.Keys})
		if errors.Is(err, codec.ErrCorrupt) {
			// A damaged row must not prevent the destruction of the key.
			return nil
		}
		for _, sum := range layout.RefsIn(plain) {
			if !seen[sum] {
				seen[sum] = true
				ops = append(ops, layout.Op{Key: layout.AppendName(layout.BlobRefsOf(ns, sum), erased.RunID), Delete: true})
			}
		}
		return err
	})
	return ops, err
}
