package peer

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/internal/cluster/route"
)

// silent is a directory that does not tell when the owner changes.
type silent struct{ owner atomic.Pointer[route.Peer] }

func (s *silent) Owner() (route.Peer, bool) {
	if owner := s.owner.Load(); owner != nil {
		return *owner, true
	}
	return route.Peer{}, false
}

func (*silent) Changed() <-chan struct{} { return nil }
func (*silent) Refresh()                 {}

// TestTheNewOwnerIsNotCutOff: connections to nodes that are no owners are closed a while after
// another one was; who has become the owner right then keeps his, whatever was heard of it.
func TestTheNewOwnerIsNotCutOff(t *testing.T) {
	t.Parallel()
	identity, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	directory := &silent{}
	c := NewClients(identity, directory)
	old, next := route.Peer{ID: "old", Address: "127.0.0.1:1"}, route.Peer{ID: "next", Address: "127.0.0.1:2"}
	open := func(want ...route.Peer) {
		t.Helper()
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, one := range []route.Peer{old, next} {
			if (c.links[one] != nil) != slices.Contains(want, one) {
				t.Errorf("%s is open: %v", one.ID, c.links[one] != nil)
			}
		}
	}
	for _, one := range []route.Peer{old, next} {
		if _, err := c.to(one); err != nil {
			t.Fatal(err)
		}
	}
	directory.owner.Store(&next)
	for _, heard := range []route.Peer{{}, old} {
		c.prune(heard)
		open(old, next)
	}
	c.prune(next)
	open(next)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
