package removal

import (
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// gaps collects the cursor rows that a commit rewrites because entries are deleted. The cursor of a
// deleted entry becomes a gap. Adjacent rows that contain only gaps are merged into one row, so that
// the size of the cursor index depends only on the existing entries.
type gaps struct {
	txn *layout.Txn
	ns  uint32
	// changed maps the last cursor of a cursor row to the row's new contents.
	changed map[uint64][]codec.EntryRef
	// bytes is the approximate size of the changed rows.
	bytes int
}

func newGaps(txn *layout.Txn, ns uint32) *gaps {
	return &gaps{txn: txn, ns: ns, changed: map[uint64][]codec.EntryRef{}}
}

// add replaces the entry that a cursor refers to by a gap, because the entry is being deleted.
func (g *gaps) add(cursor uint64) error {
	last, places, err := g.row(cursor, false)
	if err != nil {
		return err
	}
	at := len(places) - 1 - int(last-cursor)
	if last < cursor || at < 0 {
		return layout.NewDamage("", "cursor %d has no row in the order of everything", cursor)
	}
	if _, ok := g.changed[last]; !ok {
		g.bytes += 32 * len(places)
	}
	places[at] = codec.EntryRef{}
	g.changed[last] = places
	return nil
}

// row returns the cursor row that contains cursor or, if there is none, the next one. If before is
// true, it returns the row before cursor. last is the last cursor in the row. If there is no row,
// places is nil.
func (g *gaps) row(cursor uint64, before bool) (last uint64, places []codec.EntryRef, err error) {
	p := layout.Prefix(nil, layout.KindCursor, g.ns)
	from := cursor
	if before {
		from--
	}
	it := g.txn.Scan(kv.Range{Prefix: p, Reverse: before})
	defer it.Close()
	if it.Seek(layout.CursorKey(nil, g.ns, from)); !layout.AtPrefix(it, p) {
		return 0, nil, nil
	}
	if last, err = layout.LastNumber(it.Key(), p); err != nil {
		return 0, nil, err
	}
	if known, ok := g.changed[last]; ok {
		return last, known, nil
	}
	err = layout.ValueOf(it, func(v []byte) error {
		places, err = codec.DecodeEntryRefs(v)
		return err
	})
	return last, places, err
}

// rows returns the ops that rewrite the changed cursor rows.
func (g *gaps) rows() (ops []layout.Op, err error) {
	gone := map[uint64]bool{}
	for _, last := range slices.Sorted(maps.Keys(g.changed)) {
		if err := g.merge(last, gone); err != nil {
			return nil, err
		}
	}
	for _, last := range slices.Sorted(maps.Keys(g.changed)) {
		op := layout.Op{Key: layout.CursorKey(nil, g.ns, last), Delete: gone[last]}
		if !op.Delete {
			op.Value = codec.EncodeEntryRefs(g.changed[last])
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// merge merges a cursor row with the previous one if both contain only gaps (cursors of deleted
// entries). It is called for the changed rows in order, so that a series of these rows becomes one row.
func (g *gaps) merge(last uint64, gone map[uint64]bool) error {
	places := g.changed[last]
	first := last + 1 - uint64(len(places))
	if first <= 1 || !empty(places) {
		return nil
	}
	end, before, err := g.row(first, true)
	if err != nil || len(before) == 0 || gone[end] || end != first-1 || !empty(before) || len(before)+len(places) > codec.MostGaps {
		return err
	}
	// All references in both rows are gaps, so their order does not matter.
	g.changed[last] = append(places, before...)
	g.changed[end], gone[end] = before, true
	return nil
}

func empty(places []codec.EntryRef) bool {
	return !slices.ContainsFunc(places, func(p codec.EntryRef) bool { return !p.Gap() })
}
