package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Dependent rows may be too many for one commit. In this case they are removed in steps. The commit
// that removes the main row also stores a mark with the prefix of the dependent rows. Each of the
// further commits removes one page of rows, and the last one removes the mark. If the process dies in
// between, the mark remains, and the removal continues when the store is opened again.

// dropPage and dropBytes limit the rows that one commit of a removal deletes, by their number and by
// the size of their keys.
const (
	dropPage  = 4096
	dropBytes = 256 << 10
)

// drop requests the removal of the rows under the prefix p after these writes are stored.
func (w *Writes) drop(p []byte) {
	w.ops = append(w.ops, layout.Op{Key: layout.DropKey(p), Value: codec.Mark})
	w.dropped = p
}

// undropped returns the precondition that no removal of the rows under the prefix p is in progress.
func undropped(p []byte, miss error) expect { return expect{key: layout.DropKey(p), err: miss} }

// errDropped means that another caller has completed the removal.
var errDropped = errors.New("the rows are removed")

// dropUnder removes the rows under a prefix. The mark of the prefix must be stored. The mark prevents
// new rows under the prefix.
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
			expects: []expect{{key: mark, predicate: present, err: errDropped}},
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

// keysUnder returns ops for keys under the prefix p, at most limit keys of together about most bytes.
// taken is the disk space of their rows in bytes. more reports whether there are further keys.
func (s *Store) keysUnder(p []byte, limit, most int) (ops []layout.Op, taken int64, more bool, err error) {
	size := 0
	err = s.view(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: p, KeysOnly: true})
		defer it.Close()
		for it.Rewind(); layout.Has(it, p); it.Next() {
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

// dropMarked completes the removals that were interrupted.
func (s *Store) dropMarked(ctx context.Context) error {
	marks, _, _, err := s.keysUnder([]byte{layout.KindDrop}, math.MaxInt, math.MaxInt)
	if err != nil {
		return err
	}
	for _, mark := range marks {
		p, err := layout.Dropped(mark.Key)
		switch {
		case err != nil:
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
