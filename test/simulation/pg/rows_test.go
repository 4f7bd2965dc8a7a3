package pg_test

import (
	"maps"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/test/simulation/pg"
)

// TestPartitions checks that partitions have owners of their own, as on a real server, that a heartbeat
// renews only the leases of its own node, and that a failover keeps all acknowledged data.
func TestPartitions(t *testing.T) {
	t.Parallel()
	const url, lease = "postgres://simulated/partitions", time.Hour
	server := pg.NewServer(url)
	t.Cleanup(func() { pg.Forget(url) })
	a, b := pg.Member{ID: "a", Address: "a:1", Parts: 1}, pg.Member{ID: "b", Address: "b:1", Parts: 1 << 2}
	var kept [2]pg.Epochs
	open := func(part int32, owner pg.Member, kept *pg.Epochs) *pg.DB {
		db, err := pg.Open(pg.Config{
			URL: dsn.Parse(url), Part: part, Owner: owner.ID + ".1", Address: owner.Address, RenewedEpoch: &kept[part], Lease: lease / 2,
			Timeouts: pg.Timeouts{Statement: time.Second, Read: time.Second, GracePeriod: time.Second, CloseTimeout: time.Second}, Unread: func(err error) error { return err },
		})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	place := func(want map[string]int32, names ...string) {
		t.Helper()
		at, err := server.Place("a:1", names, func(name string) []byte { return []byte("n" + name) })
		if err != nil || !maps.Equal(at, want) {
			t.Errorf("%v, %v; want %v", at, err, want)
		}
	}
	first, second := open(0, a, &kept[0]), open(2, b, &kept[1])
	kvtest.Commit(t, first, map[string][]byte{"nold": []byte("1")})
	kvtest.Commit(t, second, map[string][]byte{"nother": []byte("2")})
	place(map[string]int32{"default": 0, "old": 0, "other": 1}, "default", "old", "other")
	server.Failover()
	place(map[string]int32{"other": 1, "more": 2}, "other", "more")
	if first.LastKey() != 1 || second.LastKey() != 1 {
		t.Errorf("groups %d and %d", first.LastKey(), second.LastKey())
	}
	seen, err := server.Heartbeat(a, &kept[0], lease)
	if err != nil || len(seen.Parts) != 3 {
		t.Fatalf("%v, %v", seen, err)
	}
	a.New, b.New = true, true // they came less than this lease ago
	for i, want := range []pg.Member{a, {}, {ID: "b", Address: "b:1"}} {
		p := seen.Parts[i]
		if renewed := p.Lease > lease/2; p.ID != int32(i) || p.Owner != want || renewed != (i == 0) {
			t.Errorf("%v, want the owner %v", p, want)
		}
	}
	if seen, err = server.Heartbeat(b, &kept[1], lease); err != nil || seen.Parts[2].Owner != b || seen.Parts[2].Lease != lease {
		t.Errorf("%v, %v", seen, err)
	}
	for _, db := range []*pg.DB{first, second} {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
