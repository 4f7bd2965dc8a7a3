package pg_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// TestPartitionsThatThereAre are numbered 0 to 63.
func TestPartitionsThatThereAre(t *testing.T) {
	t.Parallel()
	raw := pgserver.Database(t)
	for _, part := range []int32{-1, pg.Partitions} {
		cfg := configOf(t, raw, "first")
		cfg.Part = part
		if _, err := pg.Open(cfg); err == nil || !strings.Contains(err.Error(), "want 0 to 63") {
			t.Errorf("%d: %v", part, err)
		}
	}
}

// TestPartitionsAreStores of their own, which one process has over one pool: pairs, groups, epochs
// and keys of runs; the end of one is none of the others.
func TestPartitionsAreStores(t *testing.T) {
	t.Parallel()
	raw := pgserver.Database(t)
	via, err := pg.Connect(t.Context(), configOf(t, raw, "first"))
	if err != nil {
		t.Fatal(err)
	}
	defer via.Close()
	taken := func(part int32, owner string) *pg.DB {
		cfg := configOf(t, raw, owner)
		cfg.Part, cfg.Pool = part, via
		db, err := pg.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	dbs := map[int32]*pg.DB{0: taken(0, "first"), 5: taken(5, "second"), 63: taken(63, "third")}
	want := map[int32]map[string]string{}
	for part, db := range dbs {
		want[part] = map[string]string{}
		for n := range part + 1 {
			value := string('a' + n)
			kvtest.Commit(t, db, map[string][]byte{"a": []byte(value)})
			want[part]["a"] = value
		}
		if db.LastKey() != uint64(part+1) {
			t.Errorf("partition %d is at group %d", part, db.LastKey())
		}
		mustKeepKeys(t, db)
	}
	if err := dbs[5].Close(); err != nil {
		t.Fatal(err)
	}
	dbs[5] = taken(5, "fourth")
	for part, db := range dbs {
		mustShow(t, db, want[part])
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	if parts, err := via.Parts(t.Context()); err != nil || !slices.Equal(parts, slices.Sorted(maps.Keys(dbs))) {
		t.Errorf("%v, %v", parts, err)
	}
}

// mustKeepKeys: the partition has no keys of runs but its own.
func mustKeepKeys(t *testing.T, db *pg.DB) {
	t.Helper()
	medium := db.Keys(nil)
	if size, there, err := medium.Size(); size != 0 || there || err != nil {
		t.Errorf("%d, %v, %v", size, there, err)
	}
	ring, err := keyring.On(medium, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(ring.Begin(), ring.Close()); err != nil {
		t.Error(err)
	}
}

// TestShared: who serves alone sees what others would have to serve.
func TestShared(t *testing.T) {
	t.Parallel()
	w := newWay(t, pgserver.Shared(t))
	via, err := pg.Connect(t.Context(), w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer via.Close()
	must := func(when string, shared, parts []int32) {
		t.Helper()
		if got, err := via.SharedPartitions(t.Context()); err != nil || !slices.Equal(got, shared) {
			t.Errorf("%s: shared are %v, %v; want %v", when, got, err, shared)
		}
		if got, err := via.Parts(t.Context()); err != nil || !slices.Equal(got, parts) {
			t.Errorf("%s: partitions are %v, %v; want %v", when, got, err, parts)
		}
	}
	must("there is nothing", nil, nil)
	kvtest.Commit(t, open(t, w.cfg), map[string][]byte{"a": []byte("1")})
	w.query(t, "INSERT INTO pawl.namespace VALUES ('default', 0), ('old', 0)")
	must("one store", nil, []int32{0})
	w.cfg.Part = 9
	db := open(t, w.cfg)
	must("a partition that has nothing", nil, []int32{0})
	kvtest.Commit(t, db, map[string][]byte{"a": []byte("1")})
	w.query(t, "INSERT INTO pawl.namespace VALUES ('x', 9), ('y', 4), ('z', 4)")
	must("two stores", []int32{4, 9}, []int32{0, 9})
	if got, err := db.SharedPartitions(t.Context()); err != nil || !slices.Equal(got, []int32{4, 9}) {
		t.Errorf("whoever has one of them sees %v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := via.SharedPartitions(ctx); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), pgserver.Password) {
		t.Errorf("%v", err)
	}
	if _, err := via.Parts(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestWhoServesAloneWaitsForPlacements that are under way.
func TestWhoServesAloneWaitsForPlacements(t *testing.T) {
	t.Parallel()
	w := newWay(t, pgserver.Shared(t))
	via, err := pg.Connect(t.Context(), w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer via.Close()
	placing, err := pgx.Connect(t.Context(), w.server.URL(w.name))
	if err != nil {
		t.Fatal(err)
	}
	defer placing.Close(t.Context())
	if _, err := placing.Exec(t.Context(), "BEGIN; INSERT INTO pawl.namespace VALUES ('x', 1)"); err != nil {
		t.Fatal(err)
	}
	shared := make(chan []int32, 1)
	go func() {
		got, err := via.SharedPartitions(t.Context())
		if err != nil {
			t.Error(err)
		}
		shared <- got
	}()
	w.server.Await(t, w.name, "SELECT count(*) = 1 FROM pg_locks WHERE NOT granted AND relation = 'pawl.namespace'::regclass")
	if _, err := placing.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if got := <-shared; !slices.Equal(got, []int32{1}) {
		t.Errorf("%v", got)
	}
}
