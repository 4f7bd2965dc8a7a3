package badgerengine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// aged returns a real database with a large value at the lowest level of its tree and the removal of this
// value above it. The statistics of Badger say that most of the first value log is dead.
func aged(t *testing.T) (*badger.DB, string) {
	t.Helper()
	dir := t.TempDir()
	open := func() *badger.DB {
		db, err := badger.OpenManaged(badger.DefaultOptions(dir).WithLogger(nil).WithValueThreshold(1 << 10).
			WithValueLogFileSize(1 << 20).WithNumVersionsToKeep(1).WithNumLevelZeroTables(1).WithMetricsEnabled(false).
			WithNumCompactors(0)) // The test itself starts each compaction.
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	// Close writes the content of the memory to a table.
	shut := func(db *badger.DB) {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	db := open()
	writeBadger(t, db, 1, func(txn *badger.Txn) error { return txn.Set([]byte("secret"), bytes.Repeat([]byte("x"), 4<<10)) })
	for n := range 40 {
		writeBadger(t, db, 2, func(txn *badger.Txn) error { return txn.Set([]byte{'k', byte(n)}, bytes.Repeat([]byte("y"), 64<<10)) })
	}
	shut(db)
	// Two tables are compacted, one is not.
	db = open()
	writeBadger(t, db, 3, func(txn *badger.Txn) error { return txn.Set([]byte("zero"), nil) })
	shut(db)
	db = open()
	if err := db.Flatten(1); err != nil {
		t.Fatal(err)
	}
	writeBadger(t, db, 9, func(txn *badger.Txn) error { return txn.Delete([]byte("secret")) })
	shut(db)
	info, err := os.Stat(filepath.Join(dir, "000001.vlog"))
	if err != nil {
		t.Fatal(err)
	}
	stats := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 1), uint64(info.Size()))
	discard, err := os.OpenFile(filepath.Join(dir, "DISCARD"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = discard.WriteAt(stats, 0)
	if err := errors.Join(err, discard.Close()); err != nil {
		t.Fatal(err)
	}
	db = open()
	t.Cleanup(func() { db.Close() })
	return db, dir
}

func writeBadger(t *testing.T, db *badger.DB, version uint64, change func(*badger.Txn) error) {
	t.Helper()
	txn := db.NewTransactionAt(math.MaxUint64, true)
	defer txn.Discard()
	if err := errors.Join(change(txn), txn.CommitAt(version, nil)); err != nil {
		t.Fatal(err)
	}
}

// isThere reports whether the removed value can be read.
func isThere(t *testing.T, db *badger.DB) bool {
	t.Helper()
	txn := db.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	_, err := txn.Get([]byte("secret"))
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// TestBadgerBringsBackWhatItMoves shows why the rule of CollectOne exists. Badger moves a value whose removal
// is above it in the tree. The value can be read again when the removal is compacted. If this test fails with
// a newer Badger, the rule may be removed.
func TestBadgerBringsBackWhatItMoves(t *testing.T) {
	t.Parallel()
	db, _ := aged(t)
	if err := db.RunValueLogGC(DeadRatio); err != nil {
		t.Fatal(err)
	}
	db.SetDiscardTs(10)
	if isThere(t, db) {
		t.Fatal("it is there before its removal was compacted")
	}
	if err := db.Flatten(1); err != nil {
		t.Fatal(err)
	}
	if !isThere(t, db) {
		t.Error("Badger keeps it removed: the rule of CollectOne is not needed any more")
	}
}

// TestWhatWasRemovedStaysRemoved: a value log is rewritten only when the tree has no large value below its
// removal. A removed value never comes back.
func TestWhatWasRemovedStaysRemoved(t *testing.T) {
	t.Parallel()
	db, dir := aged(t)
	none := func(bool) error { return nil }
	r := newReclaimer(reclaimConfig{Dir: dir, DB: db, Large: 1 << 10, Collecting: none})
	if err := r.CollectOne(t.Context()); !errors.Is(err, badger.ErrNoRewrite) || !r.shadowed {
		t.Fatalf("a log was rewritten over a removal: %v", err)
	}
	db.SetDiscardTs(10)
	if err := db.Flatten(1); err != nil {
		t.Fatal(err)
	}
	if err := r.CollectOne(t.Context()); err != nil || r.shadowed {
		t.Fatalf("nothing was collected after the compaction: %v", err)
	}
	if err := db.Flatten(1); err != nil || isThere(t, db) {
		t.Errorf("what was removed is there again: %v", err)
	}
}

// TestRemovalsWaitForWhatIsMoved: no caller removes rows while a value log is being rewritten.
func TestRemovalsWaitForWhatIsMoved(t *testing.T) {
	t.Parallel()
	db, dir := aged(t)
	db.SetDiscardTs(10)
	if err := db.Flatten(1); err != nil {
		t.Fatal(err)
	}
	moving, held := make(chan struct{}), make(chan struct{})
	r := newReclaimer(reclaimConfig{Dir: dir, DB: db, Large: 1 << 10, Collecting: func(now bool) error {
		if now {
			close(moving)
			select {
			case <-held:
				t.Error("rows are removed while values are moved")
			case <-time.After(50 * time.Millisecond):
			}
		}
		return nil
	}})
	go func() {
		<-moving
		defer r.Hold()()
		close(held)
	}()
	if err := r.CollectOne(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-held
}
