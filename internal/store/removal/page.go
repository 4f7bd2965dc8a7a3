package removal

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// pageRows and pageBytes are the approximate limits of one commit of a removal: the number of rows, and
// the bytes of keys and of cursor rows.
const (
	pageRows  = 4096
	pageBytes = 512 << 10
)

// perRun lists the kinds of rows whose keys begin with their run, in the order in which they are
// removed after the run's head (current state).
var perRun = []byte{layout.KindEntry, layout.KindSnapshot, layout.KindArtifact, layout.KindMessage, layout.KindRunID, layout.KindErased}

// prefixes returns the prefixes of those keys that begin with the run or, for subscriptions, with a kind and
// the run, in the order in which the rows are removed. removeHead and entry remove the other rows of the run.
func prefixes(ns uint32, run string) (all [][]byte) {
	for _, kind := range perRun {
		all = append(all, layout.RunKey(nil, kind, ns, run))
	}
	for _, row := range []byte{layout.KindSubscription, layout.KindDeadLetter} {
		for kind := machine.SubscriptionPush; kind <= machine.SubscriptionConsumer; kind++ {
			all = append(all, layout.AppendName(append(layout.Prefix(nil, row, ns), byte(kind)), run))
		}
	}
	return all
}

// position is how far the rows of a run were removed. The removal continues there, and so does not scan
// keys that are already deleted.
type position struct {
	prefix int
	key    []byte
}

// page collects rows of one run for one commit.
type page struct {
	txn   *layout.Txn
	ns    uint32
	run   string
	limit int
	ops   []layout.Op
	bytes int
	// freed is the approximate disk space of the collected rows in bytes.
	freed int64
	// refs are the hashes of the blobs whose references are removed.
	refs map[[32]byte]bool
	gaps *gaps
}

func newPage(txn *layout.Txn, ns uint32, run string, most int) *page {
	return &page{txn: txn, ns: ns, run: run, limit: cmp.Or(most, pageRows), refs: map[[32]byte]bool{}, gaps: newGaps(txn, ns)}
}

// fill adds rows of the run to the page, beginning at the position at, and advances at. more reports
// whether there are further rows.
func (p *page) fill(ctx context.Context, at *position) (more bool, err error) {
	all := prefixes(p.ns, p.run)
	for ; at.prefix < len(all); at.prefix, at.key = at.prefix+1, nil {
		if more, err = p.addPrefix(ctx, all[at.prefix], at); err != nil || more {
			break
		}
	}
	if err != nil {
		return false, err
	}
	ops, err := p.gaps.rows()
	p.ops = append(p.ops, ops...)
	return more, err
}

// addPrefix adds the rows whose keys begin with prefix to the page.
func (p *page) addPrefix(ctx context.Context, prefix []byte, at *position) (more bool, err error) {
	it := p.txn.Scan(kv.Range{Prefix: prefix})
	defer it.Close()
	for it.Seek(slices.Concat(prefix, bytes.TrimPrefix(at.key, prefix))); layout.AtPrefix(it, prefix); it.Next() {
		if len(p.ops) >= p.limit || p.bytes+p.gaps.bytes >= pageBytes {
			at.key = it.KeyCopy()
			return true, nil
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		key := it.KeyCopy()
		p.remove(key)
		p.freed += it.StoredSize()
		if key[0] != layout.KindEntry {
			continue
		}
		if err := p.entry(it); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (p *page) remove(key []byte) {
	p.ops = append(p.ops, layout.Op{Key: key, Delete: true})
	p.bytes += len(key)
}

// entry adds the changes of other rows that the removal of a journal entry requires. The entry's cursor
// becomes a gap, and its references to blobs are removed.
func (p *page) entry(item *kv.Iterator) error {
	return layout.ValueOf(item, func(value []byte) error {
		// The values of an erased run cannot be decrypted, but its references were already removed with
		// them.
		plain, err := codec.OpenEntry(value, p.txn.Keys)
		if err != nil {
			return err
		}
		for _, sum := range layout.RefsIn(plain) {
			if !p.refs[sum] {
				p.refs[sum] = true
				p.remove(layout.AppendName(layout.BlobRefsOf(p.ns, sum), p.run))
			}
		}
		if cursor := codec.EntryCursor(value); cursor != 0 {
			return p.gaps.add(cursor)
		}
		return nil
	})
}
