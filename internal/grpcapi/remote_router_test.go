package grpcapi

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/cluster/router"
	"github.com/pawl-dev/pawl/internal/cluster/transport"
)

// backendRouter is a router of the tests that has the services of one node at most. put sets them.
type backendRouter interface {
	Router
	put(home *Services)
}

// remoteRouter makes every call go to the services at another node: from a real router without services of its
// own, over its connection, to the port of the node that has them.
type remoteRouter struct {
	*router.Router
	t         testing.TB
	seats     *router.Slots
	key       transport.Identity
	directory *pair
}

func (f *remoteRouter) put(home *Services) {
	f.seats.At(0).Attach(healthyServices{home})
	if _, there := f.directory.Owner(0); !there {
		f.serve(home.s.cfg.Log)
	}
}

// healthyServices are services of a store that does not fail.
type healthyServices struct{ *Services }

func (healthyServices) Failed() <-chan struct{} { return nil }

// pair is the directory of a cluster of two nodes, of which one has the store.
type pair struct {
	owner atomic.Pointer[router.Peer]
	// changed is closed when there is an owner; nil: there never is one.
	changed chan struct{}
}

// elect makes a node the owner from now on.
func (p *pair) elect(owner router.Peer) {
	p.owner.Store(&owner)
	close(p.changed)
}

func (p *pair) Owner(int32) (router.Peer, bool) {
	if owner := p.owner.Load(); owner != nil {
		return *owner, true
	}
	return router.Peer{}, false
}

// Owners returns the one owner, if there is one.
func (p *pair) Owners() ([]router.Peer, bool) {
	if owner := p.owner.Load(); owner != nil {
		return []router.Peer{*owner}, true
	}
	return nil, false
}

// Stale returns false: this directory is always current.
func (*pair) Stale() bool       { return false }
func (*pair) NonEmpty() []int32 { return nil }

// Changed returns a channel that is closed when there is an owner. After that it returns nil, because the
// owner does not change.
func (p *pair) Changed() <-chan struct{} {
	if p.owner.Load() != nil {
		return nil
	}
	return p.changed
}

func (*pair) Refresh()               {}
func (*pair) KnowsKey([32]byte) bool { return true }

// newFar returns a remoteRouter that has no services yet.
func newFar(t testing.TB) *remoteRouter {
	t.Helper()
	key, err := transport.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	f := &remoteRouter{t: t, seats: router.NewSlots(), key: key, directory: &pair{changed: make(chan struct{})}}
	clients := transport.NewClients(key, f.directory)
	f.Router = router.New(router.Config{Slots: router.NewSlots(), Directory: f.directory, Peers: clients})
	t.Cleanup(func() {
		if err := clients.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// serve serves the port of the other node until the test ends.
func (f *remoteRouter) serve(log *slog.Logger) {
	f.t.Helper()
	port, err := transport.NewServer(transport.Config{
		Listen: "127.0.0.1:0", Identity: f.key, TrustStore: f.directory, Router: router.New(router.Config{Slots: f.seats, Directory: &pair{}}), Log: log,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- port.Serve() }()
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		port.Shutdown(ctx)
		if err := <-served; err != nil {
			f.t.Error(err)
		}
	})
	f.directory.elect(router.Peer{ID: "owner", Address: port.Addr(), Key: f.key.Key})
}

// routerOf returns the router of a suite in which every test reaches its services through a router.
func routerOf(t testing.TB, suite string) Router {
	if suite == "peer" {
		return newFar(t)
	}
	return &fakeSwitch{remote: true}
}
