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

// trimPage is the number of dead letters that one commit removes.
const trimPage = 1024

// letterTrimmer removes dead letters of one store. It is safe for concurrent use.
type letterTrimmer struct {
	// View reads the last synced group. Write stores rows of a namespace and waits until they are
	// synced.
	View  func(read func(txn *layout.Txn) error) error
	Write func(ctx context.Context, ns uint32, ops []layout.Op) error
}

// letterBox describes the dead letters of one subscription: the prefix of their keys and their
// number.
type letterBox struct {
	prefix []byte
	n      int
	// old is the number of letters that Trim removes, counted from the oldest. These are the letters
	// that are too old and the letters above the limit.
	old int
}

// Trim removes dead letters of one namespace. First it removes the letters that became dead before the
// time before, in Unix nanoseconds. If more than most letters remain, it removes the oldest letters of
// the subscription that has the most letters, until most remain. If most is 0, their number is not
// limited.
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

// boxesOf counts the letters of each subscription. Within a subscription the oldest letter comes
// first.
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

// levelBoxes marks letters of the fullest boxes as old until all boxes together have at most `most`
// other letters.
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

// remove removes the first n letters under a prefix.
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

// These constants limit the dead letters of one subscription. If a new letter exceeds a limit, the
// oldest letters are removed.
const (
	maxDeadLetters     = 10_000
	maxDeadLetterBytes = 256 << 20
)

// oldestRows and oldestBytes limit the letters that one call removes, by their number and by the size
// of their keys.
const (
	oldestRows  = 4096
	oldestBytes = 256 << 10
)

// Oldest returns ops that remove the oldest letters under the prefix p, so that the remaining letters
// and a new one are within mostRows and mostBytes. It returns at most one page of ops. The next new
// letter removes more.
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
