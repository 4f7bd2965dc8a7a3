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
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/a2a"
	"github.com/pawl-dev/pawl/internal/cluster/membership"
	"github.com/pawl-dev/pawl/internal/cluster/router"
	"github.com/pawl-dev/pawl/internal/cluster/transport"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
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
// partitions of the store, may take over others, and accepts calls for all of them.
type clusterMember struct {
	location Database
	url      dsn.URL
	// renewedEpochs are the epochs (numbers of ownership) under which this node owns partitions.
	// Heartbeats renew the leases of these partitions.
	renewedEpochs members.Epochs
	pool          *pg.Pool
	rows          *members.Membership
	// parts has the partition of each served namespace.
	parts  map[string]int32
	spaces validate.Namespaces

	self    membership.Member
	slots   *router.Slots
	router  *router.Router
	clients *transport.Clients
	port    *transport.Server
	node    *membership.Node
	counts  *telemetry.Nodes
	// quotas limit the calls that callers make to this sidecar.
	quotas *quota.Limits

	cancel context.CancelFunc
	loops  sync.WaitGroup
	ended  chan error
	// packsRegistered means that the configured packs are registered in the store, so that a takeover does not
	// register them again.
	packsRegistered atomic.Bool
}

// share connects to the database, assigns a partition to each namespace, and builds the parts of the
// cluster. After share, the node still serves no calls, and other nodes do not know it. start changes
// both.
func (a *app) share(ctx context.Context) (err error) {
	c := a.opts.config
	s := &clusterMember{location: databaseOf(c), slots: router.NewSlots(), counts: a.observers.metrics.Nodes(), ended: make(chan error, 1)}
	if s.url, err = s.location.secured(c, a.opts.log); err != nil {
		return err
	}
	if err = s.location.checkDurability(ctx, s.url, wantedOf(c), a.opts.log); err != nil {
		return err
	}
	a.cluster = s
	if s.pool, err = pg.Connect(ctx, pg.Config{URL: s.url, Schema: s.location.Schema}); err != nil {
		return s.location.explained(ctx, s.url, err)
	}
	if err = a.checkPartitionConfig(); err != nil {
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
// its standby is unavailable. placementRetryDelay is the pause between two attempts. lease is how long
// a node counts as running after a heartbeat, and how long it keeps a partition.
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
		err = s.location.explained(ctx, s.url, err)
		if ctx.Err() == nil && time.Since(began) > placementTimeout {
			return err
		}
		log.Warn("assigning namespaces to partitions failed, retrying", "error", err)
		select {
		case <-time.After(placementRetryDelay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// warnOfLimits logs a warning about limits of calls that apply to each partition separately, if there
// are several partitions.
func (a *app) warnOfLimits(parts int) {
	for _, limit := range a.files.Load().limits.Limits {
		if parts > 1 && !strings.Contains(limit.Source, "namespace") {
			a.opts.log.Warn("limit applies to each partition separately", "limit_id", limit.ID, "partitions", parts)
		}
	}
}

// partOf returns the partition of a served namespace.
func (s *clusterMember) partOf(namespace string) int32 { return s.parts[namespace] }

// checkNamespace returns an error if a namespace is not served by this sidecar. The error lists the namespaces
// that the caller may use.
func (s *clusterMember) checkNamespace(ctx context.Context, namespace string) error {
	_, err := s.spaces.NumberWithin(namespace, auth.CallerOf(ctx).Namespaces)
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

// leastHeld is the minimum memory for states and records that each partition may use, in bytes. A lower
// configured limit stays as it is.
const leastHeld = 8 << 20

// partitionOptions returns the options for opening one partition. They contain the namespaces of the
// partition and its share of the memory. The configured packs are registered in the default namespace,
// so only the partition with this namespace has them.
func (s *clusterMember) partitionOptions(opts options, part int32) options {
	opts.servesNamespace = func(namespace string) bool { return s.partOf(namespace) == part }
	opts.config.Namespaces = slices.DeleteFunc(slices.Clone(opts.config.Namespaces), func(name string) bool { return !opts.servesNamespace(name) })
	if !opts.servesNamespace(runtime.DefaultNamespace) {
		opts.config.Packs = nil
	}
	// This sidecar may own all partitions at the same time, so the limits of memory are divided among
	// them.
	for _, bytes := range []*config.Bytes{&opts.config.Limits.CacheBytes, &opts.config.Limits.WatchBytes} {
		*bytes = max(*bytes/config.Bytes(len(s.partitions())), min(*bytes, leastHeld))
	}
	opts.log = opts.log.With("partition", part)
	return opts
}

// handoverTimeout limits how long the next owner waits for the running calls of a partition.
const handoverTimeout = 10 * time.Second

// join builds the parts with which this node calls other nodes and is called by them: the router, the
// port, the connections and the membership.
func (a *app) join(s *clusterMember) error {
	identity, err := transport.NewIdentity()
	if err != nil {
		return err
	}
	late := &deferredNode{ready: make(chan struct{})}
	s.clients = transport.NewClients(identity, late)
	s.clients.Log = a.opts.log
	s.router = router.New(router.Config{
		Slots: s.slots, Directory: late, Parts: s.partOf, Served: s.checkNamespace, Partitions: s.partitions(), Address: func() string { return s.self.Address }, Tenant: a2a.TenantOf, Peers: s.clients, Counts: s.counts, BodyBytes: int64(a.opts.config.Limits.MessageBytes),
	})
	s.port, err = transport.NewServer(transport.Config{
		Listen: a.opts.config.PeerListen, Identity: identity, TrustStore: late, Router: s.router, OnNotify: late.Refresh, Log: a.opts.log,
	})
	if err != nil {
		return err
	}
	s.self = membership.Member{ID: rand.Text(), Address: a.opts.config.PeerAddress, Key: identity.Key, Speaks: layout.Format, Parts: s.mask()}
	if s.self.Address == "" {
		s.self.Address = s.port.Addr()
	}
	s.node = membership.New(membership.Config{
		Self: s.self, Oldest: layout.OldestFormat, Registry: &nodeRegistry{Membership: s.rows, checkPlacement: s.checkPlacement}, Slot: func(part int32) membership.Slot { return s.slots.At(part) }, Open: a.acquirePartition, NotifyPeer: s.clients.NotifyPeer,
		FindHindrance: func(ctx context.Context, err error) error { return s.location.hindrance(ctx, s.url, err, err) },
		Lease:         lease, HandoverTimeout: min(handoverTimeout, a.opts.config.DrainTimeout), Log: a.opts.log,
	})
	late.set(s.node)
	s.counts.Watch(func() telemetry.ClusterState {
		living, unowned := s.node.Counts()
		return telemetry.ClusterState{Owned: s.slots.CountAccepted(), Living: living, Unowned: unowned}
	})
	return nil
}

// spacesOf returns the served namespaces with numbers that have no meaning. Real numbers are valid only
// within one store, and this sidecar may have none open.
func spacesOf(c config.Config) validate.Namespaces {
	spaces := validate.Namespaces{}
	for i, name := range c.Namespaces {
		spaces[name] = uint32(i) + 1
	}
	return spaces.WithDefault()
}

// checkPartitionConfig returns the faults of the configuration because of which this sidecar could not open a
// partition. It is called at the start, before the sidecar takes over a partition.
func (a *app) checkPartitionConfig() error {
	opts := a.opts
	opts.servesNamespace = func(string) bool { return false } // another sidecar may write archives now, so no incomplete file is removed
	_, err := retentionPolicy(opts, nil)
	if key := a.opts.config.A2ACardKey; key != "" {
		_, keyErr := a2a.ReadCardKey(key)
		err = errors.Join(err, keyErr)
	}
	return err
}

// deferredNode passes calls to the node of this sidecar as soon as the node exists. The port and the
// router are created before the node, because the node needs the address of the port.
type deferredNode struct {
	node  atomic.Pointer[membership.Node]
	ready chan struct{}
}

func (l *deferredNode) set(n *membership.Node) {
	l.node.Store(n)
	close(l.ready)
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
	return l.ready
}

// Stale implements [router.Directory].
func (l *deferredNode) Stale() bool {
	n := l.node.Load()
	return n != nil && n.Stale()
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

// KnowsKey implements [transport.TrustStore].
func (l *deferredNode) KnowsKey(key [32]byte) bool {
	n := l.node.Load()
	return n != nil && n.KnowsKey(key)
}

// nodeRegistry adapts the membership tables in the database to the interface that the node needs.
type nodeRegistry struct {
	*members.Membership
	// checkPlacement returns an error if a namespace has moved to another partition. It is called if
	// more than the length of a lease has passed since the last heartbeat. In this time, a split of
	// partition 0 may have run.
	checkPlacement func(placed map[string]int32, err error) error
	last           time.Time
}

// Heartbeat implements [membership.Registry]. Heartbeats run one after the other.
func (r *nodeRegistry) Heartbeat(ctx context.Context, me membership.Member) (membership.View, error) {
	now := time.Now()
	if !r.last.IsZero() && (now.Sub(r.last) > lease || now.Round(0).Sub(r.last.Round(0)) > lease) { // the wall clock includes suspension
		if err := r.checkPlacement(r.Placements(ctx)); err != nil {
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

// storage returns the options with which a partition is opened. The settings of the database server are
// checked at each takeover, because the database may be on another server by then.
func (s *clusterMember) storage(c config.Config, part int32, log *slog.Logger) store.Options {
	return store.Options{Dir: s.location.part(part).String(), Logger: log, UsageLabels: c.UsageLabels, Engine: func(o store.Options) (engine.Engine, error) {
		if err := s.location.checkDurability(context.Background(), s.url, wantedOf(c), log); err != nil {
			return nil, err
		}
		e, err := pgengine.Open(pgengine.Config{
			URL: s.url, Schema: s.location.Schema, Part: part, Owner: s.self.ID, Address: s.self.Address, Pool: s.pool, RenewedEpoch: &s.renewedEpochs[part], Raise: true, Logger: o.Logger,
		})
		if err != nil {
			return nil, s.location.userError(err)
		}
		if err := s.checkPlacement(s.pool.Placements(context.Background())); err != nil {
			return nil, errors.Join(err, e.Close())
		}
		return e, nil
	}}
}

// checkPlacement ends the sidecar if a namespace has moved to another partition since the sidecar
// started. A split of partition 0 can do this while the sidecar is suspended. checkPlacement is called
// after a long gap between heartbeats, and after the takeover of a partition, when no split can run.
func (s *clusterMember) checkPlacement(placed map[string]int32, err error) error {
	if err != nil {
		return s.location.userError(err)
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

// fail sets the error with which this sidecar ends. Several partitions may fail at the same time. Only
// the first error is kept.
func (s *clusterMember) fail(err error) {
	select {
	case s.ended <- err:
	default:
	}
}

// start starts the port for other nodes, the node, and the reports of readiness to the server. They run
// until stop is called.
func (s *clusterMember) start(server *grpcapi.Server) {
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	s.loops.Go(func() { s.fail(s.port.Serve()) })
	s.loops.Go(func() { s.node.Run(ctx) })
	s.loops.Go(func() { s.report(ctx, server) })
}

// report tells the server whether the sidecar is ready. It is ready if this node or another one serves
// at least one partition. One is enough, because a load balancer sends no calls to a sidecar that is
// not ready.
func (s *clusterMember) report(ctx context.Context, server *grpcapi.Server) {
	for {
		moved, came := s.node.Changed(), s.slots.Changed()
		server.Ready(s.node.KnowsOtherOwner() || s.slots.CountAccepted() > 0)
		select {
		case <-moved:
		case <-came:
		case <-ctx.Done():
			return
		}
	}
}

// drain hands over the partitions of this node to other nodes. Meanwhile calls are forwarded to the new
// owners.
func (s *clusterMember) drain(ctx context.Context) error {
	return wrap("the store's place", s.node.Drain(ctx))
}

// stop closes the node, and also the partitions that drain could not hand over.
func (s *clusterMember) stop(ctx context.Context) error {
	if s.cancel != nil {
		s.cancel()
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

// offerPacks registers the configured pack files in order and returns the names of the packs. The node
// that owns the partition of the default namespace stores them.
func (a *app) offerPacks(ctx context.Context, paths []string) ([]string, error) {
	if len(paths) == 0 {
		return []string{}, nil
	}
	ctx = auth.WithCaller(ctx, &auth.Caller{Principal: runtime.Principal{Subject: runtime.SidecarName, Scopes: runtime.ScopePacksWrite}})
	names := make([]string, 0, len(paths))
	before, err := a.clusterDefaults(ctx)
	if err != nil {
		return names, err
	}
	configured := map[string]string{}
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
		if _, err := a.routed(ctx, pawlv1.PackService_RegisterPack_FullMethodName, &pawlv1.RegisterPackRequest{Content: content}); err != nil {
			return names, &PackError{Path: path, Err: err}
		}
		configured[loaded.ID] = loaded.Version
		pack.LogWarnings(ctx, a.opts.log, path, found)
		names = append(names, loaded.ID+"@"+loaded.Version)
	}
	warnChangedDefaults(a.opts.log, before, configured)
	return names, nil
}

// clusterDefaults returns the version that an id without a version means, for each pack of the default
// namespace. The node that owns its partition answers.
func (a *app) clusterDefaults(ctx context.Context) (map[string]string, error) {
	versions := map[string]string{}
	for token := ""; ; {
		got, err := a.routed(ctx, pawlv1.PackService_ListPacks_FullMethodName, &pawlv1.ListPacksRequest{PageToken: token})
		if err != nil {
			return nil, err
		}
		page, ok := got.(*pawlv1.ListPacksResponse)
		if raw, encoded := got.(codec.Message); encoded { // another node has answered
			page, ok = &pawlv1.ListPacksResponse{}, true
			if err := proto.Unmarshal(raw, page); err != nil {
				return nil, fmt.Errorf("ListPacks of another node: %w", err)
			}
		}
		if !ok {
			return nil, fmt.Errorf("ListPacks answered %T", got)
		}
		for _, p := range page.GetPacks() {
			if p.GetIsDefault() {
				versions[p.GetId()] = p.GetVersion()
			}
		}
		if token = page.GetNextPageToken(); token == "" {
			return versions, nil
		}
	}
}

// packRetryDelay is the pause between two attempts of a call about packs.
const packRetryDelay = 200 * time.Millisecond

// routed makes a call about packs at the node that owns them. While the error is temporary, for example
// because no node can commit, it retries, so that the start of the sidecar does not fail.
func (a *app) routed(ctx context.Context, method string, req any) (any, error) {
	for said := ""; ; {
		got, err := a.cluster.router.Unary(ctx, req, &grpc.UnaryServerInfo{FullMethod: method}, nil)
		if !isAway(err) {
			return got, err
		}
		if why := err.Error(); why != said {
			a.opts.log.Warn("registering configured packs failed, retrying", "error", err)
			said = why
		}
		select {
		case <-time.After(packRetryDelay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
