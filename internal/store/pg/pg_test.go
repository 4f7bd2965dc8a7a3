package pg_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/store/fencing"
	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/keyring/keyringtest"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

func TestMain(m *testing.M) { pgserver.Main(m) }

// configOf returns the configuration of an owner of the database at a URL.
func configOf(t *testing.T, raw, owner string) pg.Config {
	t.Helper()
	return pg.Config{
		URL: dsn.Parse(raw), Owner: owner, Address: owner + ":1", Readers: 4,
		Hot: func(kind byte) bool { return kind%2 == 0 },
	}
}

func open(t *testing.T, cfg pg.Config) *pg.DB {
	t.Helper()
	db, err := pg.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestContract(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, func(t *testing.T) kv.KV { return open(t, configOf(t, pgserver.Database(t), "first")) })
}

// TestContractThroughAPooler: the contract of kv.KV holds without named statements and without settings of a
// session.
func TestContractThroughAPooler(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, func(t *testing.T) kv.KV {
		return open(t, configOf(t, pgserver.Database(t)+"&default_query_exec_mode=cache_describe", "first"))
	})
}

// TestManyNodesMakeTheSchema: several nodes create the schema at the same time. Each of them starts, with a
// partition of its own.
func TestManyNodesMakeTheSchema(t *testing.T) {
	t.Parallel()
	raw := pgserver.Database(t)
	var wg sync.WaitGroup
	for n := range int32(6) {
		cfg := configOf(t, raw, fmt.Sprint("node ", n))
		cfg.Part = n
		wg.Go(func() {
			db, err := pg.Open(cfg)
			if err != nil {
				t.Error(err)
				return
			}
			kvtest.Commit(t, db, map[string][]byte{"a": []byte(cfg.Owner)})
			if got := kvtest.Pairs(t, kv.On(db.View(1))); !maps.Equal(got, map[string]string{"a": cfg.Owner}) {
				t.Errorf("%s reads %q", cfg.Owner, got)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func mustBeNewer(t *testing.T, err error) {
	t.Helper()
	if newer, ok := errors.AsType[*pg.SchemaError](err); !ok || newer.Found != 99 || newer.Schema != "pawl" {
		t.Errorf("%v", err)
	}
}

// TestNewerSchemaIsRefused: a newer schema is refused with an error that has its version.
func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	raw := pgserver.Database(t)
	cfg := configOf(t, raw, "first")
	db, err := pg.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	via, err := pg.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer via.Close()
	name := raw[strings.LastIndex(raw, "/")+1:]
	name, _, _ = strings.Cut(name, "?")
	pgserver.Shared(t).Query(t, name, "INSERT INTO pawl.schema_version (version_id, is_applied) VALUES (99, true); UPDATE pawl.schema_oldest SET version = 99")
	_, err = pg.Open(cfg)
	mustBeNewer(t, err)
	// A waiting node has connected to the database before the schema changed.
	cfg.Pool = via
	_, err = pg.Open(cfg)
	mustBeNewer(t, err)
}

// TestOneOwner: a second owner waits for the end of the lease, and is refused when the first owner renews it.
// The first owner continues.
func TestOneOwner(t *testing.T) {
	t.Parallel()
	raw := pgserver.Database(t)
	first := open(t, configOf(t, raw, "first"))
	kvtest.Commit(t, first, map[string][]byte{"a": []byte("1")})
	_, err := pg.Open(configOf(t, raw, "second"))
	if held, ok := errors.AsType[*fencing.HeldError](err); !ok || held.Owner != "first" || held.Address != "first:1" {
		t.Fatalf("%v", err)
	}
	kvtest.Commit(t, first, map[string][]byte{"a": []byte("2")})
}

// TestReleaseLetsTheNextIn: after a release, the next owner can take the partition at once, for any length of
// the lease.
func TestReleaseLetsTheNextIn(t *testing.T) {
	t.Parallel()
	raw := pgserver.Database(t)
	cfg := configOf(t, raw, "first")
	cfg.Lease = time.Hour
	first, err := pg.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	last := kvtest.Commit(t, first, map[string][]byte{"a": []byte("1")})
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(t, configOf(t, raw, "second"))
	if second.LastKey() != last {
		t.Errorf("group %d, want %d", second.LastKey(), last)
	}
}

// TestKeysOfRuns: the keys of runs in the database satisfy the contract of all media for keys.
func TestKeysOfRuns(t *testing.T) {
	t.Parallel()
	db := open(t, configOf(t, pgserver.Database(t), "first"))
	keyringtest.Run(t, func(*testing.T) keyring.Medium { return db.Keys(nil) })
}

// TestReadersWaitForTheAcknowledgement: a session sees a group that the database has not acknowledged to the
// owner. Readers wait for the acknowledgement, and then get an error instead of the values.
func TestReadersWaitForTheAcknowledgement(t *testing.T) {
	t.Parallel()
	raw := pgserver.Database(t)
	cfg := configOf(t, raw, "first")
	cfg.Timeouts.Read, cfg.Lease = time.Second, time.Hour
	db := open(t, cfg)
	kvtest.Commit(t, db, map[string][]byte{"a": []byte("1")})
	name, _, _ := strings.Cut(raw[strings.LastIndex(raw, "/")+1:], "?")
	pgserver.Shared(t).Query(t, name, "UPDATE pawl.part SET commit_no = 2")
	for _, view := range []kv.View{kv.On(db.View(1)), kv.On(db.View(1))} {
		if value, err := view.Get([]byte("a")); err == nil || !strings.Contains(err.Error(), "group 2") || view.Err() == nil {
			t.Errorf("%q, %v", value, err)
		}
		view.Close()
	}
	if held, err := db.Hold(1); err == nil || !strings.Contains(err.Error(), "group 2") {
		t.Errorf("%v, %v", held, err)
	}
	pgserver.Shared(t).Query(t, name, "UPDATE pawl.part SET commit_no = 1")
	view := kv.On(db.View(1))
	defer view.Close()
	if value, err := view.Get([]byte("a")); string(value) != "1" || err != nil {
		t.Errorf("%q, %v", value, err)
	}
}
