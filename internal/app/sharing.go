package app

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/a2a"
	"github.com/pawl-dev/pawl/internal/cluster/node"
	"github.com/pawl-dev/pawl/internal/cluster/peer"
	"github.com/pawl-dev/pawl/internal/cluster/route"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/grpcapi/door"
	"github.com/pawl-dev/pawl/internal/grpcapi/fault"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/pgurl"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/allowance"
	"github.com/pawl-dev/pawl/internal/runtime/request"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/database"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/pgkv"
	"github.com/pawl-dev/pawl/internal/store/pgkv/members"
	"github.com/pawl-dev/pawl/internal/telemetry"
)

// sharing makes a sidecar one of several on a database: it has the store or stands by for who
// does, and takes every call in both cases.
type sharing struct {
	where Database
	url   pgurl.URL
	// kept is the epoch under which this one has the store.
	kept atomic.Uint64
	via  *pgkv.Reached
	rows *members.Rows

	me      node.Member
	seat    *route.Seat
	router  *route.Router
	clients *peer.Clients
	port    *peer.Server
	node    *node.Node
	counts  *telemetry.Nodes
	// quotas bound what callers of this sidecar may ask of it.
	quotas *allowance.Book

	halt  context.CancelFunc
	loops sync.WaitGroup
	ended chan error
	// offered: the store has the packs of the configuration.
	offered atomic.Bool
}

// share reaches the database and makes what this sidecar has with the others; nothing is served
// and nobody is told yet.
func (a *app) share() (err error) {
	c := a.opts.config
	s := &sharing{where: databaseOf(c), seat: route.NewSeat(), counts: a.observers.metrics.Nodes(), ended: make(chan error, 1)}
	if s.url, err = s.where.secured(c, a.opts.log); err != nil {
		return err
	}
	if err = s.where.judged(context.Background(), s.url, wantedOf(c), a.opts.log); err != nil {
		return err
	}
	a.shares = s
	if s.via, err = pgkv.Reach(pgkv.Config{URL: s.url, Schema: s.where.Schema}); err != nil {
		return s.where.told(err)
	}
	if err = a.refuses(); err != nil {
		return err
	}
	if c.A2A && c.A2AURL == "" {
		a.opts.log.Warn("without --a2a-url the cards of agents name the addresses of the sidecar that has the store, not of all")
	}
	s.quotas = allowance.New(spacesOf(c))
	s.quotas.Replace(a.files.Load().quotas)
	s.rows = members.Open(members.Config{Via: s.via, Kept: &s.kept})
	return a.join(s)
}

// handing bounds how long the next owner waits for calls that are inside.
const handing = 10 * time.Second

// join makes the way of calls to whoever has the store.
func (a *app) join(s *sharing) error {
	identity, err := peer.NewIdentity()
	if err != nil {
		return err
	}
	late := &lateNode{made: make(chan struct{})}
	s.clients = peer.NewClients(identity, late)
	s.clients.Log = a.opts.log
	s.router = route.New(route.Config{
		Seat: s.seat, Directory: late, Peers: s.clients, Counts: s.counts, BodyBytes: int64(a.opts.config.Limits.MessageBytes),
	})
	s.port, err = peer.NewServer(peer.Config{
		Listen: a.opts.config.PeerListen, Identity: identity, Book: late, Router: s.router, Nudged: late.Refresh, Log: a.opts.log,
	})
	if err != nil {
		return err
	}
	s.me = node.Member{ID: rand.Text(), Address: a.opts.config.PeerAddress, Key: identity.Key, Speaks: layout.Format}
	if s.me.Address == "" {
		s.me.Address = s.port.Addr()
	}
	s.node = node.New(node.Config{
		Me: s.me, Oldest: layout.OldestFormat, Rows: nodeRows{s.rows}, Seat: s.seat, Open: a.take, Nudge: s.clients.Nudge,
		Handing: min(handing, a.opts.config.DrainTimeout), Log: a.opts.log,
	})
	late.be(s.node)
	return nil
}

// spacesOf are the namespaces of a sidecar that may have no store. Their numbers mean nothing
// beside one.
func spacesOf(c config.Config) request.Namespaces {
	spaces := request.Namespaces{}
	for i, name := range c.Namespaces {
		spaces[name] = uint32(i) + 1
	}
	return spaces.WithDefault()
}

// refuses says what would keep this sidecar from having the store, and is better known before
// it has to.
func (a *app) refuses() error {
	_, err := retention(a.opts, nil)
	if key := a.opts.config.A2ACardKey; key != "" {
		_, keyErr := a2a.ReadCardKey(key)
		err = errors.Join(err, keyErr)
	}
	return err
}

// lateNode is the node, which is made after the port that it names.
type lateNode struct {
	node atomic.Pointer[node.Node]
	made chan struct{}
}

func (l *lateNode) be(n *node.Node) {
	l.node.Store(n)
	close(l.made)
}

// Owner implements [route.Directory], as the next two do.
func (l *lateNode) Owner() (route.Peer, bool) {
	if n := l.node.Load(); n != nil {
		return n.Owner()
	}
	return route.Peer{}, false
}

// Changed is closed when there is a node, too.
func (l *lateNode) Changed() <-chan struct{} {
	if n := l.node.Load(); n != nil {
		return n.Changed()
	}
	return l.made
}

// Refresh asks nobody before there is a node.
func (l *lateNode) Refresh() {
	if n := l.node.Load(); n != nil {
		n.Refresh()
	}
}

// Known implements [peer.Book].
func (l *lateNode) Known(key [32]byte) bool {
	n := l.node.Load()
	return n != nil && n.Known(key)
}

// nodeRows are the rows of the database as the node has them.
type nodeRows struct{ *members.Rows }

// Beat implements [node.Rows].
func (r nodeRows) Beat(ctx context.Context, me node.Member) (node.View, error) {
	seen, err := r.Rows.Beat(ctx, members.Node(me))
	view := node.View{Owner: node.Member(seen.Owner), Lease: seen.Lease, Format: seen.Format}
	for _, n := range seen.Nodes {
		view.Nodes = append(view.Nodes, node.Member(n))
	}
	return view, err
}

// Leave implements [node.Rows].
func (r nodeRows) Leave(ctx context.Context, me node.Member) error {
	return r.Rows.Leave(ctx, members.Node(me))
}

// storage is the store as it is opened when it is this sidecar's to take: after the database was
// looked at again, which may be another server by then.
func (s *sharing) storage(c config.Config, log *slog.Logger) store.Options {
	return store.Options{Dir: s.where.String(), Logger: log, Engine: func(o store.Options) (engine.Engine, error) {
		if err := s.where.judged(context.Background(), s.url, wantedOf(c), log); err != nil {
			return nil, err
		}
		e, err := database.Open(database.Config{
			URL: s.url, Schema: s.where.Schema, Owner: s.me.ID, Address: s.me.Address, Via: s.via, Kept: &s.kept, Raise: true, Logger: o.Logger,
		})
		if err != nil {
			return nil, s.where.told(err)
		}
		return e, nil
	}}
}

// start looks after the store together with the others, until stop.
func (s *sharing) start(server *grpcapi.Server) {
	var ctx context.Context
	ctx, s.halt = context.WithCancel(context.Background())
	s.loops.Go(func() { s.ended <- s.port.Serve() })
	s.loops.Go(func() { s.node.Run(ctx) })
	s.loops.Go(func() { s.report(ctx, server) })
}

// report says whether calls are answered, wherever that is.
func (s *sharing) report(ctx context.Context, server *grpcapi.Server) {
	for {
		moved, came := s.node.Changed(), s.seat.Changed()
		_, known := s.node.Owner()
		server.Ready(known || s.seat.Has())
		s.counts.Living(len(s.node.View().Nodes))
		select {
		case <-moved:
		case <-came:
		case <-ctx.Done():
			return
		}
	}
}

// leave hands the store over; calls go on to the next one.
func (s *sharing) leave(ctx context.Context) error {
	return wrap("the store's place", s.node.Leave(ctx))
}

// stop ends what leave has left.
func (s *sharing) stop(ctx context.Context) error {
	if s.halt != nil {
		s.halt()
	}
	var errs []error
	if s.port != nil {
		s.port.Shutdown(ctx)
	}
	if s.clients != nil {
		errs = append(errs, s.clients.Close())
	}
	s.loops.Wait()
	if s.rows != nil {
		s.rows.Close()
	}
	if s.via != nil {
		s.via.Close()
	}
	return wrap("peers", errors.Join(errs...))
}

// held is a tenure that calls reach through the seat.
type held struct {
	*grpcapi.Services
	*tenure
	app *app
	// failed is closed when the store takes no more commits, or one of its loops ended by itself;
	// leaving when it is to be closed.
	failed, leaving, closed chan struct{}
}

// take opens the store, as at a start of one sidecar.
func (a *app) take(ctx context.Context) (node.Tenure, error) {
	t, err := openTenure(a.opts, a.files.Load(), a.shares.storage(a.opts.config, a.opts.log), a.observers)
	if err != nil {
		return nil, err
	}
	h := &held{tenure: t, app: a, failed: make(chan struct{}), leaving: make(chan struct{}), closed: make(chan struct{})}
	h.Services, err = a.server.Services(grpcapi.Offer{
		House: t.house, Deliveries: t.box, Store: &depotOf{store: t.store, paced: true}, Guest: agentsGuest[*grpcapi.Services](t),
	})
	if err != nil {
		return nil, errors.Join(err, t.drain(ctx), t.close())
	}
	t.records.services = h.Services
	a.tenure.Store(t)
	if err := a.furnish(ctx, t); err != nil {
		a.tenure.CompareAndSwap(t, nil)
		return nil, errors.Join(err, t.drain(ctx), t.close())
	}
	t.start()
	go h.attend()
	a.shares.counts.Took()
	return h, nil
}

// furnish puts the packs and schedules of the configuration into a store. What is wrong with these was
// told when the process started; an error is one of the store's, which is to be taken again.
func (a *app) furnish(ctx context.Context, t *tenure) error {
	// No pack goes again, and callers wait for the compiling of all.
	if !a.shares.offered.Load() {
		_, err := t.registerPacks(ctx, t.opts.config.Packs)
		if isAway(err) {
			return err
		}
		if err != nil {
			t.opts.log.Error("packs of the configuration are not registered", "error", err)
		}
	}
	err := t.agree(ctx)
	if isAway(err) {
		return err
	}
	if err != nil {
		t.opts.log.Error("schedules of the configuration do not hold", "error", err)
	}
	return nil
}

// isAway: it was nobody's fault who asked, and may be otherwise a moment later.
func isAway(err error) bool {
	if err == nil {
		return false
	}
	st, _ := fault.Status(err)
	return st.Code() == codes.Unavailable
}

// attend tells of a failure.
func (h *held) attend() {
	select {
	case <-h.leaving:
		return
	case <-h.house.Failed():
	case err := <-h.ended:
		h.ended <- err // whoever waits for the loops counts it
	}
	close(h.failed)
}

// Failed implements [route.Home].
func (h *held) Failed() <-chan struct{} { return h.failed }

// Closed implements [node.Tenure].
func (h *held) Closed() <-chan struct{} { return h.closed }

// Close implements [node.Tenure]: as the end of one sidecar.
func (h *held) Close(ctx context.Context) error {
	outcome := telemetry.HandedOver
	select {
	case <-h.failed:
		outcome = telemetry.StoreLost
	default:
	}
	close(h.leaving)
	err := h.drain(ctx)
	h.app.tenure.CompareAndSwap(h.tenure, nil)
	err = errors.Join(err, h.close())
	h.app.shares.counts.Gave(outcome)
	close(h.closed)
	return err
}

var errFaulty = errors.New("has errors")

// offerPacks registers files in order wherever the store is, and returns their names.
func (a *app) offerPacks(ctx context.Context, paths []string) ([]string, error) {
	ctx = door.WithCaller(ctx, &door.Caller{Principal: runtime.Principal{Name: runtime.SidecarName, Scopes: runtime.ScopePacksWrite}})
	names := make([]string, 0, len(paths))
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return names, err
		}
		loaded, found, err := pack.Load(content, packOptions(a.opts.config))
		if err == nil && loaded == nil {
			err = errFaulty
		}
		if err != nil {
			return names, &PackError{Path: path, Diagnostics: found, Err: err}
		}
		if err := a.offerPack(ctx, content); err != nil {
			return names, &PackError{Path: path, Err: err}
		}
		names = append(names, loaded.ID+"@"+loaded.Version)
	}
	return names, nil
}

// offerAgain is the pause between two tries to register a pack.
const offerAgain = 200 * time.Millisecond

// offerPack registers a pack. While nobody can commit it waits: a sidecar that starts then serves as soon
// as one that has served before.
func (a *app) offerPack(ctx context.Context, content []byte) error {
	for said := ""; ; {
		_, err := a.shares.router.Unary(ctx, &pawlv1.RegisterPackRequest{Content: content}, &grpc.UnaryServerInfo{FullMethod: pawlv1.PackService_RegisterPack_FullMethodName}, nil)
		if !isAway(err) {
			return err
		}
		if why := err.Error(); why != said {
			a.opts.log.Warn("the packs of the configuration cannot be registered now, it is tried on", "error", err)
			said = why
		}
		select {
		case <-time.After(offerAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
