//go:build sim

package simulation

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/internal/a2a"
	"github.com/pawl-dev/pawl/internal/a2a/client"
	"github.com/pawl-dev/pawl/internal/delivery"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/budget"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/test/simulation/disk"
)

// process is one life of a node: a whole sidecar, built like package server builds it, without
// listeners and metrics.
type process struct {
	store *store.Store
	// ns is the number of the namespace that the simulation reads in the store.
	ns    uint32
	house *services.Runtime
	box   *delivery.Outbox
	// accounts are the operator's accounts over all runs.
	accounts *budget.Ledger
	// server is nil for a process that owns the store of a cluster. The server of its life then serves.
	server   *grpcapi.Server
	services *grpcapi.Services
	peers    *grpc.ClientConn
	clock    *clock
	halt     context.CancelFunc
	// ctx ends with the process, and later calls are not answered. For a process that owns the store of
	// a cluster, ctx ends when its lease may have ended, and works ends later.
	ctx, works context.Context
	loop       chan error
	// executing ends with the sidecar's own executor.
	executing *sync.WaitGroup
	// life is the cluster process that owns the store, or nil if there is no cluster.
	life *life
}

// feed gives the outbox the records of webhooks, as in package server.
type feed struct{ p *process }

func (f feed) Open(ctx context.Context, sub *machine.Subscription) (delivery.Events, error) {
	return f.p.services.RecordFeed(ctx, sub)
}

func (f feed) May(sub *machine.Subscription) error {
	return f.p.services.MayRead(sub.Owner, sub.Namespace, runtime.ScopeRunsRead)
}

// boot starts a process on the data of a node.
func (n *node) boot() (*process, error) {
	p := newProcess(n.clock)
	var err error
	p.store, err = store.Open(n.storage(n.hooks(), n.engine()))
	if err != nil {
		return nil, err
	}
	if err := n.build(p); err != nil {
		return nil, fmt.Errorf("build: %w", err)
	}
	if err := n.serve(p); err != nil {
		return nil, fmt.Errorf("build: %w", err)
	}
	p.run(p.server.Serve)
	p.keepTime(n)
	return p, n.execute(p.works, p.server, p.executing)
}

func newProcess(clock *clock) *process {
	p := &process{clock: clock, loop: make(chan error, 4), executing: &sync.WaitGroup{}}
	p.works, p.halt = context.WithCancel(context.Background())
	p.ctx = p.works
	return p
}

// storage returns the options with which the store of a node is opened.
func (n *node) storage(hooks store.Hooks, open func(store.Options) (engine.Engine, error)) store.Options {
	return store.Options{Dir: n.dir, MinFree: minFree, FreeSpace: disk.Free, MarkInterval: n.world.knobs.marks, Hooks: hooks, Engine: open}
}

// run starts the loops of the process, and the functions in more.
func (p *process) run(more ...func() error) {
	of := func(run func(context.Context) error) func() error { return func() error { return run(p.works) } }
	for _, run := range slices.Concat([]func() error{of(p.house.Run)}, more, []func() error{of(p.box.Run), of(p.house.Blobs.Run)}) {
		go func() { p.loop <- run() }()
	}
}

const minFree = 1 << 20

func (n *node) build(p *process) (err error) {
	k := &n.world.knobs
	if p.accounts, err = n.newAccounts(p.store); err != nil {
		return err
	}
	if p.house, err = services.New(services.Config{
		Config: runtime.Config{
			Namespaces: p.namespaces(n), Store: p.store, Accounts: p.accounts, Clock: p.clock, IDs: runtime.NewSystemIDs(), AllowTools: []string{"*"},
			CacheBytes: k.cache, QueueLimit: k.queue, Models: func() []string { return []string{modelName} },
		},
		Work:      dispatch.Config{Lease: 5 * time.Second, StepGrace: 2 * time.Second, RestartGrace: 4 * time.Second},
		TailBytes: k.tail, Heartbeat: 10 * time.Second, Archive: p.store, Subscriptions: p.store, Blobs: p.store, ScheduleStore: p.store.Schedules(),
	}); err != nil {
		return err
	}
	if limits := n.world.limits(); limits != nil {
		p.house.Admission.Replace(limits)
	}
	if p.peers, err = n.other.dial(); err != nil {
		return err
	}
	p.box, err = delivery.New(delivery.Config{
		Delegations: p.house.Delegations, Subscriptions: p.house.Subscriptions, Post: n.world.receivers, Tries: 4, MaxRetry: 5 * time.Second,
		Directory: directory{client.NewDirectory(nil, p.peers, "http://"+n.machine().name)},
		Feeds:     map[machine.SubscriptionKind]delivery.Feed{machine.SubscriptionWebhook: feed{p}},
	})
	if err != nil {
		return err
	}
	p.house.Attach(runtime.Hooks{OnCommit: []runtime.Observer{p.box}})
	return nil
}

// serve connects the server to the runtime.
func (n *node) serve(p *process) (err error) {
	p.server, err = grpcapi.New(grpcapi.Config{Runtime: p.house, Own: ownSecret, Failed: p.house.Failed(), Deliveries: p.box, Plugin: guestOf[*grpcapi.Server](n, p)})
	if err == nil {
		p.services = p.server.Own()
	}
	return err
}

// guestOf returns a function that makes the plugin of the node's agents for a server.
func guestOf[H a2a.Host](n *node, p *process) func(H) (grpcapi.Plugin, error) {
	return func(host H) (grpcapi.Plugin, error) {
		service, err := a2a.New(a2a.Config{Engine: p.house, URL: "http://" + n.machine().name}, host)
		if err != nil {
			return grpcapi.Plugin{}, err
		}
		return grpcapi.Plugin{Desc: &a2apb.A2AService_ServiceDesc, Impl: service.GRPC(), HTTP: service.Handler(), Matches: a2a.MatchesPath}, nil
	}
}

// directory sends every delegation to the other node, over its A2A service.
type directory struct{ agents *client.Directory }

func (d directory) Peer(ctx context.Context, del *machine.Delegation) (delivery.Peer, string, error) {
	found, card, err := d.agents.Peer(ctx, del, "")
	if err != nil {
		return nil, card, err
	}
	return found, card, nil
}

// bury ends a process that has crashed. Its later writes reach neither the disk nor a connection.
func (p *process) bury() {
	p.halt()
	_ = p.server.Shutdown(p.ctx)
	_ = p.peers.Close()
	for range 4 {
		<-p.loop
	}
	p.executing.Wait()
	p.house.Watches.End()
	_ = p.store.Close()
}

// register registers a pack at the process.
func (p *process) register(ctx context.Context, document []byte) error {
	_, err := p.house.RegisterPack(ctx, packs.RegisterRequest{Call: operator, Document: document})
	return err
}

var operator = runtime.Call{Principal: runtime.Principal{Subject: "operator", Scopes: runtime.ScopeAdmin | runtime.ScopePacksWrite | runtime.ScopeRunsRead | runtime.ScopeRunsWrite}}
