//go:build sim

package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/internal/a2a"
	"github.com/pawl-dev/pawl/internal/a2a/peer"
	"github.com/pawl-dev/pawl/internal/deliver"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/account"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/registry"
	"github.com/pawl-dev/pawl/internal/runtime/work"
	"github.com/pawl-dev/pawl/internal/sim/disk"
	"github.com/pawl-dev/pawl/internal/store"
)

// process is one life of a node: a whole sidecar as package app builds it, without
// listeners and metrics.
type process struct {
	store *store.Store
	house *house.House
	box   *deliver.Outbox
	// accounts are the operator's, over runs.
	accounts *account.Ledger
	server   *grpcapi.Server
	peers    *grpc.ClientConn
	halt     context.CancelFunc
	// ctx ends with the process: nothing of it is answered then.
	ctx  context.Context
	loop chan error
	// executing ends when the sidecar's own executor has.
	executing sync.WaitGroup
}

// agents is the house as A2A asks it, as in package app.
type agents struct{ *house.House }

func (a agents) HandedOut(s *machine.State) bool { return a.Work.HandedOut(s) }

// feed gives the outbox the records of webhooks, as in package app.
type feed struct{ p *process }

func (f feed) Open(ctx context.Context, sub *machine.Subscription) (deliver.Events, error) {
	return f.p.server.Own().RecordFeed(ctx, sub)
}

func (f feed) May(sub *machine.Subscription) error {
	return f.p.server.Own().MayRead(sub.Owner, sub.Namespace, runtime.ScopeRunsRead)
}

// boot starts a process on what the disk of a node holds.
func (n *node) boot() (*process, error) {
	p := &process{loop: make(chan error, 4)}
	p.ctx, p.halt = context.WithCancel(context.Background())
	var err error
	p.store, err = store.Open(store.Options{
		Dir: n.dir, MinFree: minFree, FreeSpace: disk.Free, MarkInterval: n.world.knobs.marks, Hooks: n.hooks(), Engine: n.engine(),
	})
	if err != nil {
		return nil, err
	}
	if err := n.build(p); err != nil {
		return nil, fmt.Errorf("build: %w", err)
	}
	for _, run := range []func() error{
		func() error { return p.house.Run(p.ctx) }, p.server.Serve,
		func() error { return p.box.Run(p.ctx) }, func() error { return p.house.Blobs.Run(p.ctx) },
	} {
		go func() { p.loop <- run() }()
	}
	p.keepTime(n)
	return p, p.execute(n)
}

const minFree = 1 << 20

func (n *node) build(p *process) (err error) {
	k := &n.world.knobs
	if p.accounts, err = n.newAccounts(p.store); err != nil {
		return err
	}
	if p.house, err = house.New(house.Config{
		Config: runtime.Config{
			Store: p.store, Accounts: p.accounts, Clock: n.clock, IDs: house.NewSystemIDs(), AllowTools: []string{"*"},
			CacheBytes: k.cache, QueueLimit: k.queue, Models: func() []string { return []string{modelName} },
		},
		Work:      work.Config{Lease: 5 * time.Second, StepGrace: 2 * time.Second, RestartGrace: 4 * time.Second},
		TailBytes: k.tail, Heartbeat: 10 * time.Second, Archive: p.store, Subscriptions: p.store, Blobs: p.store, Agenda: p.store.Agenda(),
	}); err != nil {
		return err
	}
	if limits := n.world.limits(); limits != nil {
		p.house.Admission.Replace(limits)
	}
	p.house.Attach(runtime.Hooks{Published: []runtime.Follower{runtime.FollowerFunc(func(c *runtime.Commit) { p.box.Observe(c.Batch) })}})
	if p.peers, err = n.other.dial(); err != nil {
		return err
	}
	if p.box, err = deliver.New(deliver.Config{
		Delegations: p.house.Delegations, Subscriptions: p.house.Subscriptions, Post: n.world.receivers, Tries: 4, MaxRetry: 5 * time.Second,
		Directory: directory{peer.NewDirectory(nil, p.peers, "http://"+n.name)},
		Feeds:     map[machine.SubscriptionKind]deliver.Feed{machine.SubscriptionWebhook: feed{p}},
	}); err != nil {
		return err
	}
	p.server, err = grpcapi.New(grpcapi.Config{House: p.house, Own: ownSecret, Failed: p.house.Failed(), Deliveries: p.box, Guest: func(s *grpcapi.Server) (grpcapi.Guest, error) {
		service, err := a2a.New(a2a.Config{Engine: agents{p.house}, URL: "http://" + n.name}, s)
		if err != nil {
			return grpcapi.Guest{}, err
		}
		return grpcapi.Guest{Desc: &a2apb.A2AService_ServiceDesc, Impl: service.GRPC(), HTTP: service.Handler(), Takes: a2a.Takes}, nil
	}})
	return err
}

// directory sends every delegation to the other node, over its A2A service.
type directory struct{ agents *peer.Directory }

func (d directory) Peer(ctx context.Context, del *machine.Delegation) (deliver.Peer, string, error) {
	found, card, err := d.agents.Peer(ctx, del, "")
	if err != nil {
		return nil, card, err
	}
	return found, card, nil
}

// bury ends a process that has crashed. What it still does reaches neither disk nor wire.
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

// register gives the node its pack.
func (p *process) register(ctx context.Context, document []byte) error {
	_, err := p.house.RegisterPack(ctx, registry.RegisterRequest{Call: operator, Document: document})
	return err
}

var operator = runtime.Call{Principal: runtime.Principal{Name: "operator", Scopes: runtime.ScopeAdmin | runtime.ScopePacksWrite | runtime.ScopeRunsRead | runtime.ScopeRunsWrite}}
