package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/erasure"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/removal"
)

// DeleteRun deletes a run that has ended and waits until the deletion is synced, see
// [removal.Remover.Run].
func (s *Store) DeleteRun(ctx context.Context, ns uint32, run string, asked machine.Deleted) (d machine.Deleted, duplicate bool, err error) {
	if err := s.eraser.ForDeletion(ctx, ns, run, &asked); err != nil {
		return d, false, err
	}
	return s.remover.Run(ctx, ns, run, asked)
}

// RunBytes returns the approximate disk space of the rows of a run in bytes, see
// [removal.Remover.Bytes].
func (s *Store) RunBytes(ctx context.Context, ns uint32, run string) (int64, error) {
	return s.remover.Bytes(ctx, ns, run)
}

// HasUnconfirmedCancel reports whether the store still has a cancellation of a delegation of the run, which no agent
// has confirmed.
func (s *Store) HasUnconfirmedCancel(ctx context.Context, ns uint32, run string) (bool, error) {
	return s.remover.HasUnconfirmedCancel(ctx, ns, run)
}

// ForgetDeleted removes the rows that reserve the ids of deleted runs of a namespace, if the runs were
// deleted before a time in Unix nanoseconds, see [removal.Remover.Prune].
func (s *Store) ForgetDeleted(ctx context.Context, ns uint32, before int64) (int, error) {
	return s.remover.Prune(ctx, ns, before)
}

// View calls read with a view of the last synced commit. It is for the other packages of the store.
func (s *Store) View(read func(txn *layout.Txn) error) error { return s.view(read) }

// writeRemoval stores one change of a removal of a run, and reports the freed bytes to the storage
// engine.
func (s *Store) writeRemoval(ctx context.Context, c removal.Change) error {
	w := &Writes{ns: c.Ns, entry: -1, ops: c.Ops, run: c.Head, prev: c.Last, reclaimsSpace: true}
	if c.Mark != nil {
		w.expects = []expect{{key: c.Mark, predicate: anyValue, err: removal.ErrEnded}}
	}
	err := s.write(ctx, w)
	if err == nil {
		s.engine.Removed(c.Bytes)
	}
	return err
}

// CheckRemovalSpace returns an error if the disk does not have enough space for one step of a removal of rows.
func (s *Store) CheckRemovalSpace() error {
	return s.checkSpace(&Writes{reclaimsSpace: true, size: size{bytes: dropBytes}})
}

// dropRun completes an interrupted removal of a run. p is the beginning of a key, with the namespace
// and the id of the run.
func (s *Store) dropRun(ctx context.Context, p []byte) error {
	ns, run, err := layout.RunOf(p)
	if err != nil {
		return err
	}
	return s.remover.Finish(ctx, ns, run)
}

// EraseRun erases the values of a run that has ended and waits until the erasure is synced; see
// [erasure.Eraser.Run].
func (s *Store) EraseRun(ctx context.Context, ns uint32, run string, asked machine.Erased) (st *machine.State, duplicate bool, err error) {
	end, duplicate, err := s.eraser.Run(ctx, ns, run, asked)
	return end.State(), duplicate, err
}

// writeErasure stores rows of an erasure. It does so even if the disk is nearly full, because a
// deletion, which frees space, begins with an erasure. If the key absent is not nil and exists, the
// error is [erasure.ErrInProgress].
func (s *Store) writeErasure(ctx context.Context, ns uint32, ops []layout.Op, absent []byte) error {
	w := &Writes{ns: ns, entry: -1, reclaimsSpace: true, ops: ops}
	if absent != nil {
		w.expects = []expect{{key: absent, err: erasure.ErrInProgress}}
	}
	return s.write(ctx, w)
}

// wireErasure creates the parts of the store that handle the encryption keys of erasable runs.
func (s *Store) wireErasure() {
	keys := s.engine.Keys()
	s.eraser = &erasure.Eraser{View: s.view, Write: s.writeErasure, Keys: keys}
	s.runKeys = &runKeys{ring: keys, checkSpace: func(bytes int64) error { return s.engine.CheckSpace(bytes, false) }, write: s.put}
}

// When a main row is removed, the rows that depend on it may be too many for one commit. They are then
// removed in steps. The commit that removes the main row also stores a mark with the key prefix of the
// dependent rows. Each further commit removes some of these rows, and the last one removes the mark. If
// the process dies in between, the removal continues when the store is opened again.

// dropPage and dropBytes limit the rows that one commit of a removal deletes, by number and by the size
// of their keys.
const (
	dropPage  = 4096
	dropBytes = 256 << 10
)

// addDrop adds a mark to the writes: after they are stored, the rows whose keys begin with p are removed.
func (w *Writes) addDrop(p []byte) {
	w.ops = append(w.ops, layout.Op{Key: layout.DropKey(p), Value: codec.Mark})
	w.dropped = p
}

// expectNotDropped returns a precondition of a commit: the rows whose keys begin with p must not be in a
// removal. Otherwise the commit fails with miss.
func expectNotDropped(p []byte, miss error) expect { return expect{key: layout.DropKey(p), err: miss} }

// errDropped means that another goroutine has completed the removal of the rows.
var errDropped = errors.New("the rows are removed")

// dropUnder removes the rows whose keys begin with p, in several commits. The mark of this removal must
// already be stored. While the mark exists, no new rows with this prefix are stored.
func (s *Store) dropUnder(ctx context.Context, p []byte) error {
	mark := layout.DropKey(p)
	for {
		ops, freed, more, err := s.keysUnder(p, dropPage, dropBytes)
		if err != nil {
			return err
		}
		for i := range ops {
			ops[i].Delete = true
		}
		if !more {
			ops = append(ops, layout.Op{Key: mark, Delete: true})
		}
		err = s.write(ctx, &Writes{
			ns: binary.BigEndian.Uint32(p[1:]), entry: -1, ops: ops, reclaimsSpace: true,
			expects: []expect{{key: mark, predicate: anyValue, err: errDropped}},
		})
		if errors.Is(err, errDropped) {
			return nil
		}
		if err == nil {
			s.engine.Removed(freed)
		}
		if err != nil || !more {
			return err
		}
	}
}

// keysUnder returns ops for at most limit keys that begin with p, of together about most bytes. taken
// is the disk space of their rows in bytes. more reports whether there are further keys.
func (s *Store) keysUnder(p []byte, limit, most int) (ops []layout.Op, taken int64, more bool, err error) {
	size := 0
	err = s.view(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: p, KeysOnly: true})
		defer it.Close()
		for it.Rewind(); layout.AtPrefix(it, p); it.Next() {
			if more = len(ops) == limit || size >= most; more {
				return nil
			}
			size, taken = size+len(it.Key()), taken+it.StoredSize()
			ops = append(ops, layout.Op{Key: it.KeyCopy()})
		}
		return nil
	})
	return ops, taken, more, err
}

// dropMarked completes interrupted removals of rows. It finds them by the marks in the store.
func (s *Store) dropMarked(ctx context.Context) error {
	marks, _, _, err := s.keysUnder([]byte{layout.KindDrop}, math.MaxInt, math.MaxInt)
	if err != nil {
		return err
	}
	for _, mark := range marks {
		p, err := layout.DroppedPrefix(mark.Key)
		switch {
		case err != nil:
			// The error is handled below.
		case p[0] == layout.KindDeleted:
			err = s.dropRun(ctx, p)
		default:
			err = s.dropUnder(ctx, p)
		}
		if err = s.ignoreDamageInRepair(err); err != nil {
			return fmt.Errorf("go on with a removal: %w", err)
		}
	}
	return nil
}
