//go:build sim

package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/a2a"
	shared "github.com/pawl-dev/pawl/internal/cluster/node"
	"github.com/pawl-dev/pawl/internal/cluster/peer"
	"github.com/pawl-dev/pawl/internal/cluster/route"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/pgurl"
	"github.com/pawl-dev/pawl/internal/runtime/request"
	"github.com/pawl-dev/pawl/internal/sim/pgkv"
	"github.com/pawl-dev/pawl/internal/sim/pipes"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/database"
	"github.com/pawl-dev/pawl/internal/store/engine"
)

// life is one process of a member, as package app builds one of several on a database, without
// listeners and metrics.
type life struct {
	of    *member
	name  string
	began time.Time
	// ctx ends with the process.
	ctx  context.Context
	halt context.CancelFunc
	gate pipes.Gate

	me      shared.Member
	kept    atomic.Uint64
	seat    *seat
	router  *route.Router
	clients *peer.Clients
	port    *peer.Server
	node    *shared.Node
	server  *grpcapi.Server
	served  chan error
	// executing ends when the sidecar's own executor has, loops when the rest.
	executing, loops sync.WaitGroup
	// leaving: it was told to end. Under the node's lock.
	leaving bool
	// offered: the store has the packs, as far as this process knows.
	offered atomic.Bool
}

// rows are the rows of nodes, as internal/store/pgkv/members has them.
type rows struct {
	server *pgkv.Server
	kept   *atomic.Uint64
}

// Beat implements [shared.Rows].
func (r rows) Beat(_ context.Context, me shared.Member) (shared.View, error) {
	seen, err := r.server.Beat(pgkv.Member(me), r.kept.Load(), dbLease)
	view := shared.View{Owner: shared.Member(seen.Owner), Lease: seen.Lease}
	for _, m := range seen.Nodes {
		view.Nodes = append(view.Nodes, shared.Member(m))
	}
	return view, err
}

// Leave implements [shared.Rows].
func (r rows) Leave(_ context.Context, me shared.Member) error {
	return r.server.Leave(pgkv.Member(me))
}

// boot starts a process of a member.
func (m *member) boot() (*life, error) {
	m.lives++
	l := &life{of: m, name: fmt.Sprintf("%s-%d", m.name, m.lives), began: time.Now(), served: make(chan error, 1)}
	l.ctx, l.halt = context.WithCancel(context.Background())
	identity, err := peer.NewIdentity()
	if err != nil {
		return nil, err
	}
	c := m.of.cluster
	c.net.Join(l.name, identity.Key, &l.gate)
	m.of.database.SetClient(l.name, func(c *pgkv.Client) { c.Stopped = func() { l.gate.Pass(nil) } })
	l.me = shared.Member{ID: l.name, Address: l.name, Key: identity.Key}
	l.seat = &seat{Seat: route.NewSeat(), l: l}
	nudge := func(ctx context.Context, to route.Peer) error { return l.clients.Nudge(ctx, to) }
	l.node = shared.New(shared.Config{Me: l.me, Rows: rows{m.of.database, &l.kept}, Seat: l.seat, Open: l.take, Nudge: nudge})
	l.clients = peer.NewClients(identity, l.node)
	l.router = route.New(route.Config{Seat: l.seat.Seat, Directory: l.node, Peers: l.clients})
	if l.port, err = peer.NewServer(peer.Config{Listen: l.name, Identity: identity, Book: l.node, Router: l.router, Nudged: l.node.Refresh}); err != nil {
		return nil, err
	}
	l.server, err = grpcapi.New(grpcapi.Config{Router: l.router, Spaces: request.Namespaces{}.WithDefault(), Own: ownSecret, Guest: elsewhere})
	if err != nil {
		return nil, err
	}
	l.loops.Go(func() { _ = l.port.Serve() })
	l.loops.Go(func() { l.node.Run(l.ctx) })
	go func() { l.served <- l.server.Serve() }()
	return l, m.of.execute(l.ctx, l.server, &l.executing)
}

// elsewhere puts agents before a server with a router, as in package app.
func elsewhere(host *grpcapi.Server) (grpcapi.Guest, error) {
	return grpcapi.Guest{
		Desc: &a2apb.A2AService_ServiceDesc, Impl: a2apb.UnimplementedA2AServiceServer{},
		HTTP: a2a.Front(slog.New(slog.DiscardHandler), 1<<20, host.Known, host.Elsewhere()), Takes: a2a.Takes,
	}, nil
}

// take opens the store, as at a start.
func (l *life) take(ctx context.Context) (shared.Tenure, error) {
	n := l.of.of
	p := newProcess(l.of.clock)
	p.life = l
	var err error
	if p.store, err = store.Open(n.storage(store.Hooks{}, l.engine)); err != nil {
		return nil, err
	}
	h := &held{p: p, failed: make(chan struct{}), leaving: make(chan struct{}), closed: make(chan struct{})}
	if err = n.build(p); err != nil {
		return nil, errors.Join(err, p.store.Close())
	}
	h.Services, err = l.server.Services(grpcapi.Offer{House: p.house, Deliveries: p.box, Guest: guestOf[*grpcapi.Services](n, p)})
	p.services = h.Services
	if err == nil && !l.offered.Load() {
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

// engine opens the store in the database of all.
func (l *life) engine(o store.Options) (engine.Engine, error) {
	e, err := database.Open(database.Config{
		URL: pgurl.Of(l.of.of.url()), Owner: l.me.ID, Address: l.name, Kept: &l.kept, Lease: dbLease, Logger: o.Logger, Waits: waits,
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// held is a process that has the store, as in package app.
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

// Failed implements [route.Home].
func (h *held) Failed() <-chan struct{} { return h.failed }

// Closed implements [shared.Tenure].
func (h *held) Closed() <-chan struct{} { return h.closed }

// Close implements [shared.Tenure].
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

// seat is the router's, and says whom people who call the house by themselves may ask: nobody
// beyond the lease, nor one that is stopped.
type seat struct {
	*route.Seat
	l  *life
	mu sync.Mutex
	// has is what was put in, shown the same as people see it; nil: they do not.
	has, shown *process
	until      time.Time
	stopped    bool
	lapse      *time.Timer
	hush       context.CancelFunc
}

// Put implements [shared.Seat], as the next two do.
func (s *seat) Put(home route.Home) {
	s.Seat.Put(home)
	s.set(func() { s.has = home.(*held).p })
}

// Take first has people go.
func (s *seat) Take(ctx context.Context) (route.Home, error) {
	s.set(func() { s.has = nil })
	return s.Seat.Take(ctx)
}

// Extend is told after each beat.
func (s *seat) Extend(until time.Time) {
	s.Seat.Extend(until)
	s.set(func() { s.until = until })
}

// set changes something, and shows people what follows from it.
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
		s.l.of.of.show(s.shown)
	case !open && s.shown != nil:
		s.l.of.of.hide(s.shown)
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

// kill ends a process; what it still does reaches nobody.
func (l *life) kill() {
	n := l.of.of
	n.database.SetClient(l.name, func(c *pgkv.Client) { c.Dead = true })
	l.seat.set(func() { l.seat.stopped = true })
	n.cluster.net.End(l.name)
	n.wires.cutOf(l)
	l.halt()
	l.gate.Open()
	n.buried.Go(func() {
		_ = l.server.Shutdown(l.ctx)
		l.end(l.ctx)
	})
}

// end is the rest of it, whether it was killed or has left.
func (l *life) end(ctx context.Context) {
	l.halt()
	l.executing.Wait()
	l.port.Shutdown(ctx)
	_ = l.clients.Close()
	<-l.served
	l.loops.Wait()
}

// leave is SIGTERM, as package app takes it.
func (l *life) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	_ = l.node.Leave(ctx)
	l.router.Drain()
	_ = l.server.Shutdown(ctx)
	if l.of.gone(l) { // else it was killed meanwhile
		l.of.of.cluster.net.End(l.name)
		l.end(ctx)
	}
}

// leaveTime is how long a process has to end.
const leaveTime = 10 * time.Second
