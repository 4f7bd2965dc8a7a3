package transport

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/cluster/router"
)

// silent is a directory that does not report changes of owners.
type silent struct{ *fakeDirectory }

func (silent) Changed() <-chan struct{} { return nil }

// linked returns clients with connections to nodes. None of the connections has been used.
func linked(t *testing.T, to router.Directory, nodes ...router.Peer) *Clients {
	t.Helper()
	identity, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	c := NewClients(identity, to)
	for _, node := range nodes {
		if _, err := c.to(node); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// opened checks that the connections to these nodes are open, and no others.
func (c *Clients) opened(t *testing.T, want ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var open []string
	for node := range c.conns {
		open = append(open, node.ID)
	}
	if slices.Sort(open); !slices.Equal(open, want) {
		t.Errorf("links to %v are open, want %v", open, want)
	}
}

func nodeAt(id string) router.Peer { return router.Peer{ID: id, Address: "127.0.0.1:1"} }

// TestTheNewOwnerIsNotCutOff: connections to nodes that own nothing are closed. If the owners have changed
// since the list was read, no connection is closed, so a new owner keeps its connection.
func TestTheNewOwnerIsNotCutOff(t *testing.T) {
	t.Parallel()
	old, next := nodeAt("old"), nodeAt("next")
	directory := silent{newCouncil()}
	c := linked(t, directory, old, next)
	directory.elect(true, next)
	for _, heard := range []owners{{}, {map[router.Peer]bool{old: true}, true}, {map[router.Peer]bool{old: true, next: true}, true}, {map[router.Peer]bool{next: true}, false}} {
		c.prune(heard)
		c.opened(t, "next", "old")
	}
	c.prune(owners{map[router.Peer]bool{next: true}, true})
	c.opened(t, "next")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestALinkStays: the connection to a node that gives up one partition and keeps another one stays open.
// The connection to a node without partitions is closed soon after all partitions have owners, or later if
// a partition has none.
func TestALinkStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keeps, leaving, comes := nodeAt("keeps"), nodeAt("goes"), nodeAt("comes")
		directory := newCouncil(keeps, leaving)
		c := linked(t, directory, keeps, leaving, comes)
		passes := func(while time.Duration) {
			time.Sleep(while)
			synctest.Wait()
		}
		passes(pruneDelay)
		c.opened(t, "goes", "keeps")
		directory.elect(false, keeps)
		passes(pruneDelayUnowned - 1)
		c.opened(t, "goes", "keeps")
		// A repeated report does not prolong the wait.
		directory.elect(false, keeps)
		passes(1)
		c.opened(t, "keeps")
		_, _ = c.to(leaving)
		directory.elect(true, comes, keeps)
		passes(pruneDelay - 1)
		c.opened(t, "goes", "keeps")
		directory.elect(true, keeps, comes)
		passes(1)
		c.opened(t, "keeps")
		directory.elect(false)
		passes(pruneDelayUnowned)
		c.opened(t)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
