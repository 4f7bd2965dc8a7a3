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

// seated is a router of the tests that has one house.
type seated interface {
	Router
	put(home *Services)
}

// far has every call go to the house of another node: through a real router without one, over
// its connection, into the port of the node that has it.
type far struct {
	*router.Router
	t         testing.TB
	seats     *router.Slots
	key       transport.Identity
	directory *pair
}

func (f *far) put(home *Services) {
	f.seats.At(0).Attach(standing{home})
	if _, there := f.directory.Owner(0); !there {
		f.serve(home.s.cfg.Log)
	}
}

// standing are services of a store that does not fail.
type standing struct{ *Services }

func (standing) Failed() <-chan struct{} { return nil }

// pair is a cluster of two, of which one has the store.
type pair struct {
	owner atomic.Pointer[router.Peer]
	// changed is closed when there is one; nil: there never is.
	changed chan struct{}
}

// elect has one of the two be the owner from now on.
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

// Owners is the one.
func (p *pair) Owners() ([]router.Peer, bool) {
	if owner := p.owner.Load(); owner != nil {
		return []router.Peer{*owner}, true
	}
	return nil, false
}

// Made is not asked.
func (*pair) NonEmpty() []int32 { return nil }

// Changed is closed until somebody has seen the owner, who stays.
func (p *pair) Changed() <-chan struct{} {
	if p.owner.Load() != nil {
		return nil
	}
	return p.changed
}

func (*pair) Refresh()            {}
func (*pair) Known([32]byte) bool { return true }

// newFar is one whose house is still to come.
func newFar(t testing.TB) *far {
	t.Helper()
	key, err := transport.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	f := &far{t: t, seats: router.NewSlots(), key: key, directory: &pair{changed: make(chan struct{})}}
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
func (f *far) serve(log *slog.Logger) {
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

// routerOf is the router of a suite in which every test reaches its house by one.
func routerOf(t testing.TB, suite string) Router {
	if suite == "peer" {
		return newFar(t)
	}
	return &switchboard{remote: true}
}
