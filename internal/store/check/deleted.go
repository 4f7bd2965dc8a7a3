package check

import (
	"encoding/binary"
	"math"

	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// deleted checks that what is kept of deleted runs can be read.
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

// kept takes what is kept of deleted runs: the ids that began them stay, and as many
// cursors have no entry.
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

// going leaves the runs that are being removed alone: the start that follows ends that, for
// which the entries that are left need their cursors.
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

// account takes the gaps of a sound row of cursors off what deleted runs may lack.
func (r *repairer) account(ns uint32, row []byte) {
	places, _ := codec.DecodeEntryRefs(row)
	for _, place := range places {
		if place.Gap() && r.deleted[ns] > 0 {
			r.deleted[ns]--
		}
	}
}

// fillDeleted makes gaps of the cursors of a range that no entry has, if so many entries
// were deleted. Which ones is known of no other row.
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

// leaving passes over the rows of a run that is being removed. Its entries have their
// places still.
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
