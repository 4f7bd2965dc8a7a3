package members_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/store/fencing"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/internal/store/pg/members"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// mustRenew checks which of the shortened leases were renewed.
func mustRenew(t *testing.T, v members.View, want map[int32]bool) {
	t.Helper()
	for id, renewed := range want {
		if left := part(v, id).Lease; (left > lease/2) != renewed {
			t.Errorf("partition %d has %v left, renewed: want %v", id, left, renewed)
		}
	}
}

func mustClose(t *testing.T, dbs ...*pg.DB) {
	t.Helper()
	for _, db := range dbs {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPartitions: a view has all partitions with their owners, in the order of their numbers. Each partition
// is released separately.
func TestPartitions(t *testing.T) {
	onEachWay(t, func(t *testing.T, url string) {
		a, b := start(t, url, "a"), start(t, url, "b")
		b.Parts = 1<<5 | 1<<7
		if v := a.beat(t); len(v.Parts) != 0 {
			t.Errorf("%v", v.Parts)
		}
		b.beat(t)
		last, none, mid, first := mustTake(t, a, 63), mustTake(t, b, 7), mustTake(t, b, 5), mustTake(t, a, 0)
		mustClose(t, none)
		kvtest.Commit(t, last, map[string][]byte{"a": []byte("1")})
		execSQL(t, a, "UPDATE pawl.part SET format = 10 + id")
		for _, n := range []*node{a, b} {
			v := n.beat(t)
			if !slices.Equal(v.Nodes, []members.Node{a.Node, b.Node}) {
				t.Errorf("%v", v.Nodes)
			}
			for i, id := range []int32{0, 5, 7, 63} {
				if len(v.Parts) != 4 || v.Parts[i].ID != id || v.Parts[i].Format != uint32(10+id) || v.Parts[i].NonEmpty != (id == 63) {
					t.Fatalf("%v", v.Parts)
				}
			}
			mustHave(t, v, 0, a.Node)
			mustHave(t, v, 5, b.Node)
			mustHave(t, v, 7, members.Node{})
			mustHave(t, v, 63, a.Node)
		}
		mustClose(t, last)
		v := b.beat(t)
		mustHave(t, v, 0, a.Node)
		mustHave(t, v, 63, members.Node{})
		mustClose(t, first, mid)
	})
}

// TestABeatRenewsItsOwn: a heartbeat renews only the leases of its own node.
func TestABeatRenewsItsOwn(t *testing.T) {
	onEachWay(t, func(t *testing.T, url string) {
		a, b := start(t, url, "a"), start(t, url, "b")
		dbs := []*pg.DB{mustTake(t, a), mustTake(t, b, 5), mustTake(t, a, 63)}
		age(t, a, "part")
		mustRenew(t, a.beat(t), map[int32]bool{0: true, 5: false, 63: true})
		mustRenew(t, b.beat(t), map[int32]bool{0: true, 5: true, 63: true})
		for i, n := range []*node{a, b, a} {
			kvtest.Commit(t, dbs[i], map[string][]byte{"a": []byte(n.ID)})
		}
		mustClose(t, dbs...)
	})
}

// TestOneEpochIsOutdated: a heartbeat does not renew the lease of a partition with another epoch, and renews
// the others. Each partition has its own epoch.
func TestOneEpochIsOutdated(t *testing.T) {
	t.Parallel()
	url := pgserver.Database(t)
	a, b := start(t, url, "a"), start(t, url, "b")
	mustClose(t, mustTake(t, a, 5), mustTake(t, a, 63))
	dbs := []*pg.DB{mustTake(t, a), mustTake(t, a, 5), mustTake(t, a, 63)}
	for name, set := range map[string]func(){
		"in doubt":        func() { a.renewedEpochs[5].Store(0) },
		"older":           func() { a.renewedEpochs[5].Store(1) }, // the epoch of partition 0; partition 63 has the same epoch as partition 5
		"newer":           func() { a.renewedEpochs[5].Store(3) },
		"of another node": func() { execSQL(t, a, "UPDATE pawl.part SET owner = 'b.5' WHERE id = 5") },
	} {
		a.renewedEpochs[5].Store(2)
		a.beat(t)
		set()
		age(t, a, "part")
		v := a.beat(t)
		mustRenew(t, v, map[int32]bool{0: true, 5: false, 63: true})
		if p := part(v, 5); p.Lease == 0 || (p.Owner.ID == "b") != (name == "of another node") {
			t.Errorf("%s: %v", name, p)
		}
		execSQL(t, a, "UPDATE pawl.part SET owner = 'a.5' WHERE id = 5")
	}
	// Another node takes the partition, and the old owner does not know it yet.
	epoch := a.renewedEpochs[5].Load()
	age(t, a, "part")
	age(t, a, "part")
	other := mustTake(t, b, 5)
	a.renewedEpochs[5].Store(epoch)
	v := a.beat(t)
	mustHave(t, v, 5, members.Node{ID: "b", Address: b.Address})
	mustRenew(t, v, map[int32]bool{0: true, 5: true, 63: true})
	mustClose(t, append(dbs, other)...)
}

// TestTheClockIsPutBackForAll: after the clock was set back, the first heartbeat of any node shortens all
// leases. All nodes may send heartbeats at the same time.
func TestTheClockIsPutBackForAll(t *testing.T) {
	t.Parallel()
	url := pgserver.Database(t)
	nodes := []*node{start(t, url, "a"), start(t, url, "b"), start(t, url, "c")}
	var dbs []*pg.DB
	for id := range int32(12) {
		dbs = append(dbs, mustTake(t, nodes[id%2], id))
	}
	for range 10 {
		execSQL(t, nodes[0], "UPDATE pawl.part SET lease_until = lease_until + interval '1 h'")
		var all sync.WaitGroup
		for _, n := range nodes {
			all.Go(func() {
				if _, err := n.rows.Heartbeat(t.Context(), n.Node); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	execSQL(t, nodes[0], "UPDATE pawl.part SET lease_until = lease_until + interval '1 h'")
	v := nodes[2].beat(t) // this node owns no partition
	for id := range int32(12) {
		mustHave(t, v, id, nodes[id%2].Node)
		if _, err := nodes[2].take(id); !isError[*fencing.HeldError](err) {
			t.Errorf("partition %d: %v", id, err)
		}
	}
	age(t, nodes[0], "part")
	renewed := map[int32]bool{}
	for id := range int32(12) {
		renewed[id] = id%2 == 0
	}
	mustRenew(t, nodes[0].beat(t), renewed)
	mustClose(t, dbs...)
}

// TestBeatsAmongCommits: a row that changes during a heartbeat is renewed by the heartbeat or by the commit.
// Neither makes the other one fail.
func TestBeatsAmongCommits(t *testing.T) {
	onEachWay(t, func(t *testing.T, url string) {
		a, b := start(t, url, "a"), start(t, url, "b")
		dbs := []*pg.DB{mustTake(t, a), mustTake(t, a, 1), mustTake(t, b, 2)}
		var commits sync.WaitGroup
		for _, db := range dbs {
			commits.Go(func() {
				for range 50 {
					results := make(chan kv.Result, 1)
					batch := db.Batch()
					batch.Set([]byte("a"), []byte("1"))
					batch.Commit(db.LastKey()+1, func(r kv.Result) { results <- r })
					if r := <-results; r.Outcome != kv.Stored {
						t.Errorf("%+v", r)
					}
				}
			})
		}
		for range 30 {
			execSQL(t, b, "UPDATE pawl.part SET lease_until = lease_until - interval '6 s' WHERE lease_until > now() + interval '20 s'")
			for i, p := range append(a.beat(t).Parts, b.beat(t).Parts...) {
				if want := []string{"a", "a", "b"}[i%3]; p.Owner.ID != want {
					t.Errorf("%v, want the owner %s", p, want)
				}
			}
		}
		commits.Wait()
		execSQL(t, a, "DO $$ BEGIN ASSERT (SELECT max(epoch) FROM pawl.part) = 1; END $$") // no owner had to take its partition again
		mustClose(t, dbs...)
	})
}

// TestOnePartitionIsLost: an owner that loses one of its partitions finds out by a commit. It keeps its other
// partitions.
func TestOnePartitionIsLost(t *testing.T) {
	t.Parallel()
	url := pgserver.Database(t)
	a := start(t, url, "a")
	dbs := []*pg.DB{mustTake(t, a), mustTake(t, a, 5)}
	execSQL(t, a, "UPDATE pawl.part SET owner = 'another', address = 'elsewhere', epoch = epoch + 1 WHERE id = 5")
	results := make(chan kv.Result, 1)
	batch := dbs[1].Batch()
	batch.Set([]byte("a"), []byte("1"))
	batch.Commit(1, func(r kv.Result) { results <- r })
	if r := <-results; r.Outcome == kv.Stored {
		t.Errorf("%+v", r)
	}
	if a.renewedEpochs[5].Load() != 0 || a.renewedEpochs[0].Load() == 0 {
		t.Errorf("epochs %d and %d", a.renewedEpochs[0].Load(), a.renewedEpochs[5].Load())
	}
	age(t, a, "part")
	v := a.beat(t)
	mustRenew(t, v, map[int32]bool{0: true, 5: false})
	mustHave(t, v, 5, members.Node{ID: "another", Address: "elsewhere"})
	kvtest.Commit(t, dbs[0], map[string][]byte{"a": []byte("1")})
	mustClose(t, dbs...)
}
