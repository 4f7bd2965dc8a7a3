package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// These constants limit one call of [Store.Decisions]: the number of examined entries, the number of deleted entries that it passes, and the
// number of entries in a row after which it ends, if they are older than the search by more than decisionSlack. Because of the last two, a clock
// that was wrong by less than an hour, or for a moment, does not end a search. Entries of several runs are read in pieces of decisionPiece.
const (
	decisionLook  = 16384
	decisionGaps  = 1 << 20
	decisionOld   = 256
	decisionSlack = int64(time.Hour)
	decisionPiece = 1024
)

// Decisions returns the journal entries with a decision about a held call, the newest first. It needs no index: it examines the entries of all runs in the
// order of commits, or those of one run, and decodes only what it returns. It examines at most 16 384 entries. Therefore a page may be short
// or empty although more follow.
func (s *Store) Decisions(ctx context.Context, ns uint32, q machine.DecisionSearch) (machine.DecisionPage, error) {
	d := &decisionSearch{DecisionSearch: q, ctx: ctx, ns: ns, tail: s.readTimestamps.tail(ns)}
	if err := s.search(d); err != nil {
		return machine.DecisionPage{}, fmt.Errorf("decisions: %w", err)
	}
	return d.page, nil
}

func (s *Store) search(d *decisionSearch) error {
	return s.view(func(txn *layout.Txn) error {
		d.txn = txn
		if d.Run != "" {
			return d.run()
		}
		return d.journal()
	})
}

// decisionSearch is one call of [Store.Decisions].
type decisionSearch struct {
	machine.DecisionSearch
	ctx  context.Context //nolint:containedctx // a search lives as long as one call
	txn  *layout.Txn
	ns   uint32
	tail uint64
	page machine.DecisionPage
	// looked is the number of examined entries, and old the number of the last ones in a row that are older than the search by more than
	// decisionSlack.
	looked, old int
}

// candidate is an examined entry. It contains the entry's position and time, the number of deleted entries between it
// and the candidate before (which is newer), and the entry's value if it has a decision.
type candidate struct {
	place   uint64
	removed uint64
	run     string
	first   uint64
	at      int64
	decides bool
	value   []byte
}

// examine sets the fields that depend on the entry's value. It copies what it keeps, so the caller may change value
// afterwards.
func (c *candidate) examine(value []byte) (err error) {
	if c.at, c.decides, err = codec.EntryDecides(value); err != nil {
		return fmt.Errorf("entry %d of run %q: %w", c.first, c.run, err)
	}
	if c.decides {
		c.value = slices.Clone(value)
	}
	return nil
}

// take adds an entry to the page if it has a decision. It returns false at the end of the page or of the search.
func (d *decisionSearch) take(c *candidate) (bool, error) {
	if d.looked, d.old = d.looked+1, d.old+1; c.at+decisionSlack >= d.From {
		d.old = 0
	}
	if d.old == decisionOld {
		d.page.Next = 0
		return false, nil
	}
	d.page.Next, d.page.Removed = c.place, d.page.Removed+c.removed
	if c.decides && c.at >= d.From {
		e, err := d.txn.Entry(c.run, c.value)
		if err != nil {
			return false, err
		}
		d.page.Entries = append(d.page.Entries, e)
	}
	return len(d.page.Entries) < d.Limit && d.looked < decisionLook, d.ctx.Err()
}

// run searches the entries of one run.
func (d *decisionSearch) run() error {
	p := layout.RunKey(nil, layout.KindEntry, d.ns, d.Run)
	from := uint64(math.MaxUint64)
	if d.Before != 0 {
		from = d.Before - 1
	}
	it := d.txn.Scan(kv.Range{Prefix: p, Reverse: true})
	defer it.Close()
	for it.Seek(layout.EntryKey(d.ns, d.Run, from)); layout.AtPrefix(it, p); it.Next() {
		first, err := layout.LastNumber(it.Key(), p)
		if err != nil {
			return err
		}
		c := candidate{place: first, run: d.Run, first: first}
		if err := layout.ValueOf(it, c.examine); err != nil {
			return err
		}
		more, err := d.take(&c)
		if first == 1 {
			d.page.Next = 0
		}
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// journal searches the entries of all runs in the order of commits.
func (d *decisionSearch) journal() error {
	from := d.tail
	if d.Before != 0 {
		from = min(from, d.Before-1)
	}
	for more := true; more && from > 0; {
		piece, removed, end, err := d.piece(from)
		if err != nil {
			return err
		}
		for i := range piece {
			if more, err = d.take(&piece[i]); err != nil || !more {
				break
			}
		}
		if err != nil {
			return err
		}
		if more {
			from, d.page.Next, d.page.Removed = end-1, end, d.page.Removed+removed
			more = d.page.Removed < decisionGaps
		}
	}
	if d.page.Next == 1 {
		d.page.Next = 0
	}
	return nil
}

// piece examines at most decisionPiece entries, from a cursor downwards. end is the lowest cursor that it has reached.
// removed is the number of deleted entries after the last candidate.
func (d *decisionSearch) piece(from uint64) (piece []candidate, removed, end uint64, err error) {
	err = layout.EachPlaceBack(d.txn, d.ns, from, func(cursor uint64, place codec.EntryRef) (bool, error) {
		if end = cursor; place.Gap() {
			removed++
		} else {
			piece = append(piece, candidate{place: cursor, removed: removed, run: place.Run, first: place.First})
			removed = 0
		}
		return len(piece) < decisionPiece && removed < decisionGaps, nil
	})
	if err != nil {
		return nil, 0, 0, err
	}
	return piece, removed, end, d.read(piece)
}

// read examines the entries of a piece in the order of their keys, run by run. The entries of a run are next to each
// other in the store, and the piece contains all entries between two of its entries of a run. So one seek for each run
// is enough.
func (d *decisionSearch) read(piece []candidate) error {
	order := make([]*candidate, len(piece))
	for i := range piece {
		order[i] = &piece[i]
	}
	slices.SortFunc(order, func(a, b *candidate) int { return cmp.Or(cmp.Compare(a.run, b.run), cmp.Compare(a.first, b.first)) })
	it := d.txn.Scan(kv.Range{Prefix: layout.Prefix(nil, layout.KindEntry, d.ns)})
	defer it.Close()
	for i, c := range order {
		key := layout.EntryKey(d.ns, c.run, c.first)
		if i > 0 && order[i-1].run == c.run {
			it.Next()
		} else {
			it.Seek(key)
		}
		if !layout.AtPrefix(it, key) {
			return layout.NewDamage("", "run %q, entry %d is missing", c.run, c.first)
		}
		if err := layout.ValueOf(it, c.examine); err != nil {
			return err
		}
	}
	return d.ctx.Err()
}
