package membership

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/cluster/router"
)

// Member is a node as the others see it.
type Member struct {
	// ID is new with every process; Address is where its peers reach it, Key the SHA-256 of the
	// certificate that it shows them.
	ID, Address string
	Key         [32]byte
	// Leaving means that the node hands over its partitions and takes over none.
	Leaving bool
	// Speaks is the newest format that it keeps a partition in.
	Speaks uint32
	// Parts has bit p set if it takes partition p.
	Parts uint64
	// New: its last word came less than a lease after its first.
	New bool
}

// Partition is a partition as the rows have it.
type Partition struct {
	ID int32
	// Owner is the node with a valid lease on the partition; the zero value: none. An owner
	// without a key is a process that is not a node.
	Owner Member
	// Lease is the minimal rest of the owner's lease, counted from the request of the rows.
	Lease time.Duration
	// Format is the partition's format, which its owner raises at the takeover; zero: the
	// partition was not created yet.
	Format uint32
	// NonEmpty means that the partition has rows.
	NonEmpty bool
}

// View is the contents of the rows at one moment.
type View struct {
	// Nodes are the live nodes, in the order in which they joined.
	Nodes []Member
	// Parts are all partitions that there are, by number.
	Parts []Partition
}

// Registry stores the heartbeats of nodes and the owners of partitions.
type Registry interface {
	// Heartbeat marks a node as alive for a lease from now, renews the leases of the partitions
	// that this process owns, and returns the view.
	Heartbeat(ctx context.Context, me Member) (View, error)
	// Deregister says that it does not live any more.
	Deregister(ctx context.Context, me Member) error
}

// peer is a node as the router names it.
func (m Member) peer() router.Peer { return router.Peer{ID: m.ID, Address: m.Address, Key: m.Key} }

// outsideCluster: it has a partition, and no node can reach it.
func (m Member) outsideCluster() bool { return m.Key == [32]byte{} }

// canOwn: it may have a partition next.
func (m Member) canOwn(p Partition) bool {
	return !m.Leaving && m.Speaks >= p.Format && m.Parts&(1<<p.ID) != 0
}

// same reports that it is the same node with the same data. Whether it is new does not count.
func (m Member) same(other Member) bool {
	m.New, other.New = false, false
	return m == other
}

// same reports whether the difference between two partitions matters to no node.
func (p Partition) same(other Partition) bool {
	return p.ID == other.ID && p.Owner.same(other.Owner) && p.Format == other.Format
}

// part returns a partition of the view. An unknown one has no owner.
func (v View) part(id int32) Partition {
	for _, p := range v.Parts {
		if p.ID == id {
			return p
		}
	}
	return Partition{ID: id}
}

// same reports whether the difference between two views matters to no node.
func (v View) same(other View) bool {
	return slices.EqualFunc(v.Parts, other.Parts, Partition.same) && slices.EqualFunc(v.Nodes, other.Nodes, Member.same)
}

// sameMembers reports whether only new nodes have come or gone. So a node that restarts again
// and again does not delay balancing.
func (v View) sameMembers(next View) bool {
	before := slices.DeleteFunc(slices.Clone(v.Nodes), func(m Member) bool { return m.New && !next.has(m.ID) })
	after := slices.DeleteFunc(slices.Clone(next.Nodes), func(m Member) bool { return m.New && !v.has(m.ID) })
	return slices.EqualFunc(before, after, Member.same)
}

func (v View) has(id string) bool {
	return slices.ContainsFunc(v.Nodes, func(m Member) bool { return m.ID == id })
}
