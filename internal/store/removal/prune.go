package removal

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Prune removes the rows that the store keeps of deleted runs of a namespace, if the runs were deleted
// before the time before, in Unix nanoseconds. Afterwards the store does not know that these runs
// existed, and the ids that started them can be used again. Prune returns the number of runs.
func (r *Remover) Prune(ctx context.Context, ns uint32, before int64) (forgotten int, err error) {
	var after []byte
	for {
		ops, n, next, err := r.expiredRows(ctx, ns, before, after)
		if err != nil {
			return forgotten, fmt.Errorf("forget deleted runs: %w", err)
		}
		if len(ops) > 0 {
			if err := r.Write(ctx, Change{Ns: ns, Ops: ops}); err != nil {
				return forgotten, fmt.Errorf("forget deleted runs: %w", err)
			}
		}
		if forgotten += n; next == nil {
			return forgotten, nil
		}
		after = next
	}
}

// expiredRows returns the ops that remove one page of rows of runs that were deleted before the time
// before. next is the key at which the following page begins, or nil if there is none.
func (r *Remover) expiredRows(ctx context.Context, ns uint32, before int64, from []byte) (ops []layout.Op, n int, next []byte, err error) {
	p := layout.Prefix(nil, layout.KindDeleted, ns)
	err = r.View(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: p})
		defer it.Close()
		if from == nil {
			from = p
		}
		looked := 0
		for it.Seek(from); layout.AtPrefix(it, p); it.Next() {
			if looked++; len(ops) >= pageRows || looked > pageRows {
				next = it.KeyCopy()
				return nil
			}
			rows, err := outlivedRow(txn, ns, it, before)
			if err != nil {
				return err
			}
			if len(rows) > 0 {
				ops, n = append(ops, rows...), n+1
			}
		}
		return ctx.Err()
	})
	return ops, n, next, err
}

// outlivedRow returns the ops that remove what the store keeps of a deleted run, if the run was deleted before the
// time before. It returns none if the row must stay.
func outlivedRow(txn *layout.Txn, ns uint32, item *kv.Iterator, before int64) ([]layout.Op, error) {
	var d machine.Deleted
	err := layout.ValueOf(item, func(v []byte) (err error) {
		d, err = codec.DecodeDeleted(v)
		return err
	})
	if err != nil || d.At >= before {
		return nil, err
	}
	_, run, err := layout.RunOf(item.Key())
	if err != nil {
		return nil, err
	}
	// The row is kept if other rows of the run are still being removed, or if the run was imported
	// after its deletion.
	if mark, err := layout.Get(txn, layout.RemovalKey(ns, run)); err != nil || mark != nil {
		return nil, err
	}
	if there, err := layout.RunExists(txn, ns, run); err != nil || there {
		return nil, err
	}
	ops := []layout.Op{{Key: item.KeyCopy(), Delete: true}}
	start, ok := d.Start()
	if !ok {
		return ops, nil
	}
	key := layout.DedupeKey(nil, ns, &start)
	value, err := layout.Get(txn, key)
	if err != nil || value == nil {
		return ops, err
	}
	id, err := codec.LeftOfDedupe(start, value)
	if err == nil && id.RunID == run {
		ops = append(ops, layout.Op{Key: key, Delete: true})
	}
	return ops, err
}
