package membership

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/cluster/router"
)

// Slot passes the calls of one partition to this node while the node owns the partition. It is the part
// of [router.Slot] that this package uses.
type Slot interface {
	Attach(backend router.Backend)
	// Detach accepts no further calls of the partition and waits for the running calls.
	Detach(ctx context.Context) (router.Backend, error)
	// ExtendLease sets the time until which this node's lease on the partition is certainly valid.
	ExtendLease(until time.Time)
}

// OpenPartition is an open partition with its services.
type OpenPartition interface {
	router.Backend
	// Close answers the accepted calls, closes the partition and releases its lease.
	Close(ctx context.Context) error
	// Closed returns a channel that is closed when the partition is closed.
	Closed() <-chan struct{}
}

// Config configures a [Node]. All fields are required except Oldest, FindHindrance, the times and Log.
type Config struct {
	// Self is this node, with the partitions that it may own.
	Self Member
	// Oldest is the oldest storage format of a partition that this node supports. Default: the node
	// supports all older formats.
	Oldest   uint32
	Registry Registry
	// Slot returns the slot of a partition.
	Slot func(part int32) Slot
	// Open takes over a partition and opens it. If another node owns the partition, Open soon returns an
	// error. ctx ends when this node no longer wants the partition or Open has returned. After the
	// takeover, heartbeats renew the lease.
	Open func(ctx context.Context, part int32) (OpenPartition, error)
	// NotifyPeer asks another node to read the rows of the database now.
	NotifyPeer func(ctx context.Context, to router.Peer) error
	// FindHindrance returns why the database does not answer in time, or nil if it does not find a reason. It is called
	// once when the database becomes unreachable, with the error, for the log. It may be nil.
	FindHindrance func(ctx context.Context, err error) error
	// Lease is how long a node is treated as alive after a heartbeat, and how long a lease on a
	// partition is valid. Default 3 s.
	Lease time.Duration
	// PollInterval is the interval between two polls of the database if nothing requests an earlier one.
	// Default 1 s.
	PollInterval time.Duration
	// HandoverTimeout limits how long a handover waits for running calls. Default 10 s.
	HandoverTimeout time.Duration
	// Log receives messages about nodes and partitions. Default: the log is discarded.
	Log *slog.Logger
}

// Node is this sidecar as a node of the cluster. It is created with [New] and started with [Node.Run].
// Safe for concurrent use.
type Node struct {
	cfg          Config
	pollRequests chan struct{}
	work         sync.WaitGroup

	mu   sync.Mutex
	view View
	// changed is closed and replaced when the view of the cluster changes or becomes stale, for example when
	// a partition gets another owner. stepped is closed and replaced when the phase of a partition changes.
	// polled is closed and replaced after every poll.
	changed, stepped, polled chan struct{}
	// viewRequestedAt is the time when the current view of the cluster was requested, and
	// viewReceivedAt the time when it arrived. lastPoll is the time when the last poll of the database
	// began. pollError is the error of that poll, or nil.
	viewRequestedAt, viewReceivedAt, lastPoll time.Time
	pollError                                 error
	// stale means that no poll of the database has succeeded for the length of a lease. Every partition
	// may then have another owner than the view of the cluster says.
	stale   bool
	leaving bool
	// partitions are the partitions that this node may own, in the order of their numbers.
	partitions []*partitionState
	// lastOwners has the last owner of each partition.
	lastOwners map[int32]string
	// stableSince is the time since which the view of the cluster is unchanged, except for new nodes.
	// Before rebalanceUntil, balancing continues even if the view has just changed. refusals contains
	// the nodes that did not open a partition which was given to them.
	stableSince, rebalanceUntil time.Time
	refusals                    map[string]refusal
	// notifying contains the nodes that are being notified to poll the database. The value true means
	// that the node must be notified once more afterwards.
	notifying map[string]bool
}

// New returns a Node without partitions.
func New(cfg Config) *Node {
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	def(&cfg.Lease, 3*time.Second)
	def(&cfg.PollInterval, time.Second)
	def(&cfg.HandoverTimeout, 10*time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	n := &Node{
		cfg: cfg, pollRequests: make(chan struct{}, 1), lastOwners: map[int32]string{}, refusals: map[string]refusal{}, notifying: map[string]bool{},
		changed: make(chan struct{}), stepped: make(chan struct{}), polled: make(chan struct{}),
	}
	for part := range int32(router.Partitions) { // bits of [Member.Parts]
		if cfg.Self.Parts&(1<<part) != 0 {
			n.partitions = append(n.partitions, &partitionState{part: part, slot: cfg.Slot(part), takeover: takeoverTimer{self: cfg.Self.ID}})
		}
	}
	return n
}

var _ router.Directory = (*Node)(nil)

// Owner returns the other node that owns a partition. It returns false if the partition has no owner or
// if this node is the owner.
func (n *Node) Owner(part int32) (router.Peer, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if owner := n.view.part(part).Owner; n.isOtherNode(owner) {
		return owner.peer(), true
	}
	return router.Peer{}, false
}

// isOtherNode reports whether the owner is another node.
func (n *Node) isOtherNode(owner Member) bool {
	return owner.ID != n.cfg.Self.ID && !owner.outsideCluster()
}

// KnowsOtherOwner reports whether another node owns a partition, as far as this node knows. It returns false if
// no poll of the database has succeeded for the length of a lease. [Node.Owners] then returns the
// earlier owners, which may still be correct.
func (n *Node) KnowsOtherOwner() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.stale && slices.ContainsFunc(n.view.Parts, func(p Partition) bool { return n.isOtherNode(p.Owner) })
}

// Stale reports whether the last successful poll was more than a lease ago. [Node.Owner] then returns
// the earlier owner, which may still be correct.
func (n *Node) Stale() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stale
}

// Counts returns the number of live nodes, and the number of partitions that have no owner although
// some node may own them. If the database cannot be read, living is 0, and unowned counts all
// partitions that this node does not own.
func (n *Node) Counts() (living, unowned int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.stale {
		return len(n.view.Nodes), n.view.Unowned()
	}
	for _, p := range n.view.Parts {
		if own := n.stateOf(p.ID); own == nil || own.phase != open || time.Now().After(own.until) {
			unowned++
		}
	}
	return 0, unowned
}

// Owners returns the other nodes that own partitions. all reports whether every partition that some
// node may own has an owner.
func (n *Node) Owners() (owners []router.Peer, all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	met := map[string]bool{}
	for _, p := range n.view.Parts {
		if n.isOtherNode(p.Owner) && !met[p.Owner.ID] {
			met[p.Owner.ID] = true
			owners = append(owners, p.Owner.peer())
		}
	}
	return owners, len(n.view.Parts) > 0 && n.view.Unowned() == 0
}

// NonEmpty returns the numbers of the partitions that have rows in the database, in ascending order.
func (n *Node) NonEmpty() (parts []int32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.view.Parts {
		if p.NonEmpty {
			parts = append(parts, p.ID)
		}
	}
	return parts
}

// Changed returns a channel that is closed when a partition gets another owner. It is also closed when the
// view of the cluster changes in another way or becomes stale.
func (n *Node) Changed() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

// Refresh requests a poll of the database soon. It may be called often. A notification from another
// node also calls it.
func (n *Node) Refresh() {
	select {
	case n.pollRequests <- struct{}{}:
	default:
	}
}

// These constants are intervals between two polls of the database. atMost is the shortest interval.
// afterAway is the interval after a failed poll. afterEnd is the time between the end of another node's
// lease and the next poll.
const (
	atMost    = 10 * time.Millisecond
	afterAway = 200 * time.Millisecond
	afterEnd  = 2 * time.Millisecond
)

// Run polls the database and reacts to changes until ctx ends. Then it hands over the remaining
// partitions and removes the node's row from the database.
func (n *Node) Run(ctx context.Context) {
	for ctx.Err() == nil {
		n.poll(ctx)
		if !sleep(ctx, n.rest(), nil) || !sleep(ctx, time.Until(n.next()), n.pollRequests) {
			break
		}
	}
	n.startDraining()
	_ = n.awaitIdle(context.Background()) // this context never ends
	n.work.Wait()
	last, cancel := context.WithTimeout(context.Background(), n.cfg.PollInterval)
	defer cancel()
	if err := n.cfg.Registry.Deregister(last, n.cfg.Self); err != nil {
		n.cfg.Log.Warn("deregistering node failed, its entry expires with the lease", "error", err)
	}
}

// rest returns the minimum time until the next poll of the database. Callers that wait for an owner
// request polls often, and must not overload a database that has just become available again.
func (n *Node) rest() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pollError != nil {
		return afterAway
	}
	return atMost
}

// sleep waits for the duration pause, or until kick delivers a value, which requests a poll at once. It returns false
// if ctx has ended.
func sleep(ctx context.Context, pause time.Duration, kick <-chan struct{}) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-kick:
	case <-ctx.Done():
		return false
	}
	return true
}

// Drain hands over this node's partitions, and waits until the node owns none or ctx ends. After Drain
// the node takes over no more partitions. Run continues, so that later calls can be forwarded to other
// nodes.
func (n *Node) Drain(ctx context.Context) error {
	n.startDraining()
	n.Refresh()
	return n.awaitIdle(ctx)
}

func (n *Node) startDraining() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leaving = true
	n.reconcile()
}

// awaitIdle waits until this node owns no partition and is opening or closing none.
func (n *Node) awaitIdle(ctx context.Context) error {
	for {
		n.mu.Lock()
		idle, stepped := n.count(none) == len(n.partitions), n.stepped
		n.mu.Unlock()
		if idle {
			return nil
		}
		select {
		case <-stepped:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// notifyAll makes all nodes, including this one, read the rows of the database now.
func (n *Node) notifyAll() {
	n.Refresh()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.view.Nodes {
		if m.ID != n.cfg.Self.ID {
			n.notifyPeer(m.peer())
		}
	}
}

// notifyPeer makes another node poll the database. If a notification of that node is in progress, the
// node is notified once more afterwards. If the node cannot be reached, its own next poll follows
// within PollInterval. The caller holds the mutex n.mu.
func (n *Node) notifyPeer(to router.Peer) {
	if _, under := n.notifying[to.ID]; under {
		n.notifying[to.ID] = true
		return
	}
	n.notifying[to.ID] = false
	n.work.Go(func() {
		for again := true; again; {
			ctx, cancel := context.WithTimeout(context.Background(), n.cfg.PollInterval)
			_ = n.cfg.NotifyPeer(ctx, to)
			cancel()
			n.mu.Lock()
			if again = n.notifying[to.ID]; again {
				n.notifying[to.ID] = false
			} else {
				delete(n.notifying, to.ID)
			}
			n.mu.Unlock()
		}
	})
}
