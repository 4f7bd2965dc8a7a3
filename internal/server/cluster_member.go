package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/a2a"
	"github.com/pawl-dev/pawl/internal/cluster/membership"
	"github.com/pawl-dev/pawl/internal/cluster/router"
	"github.com/pawl-dev/pawl/internal/cluster/transport"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/internal/store/pg/members"
	"github.com/pawl-dev/pawl/internal/store/pgengine"
	"github.com/pawl-dev/pawl/internal/telemetry"
)

// This line does not compile if the router and the database have different numbers of partitions.
var _ [0]struct{} = [pg.Partitions - router.Partitions]struct{}{}

// clusterMember makes a sidecar a node of a cluster whose nodes share one database. The node owns some
// partitions of the store, may take over other partitions, and accepts calls for all of them.
type clusterMember struct {
	where Database
	url   dsn.URL
	// renewedEpochs are the epochs under which this node owns partitions.
	renewedEpochs members.Epochs
	pool          *pg.Pool
	rows          *members.Membership
	// parts has the partition of each served namespace.
	parts  map[string]int32
	spaces validate.Namespaces

	me      membership.Member
	slots   *router.Slots
	router  *router.Router
	clients *transport.Clients
	port    *transport.Server
	node    *membership.Node
	counts  *telemetry.Nodes
	// quotas limit the calls that callers make to this sidecar.
	quotas *quota.Limits

	halt  context.CancelFunc
	loops sync.WaitGroup
	ended chan error
	// offered reports whether the packs of the configuration are registered in the store.
	offered atomic.Bool
}

// share connects to the database, assigns a partition to each namespace, and builds the parts of the
// cluster. It does not serve yet and does not notify other nodes yet.
func (a *app) share(ctx context.Context) (err error) {
	c := a.opts.config
	s := &clusterMember{where: databaseOf(c), slots: router.NewSlots(), counts: a.observers.metrics.Nodes(), ended: make(chan error, 1)}
	if s.url, err = s.where.secured(c, a.opts.log); err != nil {
		return err
	}
	if err = s.where.judged(ctx, s.url, wantedOf(c), a.opts.log); err != nil {
		return err
	}
	a.cluster = s
	if s.pool, err = pg.Connect(ctx, pg.Config{URL: s.url, Schema: s.where.Schema}); err != nil {
		return s.where.userError(err)
	}
	if err = a.refuses(); err != nil {
		return err
	}
	if c.A2A && c.A2AURL == "" {
		a.opts.log.Warn("--a2a-url not set, agent cards name a single node")
	}
	s.spaces = spacesOf(c)
	s.quotas = quota.New(s.spaces)
	s.quotas.Replace(a.files.Load().quotas)
	s.rows = members.Open(members.Config{Pool: s.pool, RenewedEpochs: &s.renewedEpochs})
	if err = s.place(ctx, c.Served(), a.opts.log); err != nil {
		return err
	}
	a.warnOfLimits(len(s.partitions()))
	return a.join(s)
}

// placementTimeout is how long a start waits for a database that accepts no commit, for example because
// its standby is unavailable. placementRetryDelay is the pause between two attempts. lease is the lease
// of nodes and partitions.
const (
	placementTimeout    = time.Minute
	placementRetryDelay = time.Second
	lease               = 3 * time.Second
)

// place assigns each namespace a partition.
func (s *clusterMember) place(ctx context.Context, names []string, log *slog.Logger) error {
	for began := time.Now(); ; {
		parts, err := s.rows.Place(ctx, names, layout.NamespaceKey)
		if err == nil {
			s.parts = parts
			return nil
		}
		if ctx.Err() == nil && time.Since(began) > placementTimeout {
			return s.where.userError(err)
		}
		log.Warn("assigning namespaces to partitions failed, retrying", "error", err)
		select {
		case <-time.After(placementRetryDelay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// warnOfLimits logs the limits of calls that are not exact if the store has several partitions.
func (a *app) warnOfLimits(parts int) {
	for _, limit := range a.files.Load().limits.Limits {
		if parts > 1 && !strings.Contains(limit.Source, "namespace") {
			a.opts.log.Warn("limit applies to each partition separately", "limit_id", limit.ID, "partitions", parts)
		}
	}
}

// partOf returns the partition of a served namespace.
func (s *clusterMember) partOf(namespace string) int32 { return s.parts[namespace] }

// served returns an error if a namespace does not exist. The error lists the namespaces that the caller
// may use.
func (s *clusterMember) served(ctx context.Context, namespace string) error {
	_, err := s.spaces.Within(namespace, auth.CallerOf(ctx).Namespaces)
	return err
}

// partitions returns the partitions of the served namespaces.
func (s *clusterMember) partitions() (all []router.Partition) {
	names := map[int32][]string{}
	for name, part := range s.parts {
		names[part] = append(names[part], name)
	}
	for _, part := range slices.Sorted(maps.Keys(names)) {
		all = append(all, router.Partition{Number: part, Namespaces: slices.Sorted(slices.Values(names[part]))})
	}
	return all
}

// mask returns a bit mask of the partitions that this sidecar may own.
func (s *clusterMember) mask() (mask uint64) {
	for _, part := range s.parts {
		mask |= 1 << part
	}
	return mask
}

// leastHeld is the minimum memory for states and records that each partition may use, in bytes.
const leastHeld = 8 << 20

// partitionOptions returns the options of a partition. They contain the namespaces of the partition. If
// the partition has the default namespace, they also contain the packs of the configuration, because
// these are registered in the default namespace.
func (s *clusterMember) partitionOptions(opts options, part int32) options {
	opts.serves = func(namespace string) bool { return s.partOf(namespace) == part }
	opts.config.Namespaces = slices.DeleteFunc(slices.Clone(opts.config.Namespaces), func(name string) bool { return !opts.serves(name) })
	if !opts.serves(runtime.DefaultNamespace) {
		opts.config.Packs = nil
	}
	// This sidecar may own all partitions at the same time, so the partitions share the memory.
	for _, bytes := range []*config.Bytes{&opts.config.Limits.CacheBytes, &opts.config.Limits.WatchBytes} {
		*bytes = max(*bytes/config.Bytes(len(s.partitions())), min(*bytes, leastHeld))
	}
	opts.log = opts.log.With("partition", part)
	return opts
}

// handoverTimeout limits how long the next owner waits for the running calls of a partition.
const handoverTimeout = 10 * time.Second

// join builds the router of calls to the owners of the partitions.
func (a *app) join(s *clusterMember) error {
	identity, err := transport.NewIdentity()
	if err != nil {
		return err
	}
	late := &deferredNode{made: make(chan struct{})}
	s.clients = transport.NewClients(identity, late)
	s.clients.Log = a.opts.log
	s.router = router.New(router.Config{
		Slots: s.slots, Directory: late, Parts: s.partOf, Served: s.served, Partitions: s.partitions(), Address: func() string { return s.me.Address }, Tenant: a2a.TenantOf, Peers: s.clients, Counts: s.counts, BodyBytes: int64(a.opts.config.Limits.MessageBytes),
	})
	s.port, err = transport.NewServer(transport.Config{
		Listen: a.opts.config.PeerListen, Identity: identity, TrustStore: late, Router: s.router, OnNotify: late.Refresh, Log: a.opts.log,
	})
	if err != nil {
		return err
	}
	s.me = membership.Member{ID: rand.Text(), Address: a.opts.config.PeerAddress, Key: identity.Key, Speaks: layout.Format, Parts: s.mask()}
	if s.me.Address == "" {
		s.me.Address = s.port.Addr()
	}
	s.node = membership.New(membership.Config{
		Me: s.me, Oldest: layout.OldestFormat, Registry: &nodeRegistry{Membership: s.rows, checkPlacement: s.checkPlacement}, Slot: func(part int32) membership.Slot { return s.slots.At(part) }, Open: a.acquirePartition, NotifyPeer: s.clients.NotifyPeer,
		Lease: lease, HandoverTimeout: min(handoverTimeout, a.opts.config.DrainTimeout), Log: a.opts.log,
	})
	late.set(s.node)
	return nil
}

// spacesOf returns the namespaces of a sidecar that may have no open store. The numbers of these
// namespaces have no meaning, because numbers are valid only within a store.
func spacesOf(c config.Config) validate.Namespaces {
	spaces := validate.Namespaces{}
	for i, name := range c.Namespaces {
		spaces[name] = uint32(i) + 1
	}
	return spaces.WithDefault()
}

// refuses returns the faults of the configuration that would prevent this sidecar from opening a
// partition. It is called at the start. So the faults are reported before the sidecar has to take over
// a partition.
func (a *app) refuses() error {
	opts := a.opts
	opts.serves = func(string) bool { return false } // another one may write archives now
	_, err := retentionPolicy(opts, nil)
	if key := a.opts.config.A2ACardKey; key != "" {
		_, keyErr := a2a.ReadCardKey(key)
		err = errors.Join(err, keyErr)
	}
	return err
}

// deferredNode represents the node of this sidecar before the node exists. It is needed because the
// node is created after the port whose address the node contains.
type deferredNode struct {
	node atomic.Pointer[membership.Node]
	made chan struct{}
}

func (l *deferredNode) set(n *membership.Node) {
	l.node.Store(n)
	close(l.made)
}

// Owner implements [router.Directory]. Before the node exists, no partition has an owner.
func (l *deferredNode) Owner(part int32) (router.Peer, bool) {
	if n := l.node.Load(); n != nil {
		return n.Owner(part)
	}
	return router.Peer{}, false
}

// Owners implements [router.Directory]. Before the node exists, it returns none.
func (l *deferredNode) Owners() ([]router.Peer, bool) {
	if n := l.node.Load(); n != nil {
		return n.Owners()
	}
	return nil, false
}

// Changed implements [router.Directory]. The channel is also closed when the node is created.
func (l *deferredNode) Changed() <-chan struct{} {
	if n := l.node.Load(); n != nil {
		return n.Changed()
	}
	return l.made
}

// Refresh implements [router.Directory]. Before the node exists, it does nothing.
func (l *deferredNode) Refresh() {
	if n := l.node.Load(); n != nil {
		n.Refresh()
	}
}

// NonEmpty implements [router.Directory]. Before the node exists, it returns none.
func (l *deferredNode) NonEmpty() []int32 {
	if n := l.node.Load(); n != nil {
		return n.NonEmpty()
	}
	return nil
}

// Known implements [transport.TrustStore].
func (l *deferredNode) Known(key [32]byte) bool {
	n := l.node.Load()
	return n != nil && n.Known(key)
}

// nodeRegistry adapts the rows of nodes in the database to the interface that the node needs.
type nodeRegistry struct {
	*members.Membership
	// checkPlacement returns an error if the namespaces were split. It is called when more time than a
	// lease has passed since the last heartbeat, because a split may have run in that time.
	checkPlacement func(placed map[string]int32, err error) error
	last           time.Time
}

// Heartbeat implements [membership.Registry]. Heartbeats run one after the other.
func (r *nodeRegistry) Heartbeat(ctx context.Context, me membership.Member) (membership.View, error) {
	now := time.Now()
	if !r.last.IsZero() && (now.Sub(r.last) > lease || now.Round(0).Sub(r.last.Round(0)) > lease) { // a suspended machine's clock stands still
		if err := r.checkPlacement(r.Placed(ctx)); err != nil {
			return membership.View{}, err
		}
	}
	seen, err := r.Membership.Heartbeat(ctx, members.Node(me))
	if err == nil {
		r.last = now
	}
	view := membership.View{Nodes: make([]membership.Member, len(seen.Nodes)), Parts: make([]membership.Partition, len(seen.Parts))}
	for i, n := range seen.Nodes {
		view.Nodes[i] = membership.Member(n)
	}
	for i, p := range seen.Parts {
		view.Parts[i] = membership.Partition{ID: p.ID, Owner: membership.Member(p.Owner), Lease: p.Lease, Format: p.Format, NonEmpty: p.NonEmpty}
	}
	return view, err
}

// Deregister implements [membership.Registry].
func (r *nodeRegistry) Deregister(ctx context.Context, me membership.Member) error {
	return r.Membership.Deregister(ctx, members.Node(me))
}

// storage returns the options with which a partition is opened. The database is checked again at each
// takeover, because it may be on another server by then.
func (s *clusterMember) storage(c config.Config, part int32, log *slog.Logger) store.Options {
	return store.Options{Dir: s.where.part(part).String(), Logger: log, Engine: func(o store.Options) (engine.Engine, error) {
		if err := s.where.judged(context.Background(), s.url, wantedOf(c), log); err != nil {
			return nil, err
		}
		e, err := pgengine.Open(pgengine.Config{
			URL: s.url, Schema: s.where.Schema, Part: part, Owner: s.me.ID, Address: s.me.Address, Pool: s.pool, RenewedEpoch: &s.renewedEpochs[part], Raise: true, Logger: o.Logger,
		})
		if err != nil {
			return nil, s.where.userError(err)
		}
		if err := s.checkPlacement(s.pool.Placed(context.Background())); err != nil {
			return nil, errors.Join(err, e.Close())
		}
		return e, nil
	}}
}

// checkPlacement ends a sidecar whose placement of namespaces is out of date, because the namespaces
// were split while the sidecar was suspended. It is called after a partition was taken over, because no
// split can run then, and after a gap between heartbeats.
func (s *clusterMember) checkPlacement(placed map[string]int32, err error) error {
	if err != nil {
		return s.where.userError(err)
	}
	for name, part := range s.parts {
		if placed[name] == part {
			continue
		}
		err := fmt.Errorf("namespace %q is in partition %d now, it was in %d when this sidecar started: start it again", name, placed[name], part)
		s.fail(err)
		return err
	}
	return nil
}

// fail sets the reason why this sidecar ends. Several partitions may fail at the same time. Only the
// first reason is kept.
func (s *clusterMember) fail(err error) {
	select {
	case s.ended <- err:
	default:
	}
}

// start runs the node until stop.
func (s *clusterMember) start(server *grpcapi.Server) {
	var ctx context.Context
	ctx, s.halt = context.WithCancel(context.Background())
	s.loops.Go(func() { s.fail(s.port.Serve()) })
	s.loops.Go(func() { s.node.Run(ctx) })
	s.loops.Go(func() { s.report(ctx, server) })
}

// report sets whether the server is ready. It is ready if at least one partition is served, by this
// node or by another one. One partition is enough, because a load balancer sends no calls to a sidecar
// that is not ready.
func (s *clusterMember) report(ctx context.Context, server *grpcapi.Server) {
	for {
		moved, came := s.node.Changed(), s.slots.Changed()
		server.Ready(s.node.Knows() || s.slots.Has())
		view := s.node.View()
		s.counts.Seen(len(view.Nodes), view.Unowned())
		select {
		case <-moved:
		case <-came:
		case <-ctx.Done():
			return
		}
	}
}

// drain hands over the partitions of this node. Meanwhile calls are forwarded to the next owners.
func (s *clusterMember) drain(ctx context.Context) error {
	return wrap("the store's place", s.node.Drain(ctx))
}

// stop closes the node and the partitions that drain could not hand over.
func (s *clusterMember) stop(ctx context.Context) error {
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
	if s.pool != nil {
		s.pool.Close()
	}
	return wrap("peers", errors.Join(errs...))
}

var errFaulty = errors.New("has errors")

// offerPacks registers pack files in order, at the owner of the partition, and returns the names of the
// packs.
func (a *app) offerPacks(ctx context.Context, paths []string) ([]string, error) {
	ctx = auth.WithCaller(ctx, &auth.Caller{Principal: runtime.Principal{Subject: runtime.SidecarName, Scopes: runtime.ScopePacksWrite}})
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
		pack.LogWarnings(ctx, a.opts.log, path, found)
		names = append(names, loaded.ID+"@"+loaded.Version)
	}
	return names, nil
}

// packRetryDelay is the pause between two attempts to register a pack.
const packRetryDelay = 200 * time.Millisecond

// offerPack registers a pack. It waits while no node can commit, because a running sidecar would also
// wait, and the start of a sidecar should not fail for this reason.
func (a *app) offerPack(ctx context.Context, content []byte) error {
	for said := ""; ; {
		_, err := a.cluster.router.Unary(ctx, &pawlv1.RegisterPackRequest{Content: content}, &grpc.UnaryServerInfo{FullMethod: pawlv1.PackService_RegisterPack_FullMethodName}, nil)
		if !isAway(err) {
			return err
		}
		if why := err.Error(); why != said {
			a.opts.log.Warn("registering configured packs failed, retrying", "error", err)
			said = why
		}
		select {
		case <-time.After(packRetryDelay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
