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

// Keys provides and destroys the encryption keys of erasable runs.
type Keys interface {
	// Doom makes a key unavailable for readers. Destroy overwrites the key and syncs the change.
	// DestroyedAt returns the time of the destruction, or 0.
	Doom(slot uint64)
	Destroy(slot uint64, at int64) error
	DestroyedAt(slot uint64) int64
	// LastKey returns a key even after Doom was called for it. Only the code that removes a run's rows
	// uses it, to decrypt them.
	LastKey(slot uint64) (*seal.Key, error)
}

// ErrInProgress is the error of a write when another caller is already erasing the run.
var ErrInProgress = errors.New("the run is being erased")

// Eraser erases the runs of one store. It is safe for concurrent use.
type Eraser struct {
	// View reads the last synced commit. Write stores rows and waits until they are synced. If the key
	// absent exists, Write returns [ErrInProgress].
	View  func(read func(txn *layout.Txn) error) error
	Write func(ctx context.Context, ns uint32, ops []layout.Op, absent []byte) error
	Keys  Keys
}

// pageRows is the approximate number of rows that one commit of an erasure removes.
const pageRows = 4096

// Run erases the values of a run and waits until the erasure is synced. request contains the caller, the time
// and the reason. duplicate reports whether the run was already erased. After the first commit no read returns
// the values.
//
// Errors: machine.ErrNoRun; *machine.Error RUN_NOT_ENDED or RUN_NOT_ERASABLE; [ErrInProgress]; errors of a
// commit and of the file of keys. After an error of a commit or of the file, the caller should call Run again.
func (e *Eraser) Run(ctx context.Context, ns uint32, run string, request machine.Erased) (end layout.RunEnd, duplicate bool, err error) {
	var ops []layout.Op
	err = e.View(func(txn *layout.Txn) error {
		if end, err = layout.EndOf(txn, ns, run); err != nil || end.Head.Erased != nil || checkErasable(end.Head) != nil {
			return err
		}
		ops, err = layout.DropUntold(txn, ns, run)
		return err
	})
	if err != nil {
		return end, false, wrapError(run, err)
	}
	if end.Head.Erased != nil {
		return end, true, wrapError(run, e.finish(ctx, ns, end.Head.Erased))
	}
	if err := checkErasable(end.Head); err != nil {
		return end, false, wrapError(run, err)
	}
	request.RunID, request.Key = run, end.Head.Key
	key := layout.ErasedKey(ns, run)
	ops = append(ops, layout.Op{Key: key, Value: codec.EncodeErased(&request)})
	if err := e.Write(ctx, ns, ops, key); err != nil {
		return end, false, wrapError(run, err)
	}
	e.Keys.Doom(request.Key)
	head := *end.Head
	head.Erased = &request
	end.Head = &head
	// The run is marked as erased, so its key must be destroyed even if the caller stops waiting.
	return end, false, wrapError(run, e.finish(context.WithoutCancel(ctx), ns, &request))
}

func wrapError(run string, err error) error {
	if err != nil {
		return fmt.Errorf("erase run %q: %w", run, err)
	}
	return nil
}

// checkErasable returns an error for a run that has not ended, or whose values have no encryption key.
func checkErasable(st *machine.State) error {
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

// ForDeletion erases a run that is about to be deleted, because its deleted values stay readable in the files
// until these are rewritten. If the run does not exist, may not be deleted or has no key, ForDeletion does
// nothing.
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

// Rows calls visit for each row that records an erased run.
func Rows(txn *layout.Txn, visit func(ns uint32, e *machine.Erased) error) error {
	p := []byte{layout.KindErased}
	it := txn.Scan(kv.Range{Prefix: p})
	defer it.Close()
	for it.Rewind(); layout.AtPrefix(it, p); it.Next() {
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

// FinishInterrupted completes erasures that were interrupted. It destroys the key of every run that is marked
// as erased but still has its key.
func (e *Eraser) FinishInterrupted(ctx context.Context) error {
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
			err = wrapError(all[i].erased.RunID, e.finish(ctx, all[i].ns, &all[i].erased))
		}
	}
	return err
}

// finish removes the run's references to blobs, which can be found only with the values, and then
// destroys the key.
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

// lastKeys returns the key of a run that is being erased even after Doom, so that the rows of the run can
// be decrypted.
type lastKeys struct{ Keys }

func (l lastKeys) Key(slot uint64) (*seal.Key, error) { return l.Keys.LastKey(slot) }

// refs returns the ops that remove the references from an erased run to blobs. It decrypts the entries
// of the run to find the references.
func (e *Eraser) refs(ctx context.Context, ns uint32, erased *machine.Erased) (ops []layout.Op, err error) {
	seen := map[[32]byte]bool{}
	err = layout.EachRow(ctx, e.View, layout.RunKey(nil, layout.KindEntry, ns, erased.RunID), func(_, value []byte) error {
		plain, err := codec.OpenEntry(value, lastKeys{e.Keys})
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
