package node

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/cluster/route"
)

// Member is a node as the others see it.
type Member struct {
	// ID is new with every process; Address is where its peers reach it, Key the SHA-256 of the
	// certificate that it shows them.
	ID, Address string
	Key         [32]byte
	// Leaving: it gives away what it has and takes nothing.
	Leaving bool
	// Speaks is the newest format that it keeps the store in.
	Speaks uint32
}

// View is what the rows say at one moment.
type View struct {
	// Nodes are those that live, in the order in which they came.
	Nodes []Member
	// Owner has the store by a lease that holds; the zero value: nobody. One without a key is a
	// process that is no node.
	Owner Member
	// Lease is what is left of the owner's, at least, from the moment when the rows were asked.
	Lease time.Duration
	// Format is the one that the store is kept in, which its owner raises when it takes it; zero:
	// nobody has made it yet.
	Format uint32
}

// Rows are where nodes say that they live, and where the owner stands.
type Rows interface {
	// Beat says that a node lives, for a lease from now, renews the lease of the store if this
	// process has it, and tells what there is.
	Beat(ctx context.Context, me Member) (View, error)
	// Leave says that it does not live any more.
	Leave(ctx context.Context, me Member) error
}

// peer is a node as the router names it.
func (m Member) peer() route.Peer { return route.Peer{ID: m.ID, Address: m.Address, Key: m.Key} }

// stranger: it has the store, and no node can reach it.
func (m Member) stranger() bool { return m.Key == [32]byte{} }

// same: nobody whom it concerns would do anything else.
func (v View) same(other View) bool {
	if v.Owner != other.Owner || v.Format != other.Format || len(v.Nodes) != len(other.Nodes) {
		return false
	}
	for i := range v.Nodes {
		if v.Nodes[i] != other.Nodes[i] {
			return false
		}
	}
	return true
}
