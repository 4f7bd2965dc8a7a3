package check

import (
	"encoding/binary"
	"math"

	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// deleted checks that the rows that remain of deleted runs can be decoded.
func (c *Checker) deleted() error {
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

// kept reads the remains of deleted runs. The ids that started these runs must stay. The remains show
// how many cursors no longer have an entry.
func (r *repairer) kept() error {
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

// going marks the runs that are being removed as broken, so that the repair does not change them. The
// next start completes the removal. For this it needs the cursors of the remaining entries.
func (r *repairer) going() error {
	return r.Each([]byte{layout.KindDrop}, func(key, _ []byte) error {
		p, err := layout.Dropped(key)
		if err != nil || p[0] != layout.KindDeleted {
			return nil //nolint:nilerr // The check that follows names it.
		}
		if ns, run, err := layout.RunOf(p); err == nil {
			r.broken[queueRun{ns, run}] = true
		}
		return nil
	})
}

// account subtracts the gaps of a correct row of cursors from the number of deleted entries that
// have no gap yet.
func (r *repairer) account(ns uint32, row []byte) {
	places, _ := codec.DecodeEntryRefs(row)
	for _, place := range places {
		if place.Gap() && r.deleted[ns] > 0 {
			r.deleted[ns]--
		}
	}
}

// fillDeleted turns the cursors of a range that have no entry into gaps, if at least that many entries
// were deleted. No other row shows which cursors these entries had.
func (r *repairer) fillDeleted(ns uint32, g *gap) {
	last := g.to
	if last == math.MaxUint64 {
		last = g.from - 1
		for cursor := range g.found {
			last = max(last, cursor)
		}
	}
	missing := last + 1 - g.from - uint64(len(g.found))
	if missing == 0 || missing > r.deleted[ns] {
		return
	}
	r.deleted[ns] -= missing
	for cursor := g.from; cursor <= last; cursor++ {
		if _, ok := g.found[cursor]; !ok {
			g.found[cursor] = codec.EntryRef{}
		}
	}
}

// leaving skips the rows of a run that is being removed. It checks that the remaining entries still
// have their cursors.
func (w *rowScan) leaving(ns uint32, run string) error {
	p := layout.RunKey(nil, w.kind, ns, run)
	for ; layout.Has(w.it, p); w.it.Next() {
		if err := w.Ended(); err != nil {
			return err
		}
		if w.kind != layout.KindEntry {
			continue
		}
		value, err := layout.CopyOf(w.it)
		if err != nil {
			return err
		}
		if codec.EntryCursor(value) != 0 {
			w.entries[ns]++
		}
	}
	return nil
}
