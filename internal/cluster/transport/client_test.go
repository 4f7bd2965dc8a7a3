package transport

import (
	"net"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/cluster/router"
)

// fakeDirectory says who the owners are.
type fakeDirectory struct {
	mu      sync.Mutex
	owners  []router.Peer
	all     bool
	changed chan struct{}
}

func newCouncil(owners ...router.Peer) *fakeDirectory {
	return &fakeDirectory{owners: owners, all: true, changed: make(chan struct{})}
}

// elect has owners from now on; all: of every partition.
func (d *fakeDirectory) elect(all bool, owners ...router.Peer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owners, d.all = owners, all
	close(d.changed)
	d.changed = make(chan struct{})
}

func (*fakeDirectory) Owner(int32) (router.Peer, bool) { return router.Peer{}, false }

func (d *fakeDirectory) Owners() ([]router.Peer, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owners, d.all
}

func (*fakeDirectory) Stale() bool       { return false }
func (*fakeDirectory) NonEmpty() []int32 { return nil }

func (d *fakeDirectory) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

func (*fakeDirectory) Refresh() {}

// stuck is a connection whose end takes as long as the test wants it to.
type stuck struct {
	net.Conn
	started, ended chan struct{}
}

func (s *stuck) Close() error {
	close(s.started)
	<-s.ended
	return nil
}

// TestAConnectionThatDoesNotEnd: calls go to the next owner while those to the one before it are
// still being cut off.
func TestAConnectionThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	identity, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	before, after := router.Peer{ID: "a", Address: "127.0.0.1:1"}, router.Peer{ID: "b", Address: "127.0.0.1:2"}
	directory := newCouncil(before)
	c := NewClients(identity, directory)
	l, err := c.to(before)
	if err != nil {
		t.Fatal(err)
	}
	ends := &stuck{started: make(chan struct{}), ended: make(chan struct{})}
	l.http.conns[&tracked{tcpConn: ends, transport: l.http}] = struct{}{}
	directory.elect(true, after)
	if _, err := c.to(after); err != nil {
		t.Fatal(err)
	}
	<-ends.started
	if next, err := c.to(after); err != nil || next == l {
		t.Errorf("the next owner's: %v, %v", next, err)
	}
	if again, err := c.to(before); err != nil || again == l {
		t.Errorf("it is used on: %v", err)
	}
	close(ends.ended)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
