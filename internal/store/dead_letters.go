package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// trimPage is how many letters one commit removes.
const trimPage = 1024

// letterTrimmer removes letters of one store. Safe for concurrent use.
type letterTrimmer struct {
	// View reads at the last synced group; Write stores rows of a namespace, synced.
	View  func(read func(txn *layout.Txn) error) error
	Write func(ctx context.Context, ns uint32, ops []layout.Op) error
}

// letterBox is the letters of one subscription: what their keys begin with, and how many there are.
type letterBox struct {
	prefix []byte
	n      int
	// old is how many of the first go: they were given up too long ago, or are too many.
	old int
}

// Trim removes, in one namespace, letters that were given up before a time, Unix
// nanoseconds, and then the oldest of the subscription that has most, until there are at most so
// many; 0 = any number.
func (t *letterTrimmer) Trim(ctx context.Context, ns uint32, before int64, most int) (removed int, err error) {
	var boxes []*letterBox
	err = t.View(func(txn *layout.Txn) (err error) {
		boxes, err = boxesOf(txn, ns, before)
		return errors.Join(err, ctx.Err())
	})
	if err != nil {
		return 0, fmt.Errorf("dead letters: %w", err)
	}
	levelBoxes(boxes, most)
	for _, b := range boxes {
		n, err := t.remove(ctx, ns, b.prefix, b.old)
		if removed += n; err != nil {
			return removed, fmt.Errorf("dead letters: %w", err)
		}
	}
	return removed, nil
}

// boxesOf counts the letters of each subscription; those of one are in their order.
func boxesOf(txn *layout.Txn, ns uint32, before int64) (boxes []*letterBox, err error) {
	p := layout.Prefix(nil, layout.KindDeadLetter, ns)
	it := txn.Scan(kv.Range{Prefix: p})
	defer it.Close()
	var at *letterBox
	for it.Rewind(); layout.Has(it, p); it.Next() {
		key := it.Key()
		if at == nil || !bytes.HasPrefix(key, at.prefix) {
			_, rest, err := layout.ReadSubscriptionKey(key)
			if err != nil {
				return nil, err
			}
			at = &letterBox{prefix: bytes.Clone(key[:len(key)-len(rest)])}
			boxes = append(boxes, at)
		}
		if at.old == at.n && before > 0 {
			is, err := givenUpBefore(it, before)
			if err != nil {
				return nil, err
			}
			if is {
				at.old++
			}
		}
		at.n++
	}
	return boxes, nil
}

func givenUpBefore(item *kv.Iterator, before int64) (is bool, err error) {
	err = layout.ValueOf(item, func(v []byte) error {
		letter, err := codec.DecodeDeadLetter(v)
		is = letter.At < before
		return err
	})
	return is, err
}

// levelBoxes takes letters from the fullest boxes until all together hold at most most.
func levelBoxes(boxes []*letterBox, most int) {
	left, tallest := 0, 0
	for _, b := range boxes {
		left, tallest = left+b.n-b.old, max(tallest, b.n-b.old)
	}
	if most == 0 || left <= most {
		return
	}
	under := func(height int) (n int) {
		for _, b := range boxes {
			n += min(b.n-b.old, height)
		}
		return n
	}
	height := sort.Search(tallest, func(h int) bool { return under(h) > most }) - 1
	more := most - under(height)
	for _, b := range boxes {
		if over := b.n - b.old - height; over > 0 {
			one := min(more, 1)
			b.old, more = b.old+over-one, more-one
		}
	}
}

// remove removes the first so many letters under a prefix.
func (t *letterTrimmer) remove(ctx context.Context, ns uint32, prefix []byte, n int) (removed int, err error) {
	for removed < n {
		ops, err := t.first(ctx, prefix, min(n-removed, trimPage))
		if err != nil || len(ops) == 0 {
			return removed, err
		}
		if err := t.Write(ctx, ns, ops); err != nil {
			return removed, err
		}
		removed += len(ops)
	}
	return removed, nil
}

func (t *letterTrimmer) first(ctx context.Context, prefix []byte, n int) (ops []layout.Op, err error) {
	err = t.View(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: prefix, KeysOnly: true})
		defer it.Close()
		for it.Rewind(); layout.Has(it, prefix) && len(ops) < n; it.Next() {
			ops = append(ops, layout.Op{Key: it.KeyCopy(), Delete: true})
		}
		return ctx.Err()
	})
	return ops, err
}

// Bounds of the dead letters of one subscription: for a new one the oldest go.
const (
	maxDeadLetters     = 10_000
	maxDeadLetterBytes = 256 << 20
)

// oldestRows and oldestBytes are how many letters, and bytes of their keys, go at once.
const (
	oldestRows  = 4096
	oldestBytes = 256 << 10
)

// Oldest removes the oldest letters under a prefix that exceed the limits mostRows and
// mostBytes together with a new one. It removes at most a page; the next new letter removes
// more.
func (t *letterTrimmer) Oldest(p []byte, mostRows int, mostBytes int64) (old []layout.Op, err error) {
	err = t.View(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: p, Reverse: true, KeysOnly: true})
		defer it.Close()
		rows, bytes := 1, int64(0)
		for it.Seek(append(slices.Clone(p), 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF)); layout.Has(it, p); it.Next() {
			rows, bytes = rows+1, bytes+it.Size()
			if rows > mostRows || bytes > mostBytes {
				old = append(old, layout.Op{Key: it.KeyCopy(), Delete: true})
			}
		}
		return nil
	})
	most := min(oldestRows, oldestBytes/(len(p)+8))
	return old[max(0, len(old)-most):], err
}
