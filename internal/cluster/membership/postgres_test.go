package membership_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/cluster/membership"
	"github.com/pawl-dev/pawl/internal/cluster/router"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/internal/store/pg/members"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
	"github.com/pawl-dev/pawl/test/testkit/relay"
)

func TestMain(m *testing.M) { pgserver.Main(m) }

// sidecar is a node on a real database, which commits for as long as it has the store.
type sidecar struct {
	*membership.Node
	t  *testing.T
	id string
	// newestFormat is the newest format that it keeps the store in; zero: any.
	newestFormat uint32
	url          string
	seat         *router.Slot
	relay        *relay.Relay
	pool         *pg.Pool
	rows         *members.Membership
	epochs       members.Epochs
	all          *cluster
	names        atomic.Int64
	cancel       context.CancelFunc
	ended        chan struct{}
}

// cluster are sidecars, and the groups that were acknowledged by any of them.
type cluster struct {
	t            *testing.T
	server       *pgserver.Server
	sidecars     []*sidecar
	mu           sync.Mutex
	acknowledged map[uint64]string
}

// newCluster starts some, each on a way of its own to an address of the server.
func newCluster(t *testing.T, server *pgserver.Server, addr string, n int) *cluster {
	t.Helper()
	c := &cluster{t: t, server: server, acknowledged: map[uint64]string{}}
	for i := range n {
		s := c.add(addr, 0)
		await(t, "it sees all before it, of whom the first one has it", func() bool {
			living, _ := s.Counts()
			return living == i+1 && c.sidecars[0].seat.Accepts()
		})
	}
	return c
}

func (c *cluster) add(addr string, speaks uint32) *sidecar {
	c.t.Helper()
	between := relay.Start(c.t, addr)
	s := &sidecar{
		t: c.t, id: fmt.Sprint("node", len(c.sidecars)), newestFormat: speaks, url: pgserver.URL("postgres", between.Addr()), seat: router.NewSlots().At(0), relay: between, all: c, ended: make(chan struct{}),
	}
	c.sidecars = append(c.sidecars, s)
	s.start()
	return s
}

func (s *sidecar) start() {
	s.t.Helper()
	var err error
	if s.pool, err = pg.Connect(s.t.Context(), pg.Config{URL: dsn.Parse(s.url), Readers: 2}); err != nil {
		s.t.Fatal(err)
	}
	s.rows = members.Open(members.Config{Pool: s.pool, RenewedEpochs: &s.epochs})
	if _, err = s.rows.Place(s.t.Context(), []string{"default"}, func(name string) []byte { return []byte(name) }); err != nil {
		s.t.Fatal(err)
	}
	s.Node = membership.New(membership.Config{
		Self: membership.Member{ID: s.id, Address: s.id, Key: [32]byte{1}, Speaks: max(2, s.newestFormat), Parts: 1}, Oldest: s.formats().Oldest, Registry: testDatabase{s.rows}, Slot: func(int32) membership.Slot { return s.seat }, Open: s.open, NotifyPeer: s.all.nudge,
	})
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(s.ended)
		s.Run(ctx)
	}()
}

type testDatabase struct{ *members.Membership }

func (a testDatabase) Heartbeat(ctx context.Context, me membership.Member) (v membership.View, err error) {
	seen, err := a.Membership.Heartbeat(ctx, members.Node(me))
	for _, n := range seen.Nodes {
		v.Nodes = append(v.Nodes, membership.Member(n))
	}
	for _, p := range seen.Parts {
		v.Parts = append(v.Parts, membership.Partition{ID: p.ID, Owner: membership.Member(p.Owner), Lease: p.Lease, Format: p.Format})
	}
	return v, err
}

func (a testDatabase) Deregister(ctx context.Context, me membership.Member) error {
	return a.Membership.Deregister(ctx, members.Node(me))
}

func (c *cluster) nudge(_ context.Context, to router.Peer) error {
	for _, s := range c.sidecars {
		if s.id == to.ID {
			s.Refresh()
		}
	}
	return nil
}

// committingBackend commits group after group.
type committingBackend struct {
	router.Backend
	db           *pg.DB
	stop, closed chan struct{}
	running      sync.WaitGroup
}

func (h *committingBackend) End()                    {}
func (h *committingBackend) Failed() <-chan struct{} { return h.db.Owner().Failed() }
func (h *committingBackend) Closed() <-chan struct{} { return h.closed }

func (h *committingBackend) Close(context.Context) error {
	close(h.stop)
	h.db.Owner().BeginClose()
	h.running.Wait()
	err := h.db.Close()
	close(h.closed)
	return err
}

func (s *sidecar) formats() pg.Formats {
	if s.newestFormat == 0 {
		return pg.Formats{}
	}
	return pg.Formats{Oldest: 2, Newest: s.newestFormat, Raise: true}
}

func (s *sidecar) open(context.Context, int32) (membership.OpenPartition, error) {
	db, err := pg.Open(pg.Config{
		URL: dsn.Parse(s.url), Pool: s.pool, RenewedEpoch: &s.epochs[0], Owner: fmt.Sprintf("%s.%d", s.id, s.names.Add(1)), Address: s.id, Formats: s.formats(),
		Timeouts: pg.Timeouts{Statement: 2 * time.Second, CloseTimeout: time.Second},
	})
	if err != nil {
		return nil, err
	}
	h := &committingBackend{db: db, stop: make(chan struct{}), closed: make(chan struct{})}
	h.running.Go(func() { s.all.commit(s.id, h) })
	return h, nil
}

func (c *cluster) commit(id string, h *committingBackend) {
	for h.db.Owner().Err() == nil {
		select {
		case <-h.stop:
			return
		default:
		}
		group := h.db.LastKey() + 1
		done := make(chan kv.Outcome, 1)
		batch := h.db.Batch()
		batch.Set(fmt.Appendf(nil, "%08d", group), []byte(id))
		batch.Commit(group, func(r kv.Result) { done <- r.Outcome })
		if <-done == kv.Stored {
			c.mu.Lock()
			c.acknowledged[group] = id
			c.mu.Unlock()
		}
	}
}

// stop ends a sidecar that has not been ended yet.
func (s *sidecar) stop() {
	s.cancel()
	<-s.ended
	s.rows.Close()
	s.pool.Close()
}

func (c *cluster) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.acknowledged)
}

// goesOn waits until further groups were acknowledged, and says who has the store.
func (c *cluster) goesOn(what string) string {
	c.t.Helper()
	from := c.count()
	await(c.t, what, func() bool { return c.count() > from+20 && c.owner() != "" })
	return c.owner()
}

func (c *cluster) owner() string {
	for _, s := range c.sidecars {
		if s.seat.Accepts() {
			return s.id
		}
	}
	return ""
}

// end stops all, and looks whether everything is there that was acknowledged.
func (c *cluster) end() {
	for _, s := range c.sidecars {
		s.stop()
	}
	there := map[string]string{}
	for pair := range strings.FieldsSeq(c.server.Query(c.t, "postgres", "SELECT string_agg(convert_from(k, 'UTF8') || '=' || convert_from(v, 'UTF8'), ' ') FROM pawl.cold")) {
		key, id, _ := strings.Cut(pair, "=")
		there[key] = id
	}
	for group, id := range c.acknowledged {
		if got := there[fmt.Sprintf("%08d", group)]; got != id {
			c.t.Errorf("group %d is %q, %s was told that it is its own", group, got, id)
		}
	}
	c.t.Logf("%d groups", len(c.acknowledged))
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after a minute: %s", what)
		}
	}
}

// TestTheServerRestarts, by itself and after a crash, while groups are stored: nothing moves.
func TestTheServerRestarts(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t)
	c := newCluster(t, server, server.Addr(), 3)
	c.goesOn("at first")
	server.Restart(t)
	if owner := c.goesOn("after a restart"); owner != "node0" {
		t.Errorf("%s has it", owner)
	}
	server.Kill(t)
	server.Restart(t)
	if owner := c.goesOn("after a crash"); owner != "node0" {
		t.Errorf("%s has it", owner)
	}
	c.end()
}

// TestAnOwnerThatIsCutOff is replaced, and stands by when it is back.
func TestAnOwnerThatIsCutOff(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t)
	c := newCluster(t, server, server.Addr(), 3)
	c.goesOn("at first")
	first := c.sidecars[0]
	first.relay.Hold(relay.Answers)
	await(t, "it does not believe that it has it", func() bool { return !first.seat.Accepts() })
	if owner := c.goesOn("at another one"); owner != "node1" {
		t.Errorf("%s has it", owner)
	}
	first.relay.Cut()
	first.relay.Release(relay.Answers)
	await(t, "it knows who has it", func() bool { owner, ok := first.Owner(0); return ok && owner.ID == "node1" })
	if owner := c.goesOn("in the end"); owner != "node1" {
		t.Errorf("%s has it", owner)
	}
	c.end()
}

// TestEachLeaves, one after the other, directly and through PgBouncer: the next one goes on.
func TestEachLeaves(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t)
	for _, addr := range []string{server.Addr(), server.Bouncer(t)} {
		c := newCluster(t, server, addr, 4)
		for i, s := range c.sidecars[:3] {
			c.goesOn(s.id)
			began := time.Now()
			if err := s.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			await(t, "the next one has it", c.sidecars[i+1].seat.Accepts)
			t.Logf("from %s to the next one through %s: %v", s.id, strings.TrimPrefix(addr, "127.0.0.1"), time.Since(began))
		}
		c.goesOn("the last one")
		c.end()
		server.Query(t, "postgres", "DROP SCHEMA pawl CASCADE")
	}
}

// TestFormats: the store is raised to a newer one once no node lives that does not speak it, though
// the owner was one that does already; a node that does not stands by, and never takes it.
func TestFormats(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t)
	c := &cluster{t: t, server: server, acknowledged: map[uint64]string{}}
	format := func() string { return server.Query(t, "postgres", "SELECT format FROM pawl.part") }
	old := c.add(server.Addr(), 2)
	await(t, "the first one has it", old.seat.Accepts)
	first, other := c.add(server.Addr(), 3), c.add(server.Addr(), 2)
	await(t, "all know of all", func() bool {
		one, _ := first.Counts()
		two, _ := other.Counts()
		return one == 3 && two == 3
	})
	old.stop()
	// Either may be first to take it over.
	await(t, "another one has it", func() bool { return first.seat.Accepts() || other.seat.Accepts() })
	c.goesOn("beside an older one")
	if got := format(); got != "2" {
		t.Errorf("with an older one its format is %s", got)
	}
	other.stop()
	await(t, "a newer one has it", first.seat.Accepts)
	await(t, "it is raised", func() bool { return format() == "3" })
	if owner := c.goesOn("afterwards"); owner != first.id {
		t.Errorf("%s has it", owner)
	}
	older := c.add(server.Addr(), 2)
	await(t, "an older one knows who has it", func() bool { owner, ok := older.Owner(0); return ok && owner.ID == first.id })
	first.stop()
	released := server.Query(t, "postgres", "SELECT epoch || owner FROM pawl.part") // an epoch without an owner
	from := server.Query(t, "postgres", "SELECT lease_until FROM pawl.node WHERE id = '"+older.id+"'")
	server.Await(t, "postgres", "SELECT lease_until > '"+from+"'::timestamptz + interval '4 s' FROM pawl.node WHERE id = '"+older.id+"'")
	if got := server.Query(t, "postgres", "SELECT epoch || owner FROM pawl.part"); older.seat.Accepts() || got != released || strings.Trim(got, "0123456789") != "" {
		t.Errorf("an older one has it: epoch and owner are %q", got)
	}
	next := c.add(server.Addr(), 3)
	await(t, "the next one has it", next.seat.Accepts)
	c.goesOn("in the end")
	for _, s := range []*sidecar{older, next} {
		s.stop()
	}
	c.sidecars = nil
	c.end()
}
