package pg_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/keyring/keyringtest"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
	"github.com/pawl-dev/pawl/internal/store/memkv"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

func nameOf(raw string) string {
	name, _, _ := strings.Cut(raw[strings.LastIndex(raw, "/")+1:], "?")
	return name
}

func query(t *testing.T, raw, sql string) string {
	t.Helper()
	return pgserver.Shared(t).Query(t, nameOf(raw), sql)
}

// source is an engine with pairs of every kind, some of many groups, and a ring with keys.
func source(t *testing.T) (kv.KV, *keyring.Ring) {
	t.Helper()
	db := memkv.New()
	for n := range 40 {
		pairs := map[string][]byte{}
		for kind := range 60 {
			pairs[fmt.Sprintf("%c%03d", kind, n/(kind%3+1))] = []byte(strings.Repeat("v", n*kind))
		}
		kvtest.Commit(t, db, pairs)
	}
	ring, err := keyring.On(&keyringtest.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ring.Begin(); err != nil {
		t.Fatal(err)
	}
	for range 70 {
		if _, err := ring.Take(); err != nil {
			t.Fatal(err)
		}
	}
	if err := ring.Destroy(5, 7); err != nil {
		t.Fatal(err)
	}
	return db, ring
}

func loadInto(ring *keyring.Ring) func(*pg.LoadedKeys) error {
	return func(k *pg.LoadedKeys) error { return ring.CopyToMedium(k, nil) }
}

// TestLoad stores everything in one step: broken off before there is nothing, and another load
// may follow.
func TestLoad(t *testing.T) {
	t.Parallel()
	raw := pgserver.Database(t)
	from, ring := source(t)
	broken := errors.New("broken off")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for name, load := range map[string]func(db *pg.DB) error{
		"at its beginning": func(db *pg.DB) error { return db.Load(ended, from, loadInto(ring)) },
		"behind the pairs": func(db *pg.DB) error {
			return db.Load(context.Background(), from, func(*pg.LoadedKeys) error { return broken })
		},
		"behind the keys": func(db *pg.DB) error {
			return db.Load(context.Background(), from, func(k *pg.LoadedKeys) error { return errors.Join(ring.CopyToMedium(k, nil), broken) })
		},
		"with its session": func(db *pg.DB) error {
			return db.Load(context.Background(), from, func(k *pg.LoadedKeys) error {
				err := ring.CopyToMedium(k, nil)
				query(t, raw, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'idle in transaction'")
				return err
			})
		},
		"by another owner": func(db *pg.DB) error {
			return db.Load(context.Background(), from, func(k *pg.LoadedKeys) error {
				query(t, raw, "UPDATE pawl.part SET owner = 'another', epoch = epoch + 1")
				return ring.CopyToMedium(k, nil)
			})
		},
	} {
		db, err := pg.Open(configOf(t, raw, "mover"))
		if err != nil {
			t.Fatal(err)
		}
		if err := load(db); err == nil {
			t.Errorf("%s: it went on", name)
		}
		query(t, raw, "UPDATE pawl.part SET owner = '', lease_until = '-infinity'")
		if left := query(t, raw, "SELECT (SELECT count(*) FROM pawl.hot) + (SELECT count(*) FROM pawl.cold) + (SELECT count(*) FROM pawl.run_keys) + (SELECT commit_no FROM pawl.part)"); left != "0" {
			t.Errorf("%s: it left %s", name, left)
		}
	}
	db, err := pg.Open(configOf(t, raw, "mover"))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Load(context.Background(), from, loadInto(ring)); err != nil {
		t.Fatal(err)
	}
	loaded := open(t, configOf(t, raw, "first"))
	if loaded.LastKey() != from.LastKey() {
		t.Errorf("it ends with group %d, want %d", loaded.LastKey(), from.LastKey())
	}
	if got, want := pairsWithGroups(t, loaded), pairsWithGroups(t, from); !maps.Equal(got, want) {
		t.Errorf("%d pairs, want %d", len(got), len(want))
	}
	pages, err := hex.DecodeString(query(t, raw, "SELECT encode(string_agg(bytes, ''::bytea ORDER BY page), 'hex') FROM pawl.run_keys"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := keyring.On(keyringtest.NewMemoryWith(pages), nil)
	if err != nil {
		t.Fatal(err)
	}
	keyringtest.CheckSame(t, got, ring)
	kvtest.Commit(t, loaded, map[string][]byte{"a": nil})
}

// TestLoadWhereThereIsAStore is refused.
func TestLoadWhereThereIsAStore(t *testing.T) {
	t.Parallel()
	raw := pgserver.Database(t)
	from, ring := source(t)
	db, err := pg.Open(configOf(t, raw, "first"))
	if err != nil {
		t.Fatal(err)
	}
	kvtest.Commit(t, db, map[string][]byte{"a": []byte("1")})
	if err := db.Load(context.Background(), from, loadInto(ring)); !errors.Is(err, pg.ErrNotEmpty) {
		t.Errorf("%v", err)
	}
}

// TestLoadOfLongKeys: a key that no index takes is named.
func TestLoadOfLongKeys(t *testing.T) {
	t.Parallel()
	from := memkv.New()
	kvtest.Commit(t, from, map[string][]byte{strings.Repeat("k", 2601): []byte("v")})
	db, err := pg.Open(configOf(t, pgserver.Database(t), "first"))
	if err != nil {
		t.Fatal(err)
	}
	err = db.Load(context.Background(), from, func(*pg.LoadedKeys) error { return nil })
	if long, ok := errors.AsType[*pg.KeyError](err); !ok || len(long.Key) != 2601 || long.Limit != 2600 {
		t.Errorf("%v", err)
	}
}

// pairsWithGroups are all pairs, each with its group.
func pairsWithGroups(t *testing.T, e kv.KV) map[string]string {
	t.Helper()
	pairs := map[string]string{}
	view := kv.On(e.View(e.LastKey()))
	defer view.Close()
	it := view.Scan(kv.Range{})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		value, err := it.ValueCopy()
		if err != nil {
			t.Fatal(err)
		}
		pairs[string(it.Key())] = fmt.Sprint(it.Group(), " ", string(value))
	}
	if err := view.Err(); err != nil {
		t.Fatal(err)
	}
	return pairs
}
