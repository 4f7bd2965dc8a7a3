package removal

import (
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// gaps are the rows of cursors that a commit rewrites because their entries are removed. Empty
// neighbours become one row, so that the size of the index depends on the present entries only.
type gaps struct {
	txn *layout.Txn
	ns  uint32
	// changed are the rows by the cursor that they end with.
	changed map[uint64][]codec.EntryRef
	// bytes is about what they take.
	bytes int
}

func newGaps(txn *layout.Txn, ns uint32) *gaps {
	return &gaps{txn: txn, ns: ns, changed: map[uint64][]codec.EntryRef{}}
}

// add makes a gap of a cursor.
func (g *gaps) add(cursor uint64) error {
	last, places, err := g.row(cursor, false)
	if err != nil {
		return err
	}
	at := len(places) - 1 - int(last-cursor)
	if last < cursor || at < 0 {
		return layout.Damaged("", "cursor %d has no row in the order of everything", cursor)
	}
	if _, ok := g.changed[last]; !ok {
		g.bytes += 32 * len(places)
	}
	places[at] = codec.EntryRef{}
	g.changed[last] = places
	return nil
}

// row is the row that ends at or behind a cursor, or with before the one that ends before
// it; no places: there is none.
func (g *gaps) row(cursor uint64, before bool) (last uint64, places []codec.EntryRef, err error) {
	p := layout.Prefix(nil, layout.KindCursor, g.ns)
	from := cursor
	if before {
		from--
	}
	it := g.txn.Scan(kv.Range{Prefix: p, Reverse: before})
	defer it.Close()
	if it.Seek(layout.CursorKey(nil, g.ns, from)); !layout.Has(it, p) {
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

// rows are the writes.
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

// merge merges the row before an empty one into it, if that row is empty, too. The rows come in
// their order, so that a series becomes one row.
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
	g.changed[last] = append(places, before...)
	g.changed[end], gone[end] = before, true
	return nil
}

func empty(places []codec.EntryRef) bool {
	return !slices.ContainsFunc(places, func(p codec.EntryRef) bool { return !p.Gap() })
}
