package badger_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	upstream "github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/test/simulation/badger"
	"github.com/pawl-dev/pawl/test/simulation/disk"
)

// TestLikeBadger makes the same random calls of Badger and of the simulated one: what is
// read at any timestamp, inside and outside of a transaction, in either direction, is the same.
func TestLikeBadger(t *testing.T) {
	t.Parallel()
	const dir = "/sim/badger-test"
	disk.New(dir)
	defer disk.Forget(dir)
	sim, err := badger.OpenManaged(badger.DefaultOptions(dir).WithSyncWrites(true))
	if err != nil {
		t.Fatal(err)
	}
	db, err := upstream.OpenManaged(upstream.DefaultOptions(t.TempDir()).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	dice := rand.New(rand.NewPCG(1, 2))
	for ts := uint64(1); ts <= 60; ts++ {
		a, b := sim.NewTransactionAt(ts-1, true), db.NewTransactionAt(ts-1, true)
		for range 1 + dice.IntN(20) {
			key, value := randomKey(dice), fmt.Appendf(nil, "%d", dice.IntN(1000))
			if dice.IntN(4) == 0 {
				err = errors.Join(a.Delete(key), b.Delete(key))
			} else {
				err = errors.Join(a.Set(key, value), b.Set(key, value))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		compare(t, dice, a, b)
		if err := errors.Join(a.CommitAt(ts, nil), b.CommitAt(ts, nil)); err != nil {
			t.Fatal(err)
		}
		at := dice.Uint64N(ts + 1)
		c, d := sim.NewTransactionAt(at, false), db.NewTransactionAt(at, false)
		compare(t, dice, c, d)
		d.Discard()
	}
	a, b := sim.NewManagedWriteBatch(), db.NewManagedWriteBatch()
	for ts := uint64(61); ts <= 70; ts++ {
		key, value := randomKey(dice), fmt.Appendf(nil, "%d", ts)
		if err := errors.Join(a.SetEntryAt(badger.NewEntry(key, value), ts), b.SetEntryAt(upstream.NewEntry(key, value), ts)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(a.Flush(), b.Flush()); err != nil {
		t.Fatal(err)
	}
	for _, at := range []uint64{60, 65, 70} {
		c, d := sim.NewTransactionAt(at, false), db.NewTransactionAt(at, false)
		compare(t, dice, c, d)
		d.Discard()
	}
	if sim.MaxVersion() != db.MaxVersion() {
		t.Errorf("versions %d and %d", sim.MaxVersion(), db.MaxVersion())
	}
}

func randomKey(dice *rand.Rand) []byte {
	return fmt.Appendf(nil, "%c%c%d", 'a'+dice.IntN(3), 'x'+dice.IntN(2), dice.IntN(12))
}

// compare reads keys, and walks from random places.
func compare(t *testing.T, dice *rand.Rand, a *badger.Txn, b *upstream.Txn) {
	t.Helper()
	for range 5 {
		key := randomKey(dice)
		x, errX := a.Get(key)
		y, errY := b.Get(key)
		if !errors.Is(errX, errY) || errX == nil && value(t, x) != value(t, y) {
			t.Fatalf("get %s: %v and %v", key, errX, errY)
		}
	}
	for range 6 {
		opts := upstream.IteratorOptions{Reverse: dice.IntN(2) == 0}
		if dice.IntN(3) > 0 {
			opts.Prefix = randomKey(dice)[:1+dice.IntN(2)]
		}
		var from []byte
		if dice.IntN(3) > 0 {
			from = append(bytes.Clone(opts.Prefix), randomKey(dice)[:1+dice.IntN(2)]...)
		}
		if got, want := walk(t, a.NewIterator(opts), from), walk(t, b.NewIterator(opts), from); got != want {
			t.Fatalf("%+v from %q: %s, Badger has %s", opts, from, got, want)
		}
	}
}

type iterator[I item] interface {
	Seek(key []byte)
	Valid() bool
	Next()
	Item() I
	Close()
}

type item interface {
	Key() []byte
	Value(func([]byte) error) error
}

func walk[I item](t *testing.T, it iterator[I], from []byte) string {
	defer it.Close()
	var out []byte
	for it.Seek(from); it.Valid(); it.Next() {
		out = fmt.Appendf(out, "%s=%s ", it.Item().Key(), value(t, it.Item()))
	}
	return string(out)
}

func value[I item](t *testing.T, i I) (out string) {
	t.Helper()
	if err := i.Value(func(v []byte) error { out = string(v); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestWriteBatchLikeBadger: a batch writes each row at its version.
func TestWriteBatchLikeBadger(t *testing.T) {
	t.Parallel()
	const dir = "/sim/badger-batch-test"
	disk.New(dir)
	defer disk.Forget(dir)
	sim, err := badger.OpenManaged(badger.DefaultOptions(dir).WithSyncWrites(true))
	if err != nil {
		t.Fatal(err)
	}
	db, err := upstream.OpenManaged(upstream.DefaultOptions(t.TempDir()).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	a, b := sim.NewManagedWriteBatch(), db.NewManagedWriteBatch()
	dice := rand.New(rand.NewPCG(3, 4))
	for n := range 40 {
		key, value, ts := randomKey(dice), fmt.Appendf(nil, "%d", n), 1+dice.Uint64N(9)
		if n%8 == 7 {
			if err := errors.Join(a.DeleteAt(bytes.Clone(key), ts), b.DeleteAt(key, ts)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := errors.Join(a.SetEntryAt(badger.NewEntry(key, value), ts), b.SetEntryAt(upstream.NewEntry(bytes.Clone(key), value), ts)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(a.Flush(), b.Flush()); err != nil {
		t.Fatal(err)
	}
	for ts := range uint64(10) {
		c, d := sim.NewTransactionAt(ts, false), db.NewTransactionAt(ts, false)
		compare(t, dice, c, d)
		d.Discard()
	}
	if sim.MaxVersion() != db.MaxVersion() {
		t.Errorf("versions %d and %d", sim.MaxVersion(), db.MaxVersion())
	}
}
