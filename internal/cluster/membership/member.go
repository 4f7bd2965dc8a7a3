package membership

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/cluster/router"
)

// Member is a node of the cluster, as other nodes see it.
type Member struct {
	// ID is a new id for every process. Address is the address at which other nodes reach the node. Key
	// is the SHA-256 of the certificate that the node sends to them.
	ID, Address string
	Key         [32]byte
	// Leaving means that the node is shutting down: it hands over its partitions and does not take over
	// any.
	Leaving bool
	// Speaks is the newest storage format of a partition that the node supports.
	Speaks uint32
	// Parts has a bit for each partition that the node may own. Bit p stands for partition p.
	Parts uint64
	// New means that less than the length of a lease has passed between the first and the last
	// heartbeat of the node.
	New bool
}

// Partition is a partition as the database rows describe it.
type Partition struct {
	ID int32
	// Owner is the node with a valid lease on the partition. The zero value means that no node has one.
	// An owner without a key is a process that is not a node of the cluster.
	Owner Member
	// Lease is the minimum remaining time of the owner's lease, measured from the time when the rows
	// were requested.
	Lease time.Duration
	// Format is the storage format of the partition. An owner may change it to a newer one at the
	// takeover. Zero means that the partition does not exist yet.
	Format uint32
	// NonEmpty means that the partition has rows.
	NonEmpty bool
}

// View is the state of the cluster at one moment, according to the database rows.
type View struct {
	// Nodes are the live nodes, in the order in which they joined.
	Nodes []Member
	// Parts are all existing partitions, sorted by number.
	Parts []Partition
}

// Registry stores the heartbeats of nodes and the owners of partitions.
type Registry interface {
	// Heartbeat marks the node me as alive for the length of a lease, and renews the leases of the
	// partitions that this process owns. It returns the view of the cluster.
	Heartbeat(ctx context.Context, me Member) (View, error)
	// Deregister removes the node from the live nodes.
	Deregister(ctx context.Context, me Member) error
}

// peer returns the node in the form that the router uses to call it.
func (m Member) peer() router.Peer { return router.Peer{ID: m.ID, Address: m.Address, Key: m.Key} }

// outsideCluster reports whether the owner of a partition is a process that is not a node of this cluster, so that
// calls cannot be forwarded to it. It also returns true for the zero value, if the partition has no owner.
func (m Member) outsideCluster() bool { return m.Key == [32]byte{} }

// canOwn reports whether the node may take over a partition.
func (m Member) canOwn(p Partition) bool {
	return !m.Leaving && m.Speaks >= p.Format && m.Parts&(1<<p.ID) != 0
}

// same reports whether both values describe the same node with the same data. It ignores the field New,
// which changes with time.
func (m Member) same(other Member) bool {
	m.New, other.New = false, false
	return m == other
}

// same reports whether two views of a partition have the same owner and format. It ignores Lease, which
// changes at each heartbeat, and NonEmpty.
func (p Partition) same(other Partition) bool {
	return p.ID == other.ID && p.Owner.same(other.Owner) && p.Format == other.Format
}

// part returns a partition of the cluster as the view shows it. If the partition is unknown, the result
// has no owner.
func (v View) part(id int32) Partition {
	for _, p := range v.Parts {
		if p.ID == id {
			return p
		}
	}
	return Partition{ID: id}
}

// same reports whether two views of the cluster have the same nodes, and partitions with the same owners
// and formats.
func (v View) same(other View) bool {
	return slices.EqualFunc(v.Parts, other.Parts, Partition.same) && slices.EqualFunc(v.Nodes, other.Nodes, Member.same)
}

// sameMembers reports whether two views of the cluster have the same nodes. Nodes that are new are
// ignored, so that a node that restarts repeatedly does not delay balancing.
func (v View) sameMembers(next View) bool {
	before := slices.DeleteFunc(slices.Clone(v.Nodes), func(m Member) bool { return m.New && !next.hasMember(m.ID) })
	after := slices.DeleteFunc(slices.Clone(next.Nodes), func(m Member) bool { return m.New && !v.hasMember(m.ID) })
	return slices.EqualFunc(before, after, Member.same)
}

func (v View) hasMember(id string) bool {
	return slices.ContainsFunc(v.Nodes, func(m Member) bool { return m.ID == id })
}
