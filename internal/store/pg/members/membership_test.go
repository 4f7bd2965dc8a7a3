package members_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/fencing"
	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/internal/store/pg/members"
	"github.com/pawl-dev/pawl/internal/store/pg/preflight"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
	"github.com/pawl-dev/pawl/test/testkit/relay"
)

func TestMain(m *testing.M) { pgserver.Main(m) }

// onEachWay runs a test directly on the server, and through PgBouncer in transaction mode.
func onEachWay(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	t.Parallel()
	pgserver.Require(t)
	t.Run("direct", func(t *testing.T) {
		t.Parallel()
		test(t, pgserver.Database(t))
	})
	t.Run("pooled", func(t *testing.T) {
		t.Parallel()
		server := pgserver.Start(t)
		test(t, pgserver.URL("postgres", server.Bouncer(t)))
	})
}

// node is a process of a cluster.
type node struct {
	members.Node
	url           string
	via           *pg.Pool
	rows          *members.Membership
	renewedEpochs members.Epochs
}

// lease is so long that none ends during a test.
const lease = 30 * time.Second

func start(t *testing.T, url, id string) *node {
	t.Helper()
	via, err := pg.Connect(t.Context(), pg.Config{URL: dsn.Parse(url), Readers: 2})
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(via.Close)
	n := &node{Node: members.Node{ID: id, Address: id + ":1", Key: [32]byte{0, 0xFF, id[0]}, Speaks: 7, Parts: 1<<63 | 5, New: true}, url: url, via: via}
	n.rows = members.Open(members.Config{Pool: via, RenewedEpochs: &n.renewedEpochs, Lease: lease, Wait: 10 * time.Second})
	t.Cleanup(n.rows.Close)
	return n
}

func (n *node) beat(t *testing.T) members.View {
	t.Helper()
	v, err := n.rows.Heartbeat(t.Context(), n.Node)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// take takes a partition, under an owner name that no other node uses.
func (n *node) take(part int32) (*pg.DB, error) {
	return pg.Open(pg.Config{
		URL: dsn.Parse(n.url), Pool: n.via, Part: part, RenewedEpoch: &n.renewedEpochs[part], Owner: fmt.Sprintf("%s.%d", n.ID, part), Address: n.Address, Lease: lease,
	})
}

// mustTake takes the given partition, or partition 0.
func mustTake(t *testing.T, n *node, part ...int32) *pg.DB {
	t.Helper()
	db, err := n.take(append(part, 0)[0])
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// part returns a partition of a view. If the view does not have it, part returns a partition without an
// owner.
func part(v members.View, id int32) members.Partition {
	for _, p := range v.Parts {
		if p.ID == id {
			return p
		}
	}
	return members.Partition{}
}

// mustSee checks the nodes of a view and the owner of partition 0. The view must have no other partition.
func mustSee(t *testing.T, v members.View, owner members.Node, nodes ...members.Node) {
	t.Helper()
	if !slices.Equal(v.Nodes, nodes) || len(v.Parts) > 1 {
		t.Errorf("nodes %v, partitions %v; want %v", v.Nodes, v.Parts, nodes)
	}
	mustHave(t, v, 0, owner)
}

func mustHave(t *testing.T, v members.View, id int32, owner members.Node) {
	t.Helper()
	p := part(v, id)
	if p.Owner != owner {
		t.Errorf("partition %d is %v's, want %v", id, p.Owner, owner)
	}
	if held := owner != (members.Node{}); held != (p.Lease > 0) || p.Lease > lease {
		t.Errorf("the lease of partition %d by %q has %v left", id, owner.ID, p.Lease)
	}
}

// TestWhoIsThere: a heartbeat returns the living nodes in the order in which they joined, marks the new ones,
// and names the owner.
func TestWhoIsThere(t *testing.T) {
	onEachWay(t, func(t *testing.T, url string) {
		b, a := start(t, url, "b"), start(t, url, "a")
		mustSee(t, b.beat(t), members.Node{}, b.Node)
		mustSee(t, a.beat(t), members.Node{}, b.Node, a.Node)
		db := mustTake(t, a)
		mustSee(t, b.beat(t), a.Node, b.Node, a.Node)
		a.Leaving = true
		mustSee(t, a.beat(t), a.Node, b.Node, a.Node)
		mustSee(t, b.beat(t), a.Node, b.Node, a.Node)
		execSQL(t, a, "UPDATE pawl.node SET since = since - interval '30 s' WHERE id = 'a'")
		a.New = false
		mustSee(t, b.beat(t), a.Node, a.Node, b.Node)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		mustSee(t, b.beat(t), members.Node{}, a.Node, b.Node)
		if err := a.rows.Deregister(t.Context(), a.Node); err != nil {
			t.Fatal(err)
		}
		mustSee(t, b.beat(t), members.Node{}, b.Node)
	})
}

// TestTheLeaseIsKept: heartbeats alone renew the lease of an owner, as long as the owner is sure of its
// epoch. Another node is refused without waiting for the end of the lease.
func TestTheLeaseIsKept(t *testing.T) {
	onEachWay(t, func(t *testing.T, url string) {
		a, b := start(t, url, "a"), start(t, url, "b")
		db := mustTake(t, a)
		kvtest.Commit(t, db, map[string][]byte{"a": []byte("1")})
		age(t, a, "part")
		if left := part(a.beat(t), 0).Lease; left < lease-time.Second {
			t.Errorf("after a beat %v is left", left)
		}
		if _, err := b.take(0); !isError[*fencing.HeldError](err) {
			t.Fatalf("%v", err)
		}
		// If the epoch is unknown, or of another ownership of the partition, a heartbeat renews nothing.
		epoch := a.renewedEpochs[0].Load()
		for _, other := range []uint64{0, epoch + 1} {
			a.renewedEpochs[0].Store(epoch)
			a.beat(t)
			a.renewedEpochs[0].Store(other)
			age(t, a, "part")
			if p := part(a.beat(t), 0); p.Lease > lease/2 || p.Owner.ID != "a" {
				t.Errorf("under epoch %d of %d: %v", other, epoch, p)
			}
		}
		if err := db.Close(); err != nil || a.renewedEpochs[0].Load() != 0 {
			t.Fatal(err, a.renewedEpochs[0].Load())
		}
		db = mustTake(t, b)
		kvtest.Commit(t, db, map[string][]byte{"b": []byte("2")})
		a.renewedEpochs[0].Store(epoch)
		if p := part(a.beat(t), 0); p.Owner.ID != "b" {
			t.Errorf("%v", p)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// age shortens all leases by two thirds of their full length.
func age(t *testing.T, n *node, table string) {
	t.Helper()
	set := " SET lease_until = lease_until - interval '20 s'"
	if table == "node" {
		set += ", since = since - interval '20 s'"
	}
	execSQL(t, n, "UPDATE pawl."+table+set)
}

func execSQL(t *testing.T, n *node, sql string) {
	t.Helper()
	talk := n.via.SerialConn()
	defer talk.Close()
	err := talk.Do(10*time.Second, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func isError[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// TestWhoIsGone: a node without heartbeats is not in the view after its lease. It may still own a partition
// until the lease of the partition ends. Its row is removed later.
func TestWhoIsGone(t *testing.T) {
	t.Parallel()
	url := pgserver.Database(t)
	a, b := start(t, url, "a"), start(t, url, "b")
	a.beat(t)
	db := mustTake(t, a)
	b.beat(t)
	age(t, a, "node")
	age(t, a, "node")
	b.beat(t)
	b.New = false
	mustSee(t, b.beat(t), a.Node, b.Node)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	execSQL(t, a, "UPDATE pawl.node SET lease_until = now() - interval '61 s' WHERE id = 'a'")
	b.beat(t) // b owns no partition.
	execSQL(t, a, "DO $$ BEGIN ASSERT (SELECT count(*) FROM pawl.node) = 2; END $$")
	db = mustTake(t, b, 9)
	execSQL(t, a, "UPDATE pawl.node SET lease_until = now() - interval '59 s' WHERE id = 'a'")
	b.beat(t)
	execSQL(t, a, "DO $$ BEGIN ASSERT (SELECT count(*) FROM pawl.node) = 2; END $$")
	execSQL(t, a, "UPDATE pawl.node SET lease_until = now() - interval '61 s' WHERE id = 'a'")
	b.beat(t)
	execSQL(t, a, "DO $$ BEGIN ASSERT (SELECT count(*) FROM pawl.node) = 1; END $$")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestStrangersAreOwners: a process that is no node of the cluster can own the store. Other nodes cannot
// reach it.
func TestStrangersAreOwners(t *testing.T) {
	t.Parallel()
	url := pgserver.Database(t)
	a := start(t, url, "a")
	db, err := pg.Open(pg.Config{URL: dsn.Parse(url), Owner: "stranger", Address: "its machine"})
	if err != nil {
		t.Fatal(err)
	}
	mustSee(t, a.beat(t), members.Node{ID: "stranger", Address: "its machine"}, a.Node)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestBeatsDoNotWaitForCommits: a commit in progress has locked the row of a partition. A heartbeat skips
// this row although its lease should be renewed, and renews the leases of the other partitions.
func TestBeatsDoNotWaitForCommits(t *testing.T) {
	t.Parallel()
	url := pgserver.Database(t)
	a := start(t, url, "a")
	dbs := []*pg.DB{mustTake(t, a), mustTake(t, a, 5), mustTake(t, a, 63)}
	age(t, a, "part")
	talk := a.via.SerialConn()
	err := talk.Do(10*time.Second, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(t.Context(), "BEGIN; UPDATE pawl.part SET lease_until = lease_until WHERE id = 5", pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		mustRenew(t, a.beat(t), map[int32]bool{0: true, 5: false, 63: true})
		_, err := conn.Exec(t.Context(), "ROLLBACK", pgx.QueryExecModeSimpleProtocol)
		return err
	})
	talk.Close()
	if err != nil {
		t.Error(err)
	}
	mustRenew(t, a.beat(t), map[int32]bool{0: true, 5: true, 63: true})
	mustClose(t, dbs...)
}

// TestDeadConnections: a heartbeat succeeds after its connection has died. It fails if no answer comes, with
// an error that contains no password. The next heartbeat succeeds.
func TestDeadConnections(t *testing.T) {
	t.Parallel()
	url := pgserver.Database(t)
	between := relay.Start(t, pgserver.Shared(t).Addr())
	a := start(t, strings.Replace(url, pgserver.Shared(t).Addr(), between.Addr(), 1), "a")
	a.beat(t)
	between.Cut()
	a.beat(t)
	rows := members.Open(members.Config{Pool: a.via, Wait: 20 * time.Millisecond})
	defer rows.Close()
	between.Hold(relay.Answers)
	_, err := rows.Heartbeat(t.Context(), a.Node)
	if told, ok := errors.AsType[*preflight.Error](err); !ok || told.Reason != preflight.Unreachable || strings.Contains(err.Error(), pgserver.Password) {
		t.Errorf("%v", err)
	}
	between.Release(relay.Answers)
	between.Refuse()
	_, err = a.rows.Heartbeat(t.Context(), a.Node)
	if told, ok := errors.AsType[*preflight.Error](err); !ok || told.Reason != preflight.Unreachable || strings.Contains(err.Error(), pgserver.Password) {
		t.Errorf("%v", err)
	}
	between.Accept()
	a.beat(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.rows.Heartbeat(ctx, a.Node); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestManyBeatAtOnce: simultaneous heartbeats do not block each other for ever, and each node sees all nodes
// at the end.
func TestManyBeatAtOnce(t *testing.T) {
	onEachWay(t, func(t *testing.T, url string) {
		nodes := make([]*node, 6)
		for i := range nodes {
			nodes[i] = start(t, url, string(rune('a'+i)))
		}
		db := mustTake(t, nodes[0])
		var all sync.WaitGroup
		for _, n := range nodes {
			all.Go(func() {
				for range 20 {
					if _, err := n.rows.Heartbeat(t.Context(), n.Node); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		for _, n := range nodes {
			if v := n.beat(t); len(v.Nodes) != 6 || part(v, 0).Owner.ID != "a" {
				t.Errorf("%v", v)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestManyStartAtOnce: several nodes start at the same time on an empty database. Each of them accepts the
// database and joins the cluster.
func TestManyStartAtOnce(t *testing.T) {
	onEachWay(t, func(t *testing.T, url string) {
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				server, err := preflight.Inspect(t.Context(), url, "db", "pawl")
				if err == nil {
					_, err = preflight.Judge(server, "db", "pawl", preflight.Requirements{Served: true, Lossy: true})
				}
				if err != nil {
					t.Error(err)
					return
				}
				n := start(t, url, string(rune('a'+i)))
				if v, err := n.rows.Heartbeat(t.Context(), n.Node); err != nil || len(v.Nodes) == 0 {
					t.Errorf("%v, %v", v, err)
				}
			})
		}
		all.Wait()
	})
}

// TestASynchronousStandbyIsAway: while the synchronous standby is paused, no heartbeat succeeds, whether it
// renews a lease or not. The failed heartbeats leave no sessions behind. When the standby continues, all
// heartbeats succeed.
func TestASynchronousStandbyIsAway(t *testing.T) {
	t.Parallel()
	primary, standby := pgserver.StartWithStandby(t, pgserver.Synchronous)
	url := primary.Database(t)
	a, b := start(t, url, "a"), start(t, url, "b")
	a.beat(t)
	b.beat(t)
	db := mustTake(t, a)
	age(t, a, "part")
	standby.Pause(t)
	for range 20 {
		for _, n := range []*node{a, b} {
			rows := members.Open(members.Config{Pool: n.via, RenewedEpochs: &n.renewedEpochs, Lease: lease, Wait: 40 * time.Millisecond})
			if v, err := rows.Heartbeat(t.Context(), n.Node); !isError[*preflight.Error](err) {
				t.Errorf("%s sees %v, %v", n.ID, v, err)
			}
			rows.Close()
		}
	}
	name, _, _ := strings.Cut(url[strings.LastIndex(url, "/")+1:], "?")
	primary.Await(t, name, "SELECT count(*) <= 12 FROM pg_stat_activity WHERE datname = current_database()")
	standby.Resume(t)
	mustSee(t, a.beat(t), a.Node, a.Node, b.Node)
	mustSee(t, b.beat(t), a.Node, a.Node, b.Node)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestABeatIsOneTransaction: a heartbeat is one transaction, for any number of leases that it renews. The
// test has its own server, because all databases of a server share the numbers of transactions.
func TestABeatIsOneTransaction(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t)
	for _, addr := range []string{server.Addr(), server.Bouncer(t)} {
		a := start(t, pgserver.URL("postgres", addr), "a")
		dbs := []*pg.DB{mustTake(t, a), mustTake(t, a, 1), mustTake(t, a, 63)}
		rows := func() string { return server.Query(t, "postgres", "SELECT string_agg(ctid::text, ' ') FROM pawl.part") }
		if fresh := rows(); len(a.beat(t).Parts) != 3 || rows() != fresh {
			t.Error("leases are written anew that were taken just now")
		}
		for range 3 {
			age(t, a, "part")
			before := server.Query(t, "postgres", "SELECT txid_current()")
			a.beat(t)
			if n := server.Query(t, "postgres", "SELECT txid_current() - "+before); n != "2" {
				t.Errorf("%s - 1 transactions by %s", n, addr)
			}
		}
		mustClose(t, dbs...)
	}
}

// TestTheDatabasesClockIsPutBack: the clock of the database is set back, so that the stored times are an hour
// too late. Leases still end at the normal time, living nodes stay in the view, and the owner keeps the
// store.
func TestTheDatabasesClockIsPutBack(t *testing.T) {
	t.Parallel()
	url := pgserver.Database(t)
	a, b := start(t, url, "a"), start(t, url, "b")
	a.beat(t)
	db := mustTake(t, a)
	back := func() {
		execSQL(t, a, "UPDATE pawl.node SET lease_until = lease_until + interval '1 h', since = since + interval '1 h'")
		execSQL(t, a, "UPDATE pawl.part SET lease_until = lease_until + interval '1 h'")
	}
	back()
	mustSee(t, b.beat(t), a.Node, b.Node)
	back()
	a.New, b.New = false, false // they joined before the clock was set back
	mustSee(t, a.beat(t), a.Node, a.Node)
	mustSee(t, b.beat(t), a.Node, b.Node, a.Node)
	kvtest.Commit(t, db, map[string][]byte{"a": []byte("1")})
	back()
	// The owner of the partition is gone.
	if _, err := b.take(0); !isError[*fencing.HeldError](err) {
		t.Fatalf("%v", err)
	}
	age(t, b, "part")
	age(t, b, "part")
	other := mustTake(t, b)
	if err := errors.Join(db.Close(), other.Close()); err != nil {
		t.Fatal(err)
	}
}
