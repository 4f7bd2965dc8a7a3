package members_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/internal/store/pg/members"
	"github.com/pawl-dev/pawl/internal/store/pg/preflight"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

func (n *node) place(t *testing.T, names ...string) map[string]int32 {
	t.Helper()
	at, err := n.rows.Place(t.Context(), names, layout.NamespaceKey)
	if err != nil {
		t.Error(err)
	}
	return at
}

func mustPlace(t *testing.T, n *node, want map[string]int32) {
	t.Helper()
	if at := n.place(t, slices.Sorted(maps.Keys(want))...); !maps.Equal(at, want) {
		t.Errorf("%v, want %v", at, want)
	}
}

// TestSpread: a namespace with a place keeps it. A new namespace gets one of the partitions with the fewest
// namespaces, the one with the lowest number.
func TestSpread(t *testing.T) {
	t.Parallel()
	stored := func(name string) bool { return name == "kept" }
	placed := map[string]int32{"a": 2, "b": 1, "z": 63, "default": 0}
	at := members.Assign(placed, []string{"default", "a", "new", "kept", "more", "new", "more"}, stored)
	if want := map[string]int32{"default": 0, "a": 2, "new": 3, "kept": 0, "more": 4}; !maps.Equal(at, want) {
		t.Errorf("%v, want %v", at, want)
	}
	if at = members.Assign(nil, []string{"default"}, stored); !maps.Equal(at, map[string]int32{"default": 0}) {
		t.Errorf("%v", at)
	}
}

// TestNamespacesArePlaced: the place of a namespace never changes and is the same for all nodes. The
// partitions can be taken.
func TestNamespacesArePlaced(t *testing.T) {
	onEachWay(t, func(t *testing.T, url string) {
		a, b := start(t, url, "a"), start(t, url, "b")
		mustPlace(t, a, nil)
		for range 2 {
			mustPlace(t, a, map[string]int32{"default": 0, "x": 1, "y": 2})
			mustPlace(t, b, map[string]int32{"default": 0, "y": 2, "z": 3})
		}
		mustPlace(t, b, map[string]int32{"x": 1})
		v := b.beat(t)
		for i, p := range v.Parts {
			if len(v.Parts) != 4 || p != (members.Partition{ID: int32(i), Format: layout.OldestFormat}) {
				t.Errorf("%v", v.Parts)
			}
		}
		db := mustTake(t, b, 2)
		kvtest.Commit(t, db, map[string][]byte{"a": []byte("1")})
		mustClose(t, db)
	})
}

// TestManyPlaceAtOnce: nodes that place namespaces at the same time choose different partitions for different
// namespaces.
func TestManyPlaceAtOnce(t *testing.T) {
	onEachWay(t, func(t *testing.T, url string) {
		all := make([]map[string]int32, 6)
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() {
				n := start(t, url, string(rune('a'+i)))
				all[i] = n.place(t, "default", "shared", fmt.Sprint("own of ", i))
			})
		}
		wg.Wait()
		has := map[int32]string{}
		for i, at := range all {
			if at["default"] != 0 || at["shared"] != all[0]["shared"] || len(at) != 3 {
				t.Errorf("%d: %v", i, at)
			}
			for name, part := range at {
				if other, taken := has[part]; taken && other != name {
					t.Errorf("%q and %q are both in partition %d", name, other, part)
				}
				has[part] = name
			}
		}
		if len(has) != 8 {
			t.Errorf("%v", has)
		}
	})
}

// TestWhoPlacesIsWaitedFor: a node waits for another node that is placing namespaces, and keeps the places
// that this node has chosen.
func TestWhoPlacesIsWaitedFor(t *testing.T) {
	t.Parallel()
	url := pgserver.Database(t)
	a := start(t, url, "a")
	database, _, _ := strings.Cut(url[strings.LastIndex(url, "/")+1:], "?")
	talk := a.via.SerialConn()
	defer talk.Close()
	placed := make(chan map[string]int32, 1)
	err := talk.Do(lease, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(t.Context(), "BEGIN; INSERT INTO pawl.namespace VALUES ('theirs', 1), ('y', 2)", pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		go func() { placed <- a.place(t, "x", "y") }()
		pgserver.Shared(t).Await(t, database, "SELECT count(*) = 1 FROM pg_locks WHERE NOT granted AND relation = 'pawl.namespace'::regclass")
		_, err := conn.Exec(t.Context(), "COMMIT", pgx.QueryExecModeSimpleProtocol)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if at := <-placed; !maps.Equal(at, map[string]int32{"x": 3, "y": 2}) {
		t.Errorf("%v", at)
	}
}

// TestNamespacesOfOneThatWasAlone: namespaces in the store of a single sidecar stay in partition 0.
func TestNamespacesOfOneThatWasAlone(t *testing.T) {
	onEachWay(t, func(t *testing.T, url string) {
		a := start(t, url, "a")
		db := mustTake(t, a)
		kvtest.Commit(t, db, map[string][]byte{string(layout.NamespaceKey("old")): []byte("1")})
		mustClose(t, db)
		execSQL(t, a, fmt.Sprintf("INSERT INTO pawl.hot VALUES (0, '\\x%x', '1', 1)", layout.NamespaceKey("older")))
		execSQL(t, a, fmt.Sprintf("INSERT INTO pawl.cold VALUES (5, '\\x%x', '1', 1)", layout.NamespaceKey("new")))
		mustPlace(t, a, map[string]int32{"default": 0, "new": 1, "newer": 2, "ol": 3, "old": 0, "older": 0})
	})
}

// TestManyNamespacesAreSpread: many namespaces are distributed evenly over the partitions, and keep their
// places.
func TestManyNamespacesAreSpread(t *testing.T) {
	t.Parallel()
	url := pgserver.Database(t)
	a := start(t, url, "a")
	names := []string{"default"}
	for i := range 70 {
		names = append(names, fmt.Sprintf("n%02d", i))
	}
	first := a.place(t, names[:40]...)
	at := a.place(t, names...)
	counts := map[int32]int{}
	for name, part := range at {
		counts[part]++
		if was, known := first[name]; known && was != part {
			t.Errorf("%q went from %d to %d", name, was, part)
		}
	}
	for part := range int32(pg.Partitions) {
		want := 1
		if 1 <= part && part <= 7 {
			want = 2
		}
		if counts[part] != want {
			t.Errorf("partition %d has %d, want %d", part, counts[part], want)
		}
	}
	if v := a.beat(t); len(v.Parts) != pg.Partitions {
		t.Errorf("%d partitions", len(v.Parts))
	}
	if shared, err := a.via.SharedPartitions(t.Context()); err != nil || len(shared) != pg.Partitions-1 || shared[0] != 1 || shared[62] != 63 {
		t.Errorf("%v, %v", shared, err)
	}
}

// TestPartitionsBeginInTheFormatOfTheFirst: a new partition has the format of the first partition, which a
// living node may have raised.
func TestPartitionsBeginInTheFormatOfTheFirst(t *testing.T) {
	t.Parallel()
	url := pgserver.Database(t)
	a := start(t, url, "a")
	a.place(t, "x")
	execSQL(t, a, "INSERT INTO pawl.part (id, format) VALUES (0, 7)")
	a.place(t, "x", "y")
	for id, format := range []uint32{7, layout.OldestFormat, 7} {
		if p := part(a.beat(t), int32(id)); p.Format != format {
			t.Errorf("partition %d begins in format %d, want %d", id, p.Format, format)
		}
	}
}

// TestAPlaceThatThereIsNot: a namespace in a partition that cannot exist is refused.
func TestAPlaceThatThereIsNot(t *testing.T) {
	t.Parallel()
	a := start(t, pgserver.Database(t), "a")
	execSQL(t, a, "INSERT INTO pawl.namespace VALUES ('far', 64)")
	if at, err := a.rows.Place(t.Context(), []string{"x"}, layout.NamespaceKey); !isError[*preflight.Error](err) || at != nil || !strings.Contains(err.Error(), `"far" is in partition 64`) {
		t.Errorf("%v, %v", at, err)
	}
}

// TestAPlaceThatOneMachineHas: the wait for a standby is cancelled, and PostgreSQL answers with success. The
// place does not count yet. A caller that asks again also waits for a standby, although the rows exist.
func TestAPlaceThatOneMachineHas(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t)
	server.Query(t, "postgres", "ALTER ROLE CURRENT_USER SET client_min_messages = error")
	a := start(t, server.URL("postgres"), "a")
	server.Set(t, map[string]string{"synchronous_standby_names": "nobody"})
	placed := make(chan map[string]int32, 1)
	go func() { placed <- a.place(t, "x") }()
	const inSync = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'pawl'"
	server.Await(t, "postgres", "SELECT count(*) = 1 "+inSync)
	first := server.Query(t, "postgres", "SELECT pid "+inSync)
	server.Query(t, "postgres", "SELECT pg_cancel_backend("+first+")")
	server.Await(t, "postgres", "SELECT count(*) = 1 "+inSync+" AND pid <> "+first)
	if n := server.Query(t, "postgres", "SELECT count(*) FROM pawl.namespace"); n != "1" {
		t.Errorf("others see %s rows", n)
	}
	select {
	case at := <-placed:
		t.Errorf("no standby has it: %v", at)
	default:
	}
	server.Set(t, map[string]string{"synchronous_standby_names": ""})
	if at := <-placed; !maps.Equal(at, map[string]int32{"x": 1}) {
		t.Errorf("%v", at)
	}
}
