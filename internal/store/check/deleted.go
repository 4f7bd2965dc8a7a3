package check

import (
	"encoding/binary"
	"math"

	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// checkDeleted checks that the rows which reserve the ids of deleted runs can be decoded.
func (c *Checker) checkDeleted() error {
	return c.Each([]byte{layout.KindDeleted}, func(key, value []byte) error {
		c.report.Deleted++
		_, run, err := layout.RunOf(key)
		if err == nil {
			_, err = codec.DecodeDeleted(value)
		}
		if err != nil {
			return &Fault{Namespace: binary.BigEndian.Uint32(key[1:]), Run: run, Row: "deleted run", Detail: err.Error()}
		}
		return nil
	})
}

// readDeleted reads the rows that the store keeps of deleted runs. It adds their entries to r.deleted, the
// number of entries that were deleted with their runs. It also keeps the rows with the ids of the
// requests that started these runs.
func (r *repairer) readDeleted() error {
	return r.Each([]byte{layout.KindDeleted}, func(key, value []byte) error {
		d, err := codec.DecodeDeleted(value)
		if err != nil {
			return nil //nolint:nilerr // The check that follows names it.
		}
		ns := binary.BigEndian.Uint32(key[1:])
		r.deleted[ns] += d.Commits
		if start, ok := d.Start(); ok {
			r.wanted[r.hash(layout.DedupeKey(nil, ns, &start))] = struct{}{}
		}
		return nil
	})
}

// markBeingRemoved marks the runs that are being removed as broken, so that the repair does not change their rows.
// The next start of the store completes the removal, for which it needs the cursors of the remaining
// entries.
func (r *repairer) markBeingRemoved() error {
	return r.Each([]byte{layout.KindDrop}, func(key, _ []byte) error {
		p, err := layout.DroppedPrefix(key)
		if err != nil || p[0] != layout.KindDeleted {
			return nil //nolint:nilerr // The check that follows names it.
		}
		if ns, run, err := layout.RunOf(p); err == nil {
			r.broken[queueRun{ns, run}] = true
		}
		return nil
	})
}

// account counts the gaps of a correct cursor row, which stand for the cursors of deleted entries. The row was
// decoded before, so the error is ignored. It subtracts them from r.deleted, the number of deleted entries
// without a gap. It also remembers that the namespace had more runs.
func (r *repairer) account(ns uint32, row []byte) {
	places, _ := codec.DecodeEntryRefs(row)
	for _, place := range places {
		if place.Gap() {
			if r.hadMore == nil {
				r.hadMore = map[uint32]bool{}
			}
			r.hadMore[ns] = true
		}
		if place.Gap() && r.deleted[ns] > 0 {
			r.deleted[ns]--
		}
	}
}

// fillDeleted decides that the cursors of g without an entry belonged to deleted entries, and turns
// them into gaps. It does so only if there are at least as many deleted entries without a gap, or if entries were lost
// for good. No row shows which cursors the deleted entries had.
func (r *repairer) fillDeleted(ns uint32, g *gap) {
	last := g.to
	if last == math.MaxUint64 {
		last = g.from - 1
		for cursor := range g.found {
			last = max(last, cursor)
		}
	}
	missing := last + 1 - g.from - uint64(len(g.found))
	if missing == 0 || missing > r.deleted[ns] && !r.lossy {
		return
	}
	r.deleted[ns] -= min(missing, r.deleted[ns])
	for cursor := g.from; cursor <= last; cursor++ {
		if _, ok := g.found[cursor]; !ok {
			g.found[cursor] = codec.EntryRef{}
		}
	}
}

// skipRemovedRun skips the rows of a run that is being removed. It counts those of its entries that have a
// cursor.
func (w *rowScan) skipRemovedRun(ns uint32, run string) error {
	p := layout.RunKey(nil, w.kind, ns, run)
	for ; layout.AtPrefix(w.iterator, p); w.iterator.Next() {
		if err := w.Ended(); err != nil {
			return err
		}
		if w.kind != layout.KindEntry {
			continue
		}
		value, err := layout.CopyOf(w.iterator)
		if err != nil {
			return err
		}
		if codec.EntryCursor(value) != 0 {
			w.entries[ns]++
		}
	}
	return nil
}
