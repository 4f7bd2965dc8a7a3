//go:build sim

package simulation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/a2a"
	shared "github.com/pawl-dev/pawl/internal/cluster/membership"
	"github.com/pawl-dev/pawl/internal/cluster/router"
	"github.com/pawl-dev/pawl/internal/cluster/transport"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/internal/store/pgengine"
	"github.com/pawl-dev/pawl/test/simulation/pg"
	"github.com/pawl-dev/pawl/test/simulation/pipes"
)

// life is one process of a member, built like package server builds a member of a cluster, without
// listeners and metrics.
type life struct {
	of    *member
	name  string
	began time.Time
	// ctx ends with the process.
	ctx  context.Context
	halt context.CancelFunc
	gate pipes.Gate

	me   shared.Member
	kept pg.Epochs
	// parts is the partition of each namespace. seats are the process's slots for the cluster's stores.
	parts map[string]int32
	seats []*seat
	// stopped means that the process does nothing. Only actions change it.
	stopped bool
	router  *router.Router
	clients *transport.Clients
	port    *transport.Server
	node    *shared.Node
	server  *grpcapi.Server
	served  chan error
	// executing ends with the sidecar's own executor, and loops with the other loops of the process.
	executing, loops sync.WaitGroup
	// leaving means that the process was asked to end. The node's lock protects it.
	leaving bool
	// offered means that the store has the packs, as far as this process knows.
	offered atomic.Bool
}

// rows are the rows of nodes in the database, as in internal/store/pg/members.
type rows struct {
	server *pg.Server
	kept   *pg.Epochs
}

// Heartbeat implements [shared.Registry].
func (r rows) Heartbeat(_ context.Context, me shared.Member) (shared.View, error) {
	seen, err := r.server.Heartbeat(pg.Member(me), r.kept, dbLease)
	var view shared.View
	for _, m := range seen.Nodes {
		view.Nodes = append(view.Nodes, shared.Member(m))
	}
	for _, p := range seen.Parts {
		view.Parts = append(view.Parts, shared.Partition{ID: p.ID, Owner: shared.Member(p.Owner), Lease: p.Lease, Format: p.Format})
	}
	return view, err
}

// Deregister implements [shared.Registry].
func (r rows) Deregister(_ context.Context, me shared.Member) error {
	return r.server.Deregister(pg.Member(me))
}

// boot starts a process of a member.
func (m *member) boot() (*life, error) {
	m.lives++
	l := &life{of: m, name: fmt.Sprintf("%s-%d", m.name, m.lives), began: time.Now(), served: make(chan error, 1)}
	l.ctx, l.halt = context.WithCancel(context.Background())
	identity, err := transport.NewIdentity()
	if err != nil {
		return nil, err
	}
	c := m.of.cluster
	c.net.Join(l.name, identity.Key, &l.gate)
	m.of.database.SetClient(l.name, func(c *pg.Client) { c.Stopped = func() { l.gate.Pass(nil) } })
	seats, err := l.place(c)
	if err != nil {
		return nil, err
	}
	l.me = shared.Member{ID: l.name, Address: l.name, Key: identity.Key, Parts: l.mask()}
	nudge := func(ctx context.Context, to router.Peer) error { return l.clients.NotifyPeer(ctx, to) }
	l.node = shared.New(shared.Config{Self: l.me, Registry: rows{m.of.database, &l.kept}, Slot: l.seatOf, Open: l.take, NotifyPeer: nudge})
	l.clients = transport.NewClients(identity, l.node)
	l.router = router.New(router.Config{
		Slots: seats, Directory: l.node, Parts: func(space string) int32 { return l.parts[space] }, Served: c.served,
		Partitions: l.partitions(), Address: func() string { return l.name }, Tenant: a2a.TenantOf, Peers: l.clients,
	})
	if l.port, err = transport.NewServer(transport.Config{Listen: l.name, Identity: identity, TrustStore: l.node, Router: l.router, OnNotify: l.node.Refresh}); err != nil {
		return nil, err
	}
	l.server, err = grpcapi.New(grpcapi.Config{Router: l.router, Spaces: c.spaces(), Tokens: c.tokens(), Own: ownSecret, Plugin: elsewhere})
	if err != nil {
		return nil, err
	}
	l.loops.Go(func() { _ = l.port.Serve() })
	l.loops.Go(func() { l.node.Run(l.ctx) })
	go func() { l.served <- l.server.Serve() }()
	for _, n := range c.stores() {
		err = errors.Join(err, n.execute(l.ctx, l.server, &l.executing))
	}
	return l, err
}

// errUnplaced is the error of a process that does not start because it does not reach the database.
var errUnplaced = errors.New("nobody says in which partitions the namespaces are")

// place assigns each namespace to a partition, as package server does first, and makes a seat for it.
func (l *life) place(c *cluster) (*router.Slots, error) {
	names := slices.Sorted(maps.Keys(c.spaces()))
	parts, err := c.node.database.Place(l.name, names, layout.NamespaceKey)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnplaced, err)
	}
	l.parts = parts
	seats := router.NewSlots()
	for _, n := range c.stores() {
		l.seats = append(l.seats, &seat{Slot: seats.At(parts[n.namespace()]), l: l, of: n})
		n.stays(parts[n.namespace()])
	}
	return seats, nil
}

// mask returns the bits of the partitions that the process takes.
func (l *life) mask() (mask uint64) {
	for _, part := range l.parts {
		mask |= 1 << part
	}
	return mask
}

// partitions returns the partitions that the process takes, in the order of their numbers.
func (l *life) partitions() (all []router.Partition) {
	for name, part := range l.parts {
		all = append(all, router.Partition{Number: part, Namespaces: []string{name}})
	}
	slices.SortFunc(all, func(a, b router.Partition) int { return int(a.Number - b.Number) })
	return all
}

// seatOf returns the slot of a partition, which must be one of those in mask.
func (l *life) seatOf(part int32) shared.Slot { return l.seats[l.storeOf(part)] }

// storeOf returns the index of the store of the cluster that is in a partition.
func (l *life) storeOf(part int32) int {
	return slices.IndexFunc(l.seats, func(s *seat) bool { return l.parts[s.of.namespace()] == part })
}

// elsewhere puts agents before a server with a router, as in package server.
func elsewhere(host *grpcapi.Server) (grpcapi.Plugin, error) {
	return grpcapi.Plugin{
		Desc: &a2apb.A2AService_ServiceDesc, Impl: a2apb.UnimplementedA2AServiceServer{},
		HTTP: a2a.Front(slog.New(slog.DiscardHandler), 1<<20, host.Known, host.ForwardingHandler()), Matches: a2a.MatchesPath,
	}, nil
}

// take opens a partition, as the store does at a start.
func (l *life) take(ctx context.Context, part int32) (shared.OpenPartition, error) {
	n := l.seats[l.storeOf(part)].of
	p := newProcess(l.of.clock)
	p.life = l
	var err error
	if p.store, err = store.Open(n.storage(store.Hooks{}, l.engine(part))); err != nil {
		return nil, err
	}
	h := &held{p: p, failed: make(chan struct{}), leaving: make(chan struct{}), closed: make(chan struct{})}
	if err = p.number(ctx, n); err == nil {
		err = n.build(p)
	}
	if err != nil {
		return nil, errors.Join(err, p.store.Close())
	}
	h.Services, err = l.server.Services(grpcapi.ServiceConfig{Runtime: p.house, Deliveries: p.box, Plugin: guestOf[*grpcapi.Services](n, p)})
	p.services = h.Services
	if err == nil && n.space == "" && !l.offered.Load() {
		for _, document := range [][]byte{packDocument, tillDocument} {
			err = errors.Join(err, p.register(ctx, document))
		}
		l.offered.Store(err == nil)
	}
	p.run()
	p.keepTime(n)
	if err != nil {
		return nil, errors.Join(err, h.Close(ctx))
	}
	go h.attend()
	n.lives++
	return h, nil
}

// engine returns a function that opens a partition in the database of the cluster.
func (l *life) engine(part int32) func(store.Options) (engine.Engine, error) {
	return func(o store.Options) (engine.Engine, error) {
		e, err := pgengine.Open(pgengine.Config{
			URL: dsn.Parse(l.of.of.url()), Part: part, Owner: l.me.ID, Address: l.name, RenewedEpoch: &l.kept[part], Lease: dbLease, Logger: o.Logger, Timeouts: waits,
		})
		if err != nil {
			return nil, err
		}
		return e, nil
	}
}

// held is the runtime of a process that owns the store, as in package server.
type held struct {
	*grpcapi.Services
	p                       *process
	failed, leaving, closed chan struct{}
}

func (h *held) attend() {
	select {
	case <-h.leaving:
	case <-h.p.house.Failed():
		close(h.failed)
	}
}

// Failed implements [router.Backend].
func (h *held) Failed() <-chan struct{} { return h.failed }

// Closed implements [shared.OpenPartition].
func (h *held) Closed() <-chan struct{} { return h.closed }

// Close implements [shared.OpenPartition].
func (h *held) Close(ctx context.Context) error {
	close(h.leaving)
	p := h.p
	err := p.house.Drain(ctx)
	if err == nil {
		err = p.house.Close()
	}
	p.halt()
	for range 3 {
		<-p.loop
	}
	p.executing.Wait()
	p.house.Watches.End()
	err = errors.Join(err, p.peers.Close(), p.store.Close())
	close(h.closed)
	return err
}

// seat is a slot of the router. It also determines which process direct callers of the runtime use:
// none after the end of the lease, and none while the process is stopped.
type seat struct {
	*router.Slot
	l *life
	// of is the store in this partition.
	of *node
	mu sync.Mutex
	// has is the runtime in the slot. shown is the same for direct callers, or nil if they must not use
	// it.
	has, shown *process
	until      time.Time
	stopped    bool
	lapse      *time.Timer
	hush       context.CancelFunc
}

// Attach implements [shared.Slot], as Detach and ExtendLease do.
func (s *seat) Attach(home router.Backend) {
	s.Slot.Attach(home)
	s.set(func() { s.has = home.(*held).p })
}

// Detach first stops direct callers.
func (s *seat) Detach(ctx context.Context) (router.Backend, error) {
	s.set(func() { s.has = nil })
	return s.Slot.Detach(ctx)
}

// ExtendLease is called after each heartbeat.
func (s *seat) ExtendLease(until time.Time) {
	s.Slot.ExtendLease(until)
	s.set(func() { s.until = until })
}

// set changes the seat, and then updates what direct callers see.
func (s *seat) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	open := s.has != nil && !s.stopped && time.Now().Before(s.until)
	switch {
	case open && s.shown == nil:
		p := *s.has
		p.ctx, s.hush = context.WithCancel(p.works)
		s.shown = &p
		s.of.show(s.shown)
	case !open && s.shown != nil:
		s.of.hide(s.shown)
		s.hush()
		s.shown = nil
	}
	if s.lapse != nil {
		s.lapse.Stop()
	}
	if s.shown != nil {
		s.lapse = time.AfterFunc(time.Until(s.until), func() { s.set(func() {}) })
	}
}

// kill ends a process. What it does afterwards reaches neither the database nor another process.
func (l *life) kill() {
	n := l.of.of
	n.database.SetClient(l.name, func(c *pg.Client) { c.Dead = true })
	l.stands(true)
	n.cluster.net.End(l.name)
	n.wires.cutOf(l)
	l.halt()
	l.gate.Open()
	n.buried.Go(func() {
		_ = l.server.Shutdown(l.ctx)
		l.end(l.ctx)
	})
}

// end ends the remaining parts of a process that was killed or has left.
func (l *life) end(ctx context.Context) {
	l.halt()
	l.gate.Open() // a process that was stopped while it left continues
	l.executing.Wait()
	l.port.Shutdown(ctx)
	_ = l.clients.Close()
	<-l.served
	l.loops.Wait()
}

// leave does what package server does after SIGTERM.
func (l *life) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	_ = l.node.Drain(ctx)
	l.router.Drain()
	_ = l.server.Shutdown(ctx)
	if l.of.gone(l) { // otherwise the process was killed in the meantime
		l.of.of.cluster.net.End(l.name)
		l.end(ctx)
	}
}

// leaveTime is the time that a process has to end.
const leaveTime = 10 * time.Second
