package badgerengine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// fakeDB has tables of a test's choice.
type fakeDB struct {
	tables    []badger.TableInfo
	log       int64
	flattened int
}

func (d *fakeDB) Tables() []badger.TableInfo    { return d.tables }
func (d *fakeDB) Size() (lsm, log int64)        { return 0, d.log }
func (d *fakeDB) RunValueLogGC(_ float64) error { return badger.ErrNoRewrite }

// NewTransactionAt is asked for only where there is something to collect.
func (d *fakeDB) NewTransactionAt(uint64, bool) *badger.Txn { return nil }

func (d *fakeDB) Flatten(_ int) error { d.flattened++; return nil }

func table(level int, size uint32, version uint64) badger.TableInfo {
	return badger.TableInfo{Level: level, OnDiskSize: size, MaxVersion: version}
}

// TestCompactsWhenItIsWorthIt: tables are compacted once what was removed is in them, is
// much, and there is room; and once only.
func TestCompactsWhenItIsWorthIt(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	both := []badger.TableInfo{table(0, mib, 100), table(6, 50*mib, 80)}
	for name, c := range map[string]struct {
		tables  []badger.TableInfo
		log     int64
		removed int64
		synced  uint64
		full    bool
		before  bool
		broken  error
		want    int
	}{
		"worth it":                     {tables: both, removed: 8 * mib, synced: 90, want: 1},
		"in memory alone":              {tables: both, removed: 8 * mib, synced: 101},
		"too little":                   {tables: both, removed: 8*mib - 1, synced: 90},
		"a small part of a large one":  {tables: both, log: 1 << 30, removed: 50 * mib, synced: 90},
		"one level":                    {tables: both[1:], removed: 20 * mib, synced: 70},
		"a tree that is too large":     {tables: append([]badger.TableInfo{table(5, 1<<30, 1)}, both...), removed: 1 << 30, synced: 90},
		"no room to write":             {tables: both, removed: 8 * mib, synced: 90, full: true},
		"nothing removed":              {tables: both, synced: 90},
		"by the process before":        {tables: both, synced: 90, before: true, want: 1},
		"before, and all in one level": {tables: both[1:], synced: 90, before: true},
		"a damaged table":              {tables: both, removed: 8 * mib, synced: 90, broken: errors.New("damaged")},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "DISCARD"), make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		db := &fakeDB{tables: c.tables, log: c.log}
		r := newReclaimer(reclaimConfig{
			Dir: dir, DB: db, Before: c.before, Synced: func() uint64 { return c.synced }, Fits: func(n int64) bool { return !c.full || n == 0 },
			Scrub: func(context.Context) error { return c.broken }, Collecting: func(bool) error { return nil },
		})
		r.Removed(c.removed)
		for range 2 {
			if err := r.Reclaim(context.Background()); !errors.Is(err, c.broken) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if db.flattened != c.want {
			t.Errorf("%s: compacted %d times, want %d", name, db.flattened, c.want)
		}
	}
}

// TestWhatWasTooLittleAddsUp: removals that are not worth it by themselves are together.
func TestWhatWasTooLittleAddsUp(t *testing.T) {
	t.Parallel()
	db := &fakeDB{tables: []badger.TableInfo{table(0, 1, 0), table(6, 1, 0)}}
	version := uint64(0)
	r := newReclaimer(reclaimConfig{
		DB: db, Synced: func() uint64 { return version }, Fits: func(int64) bool { return true },
		Scrub: func(context.Context) error { return nil },
	})
	for n := range 5 {
		version++
		r.Removed(minRemovedBytes / 2)
		db.tables[0].MaxVersion = version
		if err := r.compact(context.Background()); err != nil || db.flattened != (n+1)/2 {
			t.Fatalf("removal %d: compacted %d times, %v", n+1, db.flattened, err)
		}
	}
}
