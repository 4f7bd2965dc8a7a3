package membership

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/cluster/router"
)

// Slot is the part of [router.Slot] that this package uses. It is the slot of a partition that this
// node owns.
type Slot interface {
	Attach(backend router.Backend)
	// Detach closes the partition to calls and waits for the running calls.
	Detach(ctx context.Context) (router.Backend, error)
	// ExtendLease sets the time until which the lease is certainly valid.
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

// Config configures a [Node]. All fields are required except Oldest, the times and Log.
type Config struct {
	// Me is this node, with the partitions that it may own.
	Me Member
	// Oldest is the oldest format that this node supports. Default: no limit.
	Oldest   uint32
	Registry Registry
	// Slot returns the slot of a partition.
	Slot func(part int32) Slot
	// Open takes over a partition and opens it. If another node owns the partition, it returns an error
	// soon. The context ends when the ownership ends. After the takeover, heartbeats renew the lease.
	Open func(ctx context.Context, part int32) (OpenPartition, error)
	// NotifyPeer asks another node to poll now.
	NotifyPeer func(ctx context.Context, to router.Peer) error
	// Lease is how long a node is treated as alive after a heartbeat, and how long a lease on a
	// partition is valid. Default 3 s.
	Lease time.Duration
	// Every is the interval between two polls if there is no event. Default 1 s.
	Every time.Duration
	// HandoverTimeout limits how long a handover waits for running calls. Default 10 s.
	HandoverTimeout time.Duration
	// Log receives messages about nodes and partitions. Default: the log is discarded.
	Log *slog.Logger
}

// Node is this sidecar as a node of the cluster. It is created with [New] and started with [Node.Run].
// Safe for concurrent use.
type Node struct {
	cfg  Config
	kick chan struct{}
	work sync.WaitGroup

	mu   sync.Mutex
	view View
	// changed is closed and replaced when a partition gets another owner. stepped is closed and
	// replaced when the phase of a partition changes. polled is closed and replaced after every poll.
	changed, stepped, polled chan struct{}
	// viewRequestedAt is the time when the current view was requested, and viewReceivedAt the time when
	// it arrived. lastPoll is the time when the last poll began. away is the reason why the rows cannot
	// be read.
	viewRequestedAt, viewReceivedAt, lastPoll time.Time
	away                                      error
	// stale means that no poll has succeeded for the length of a lease. Then every partition may have
	// another owner.
	stale   bool
	leaving bool
	// partitions are the partitions that this node may own, in the order of their numbers.
	partitions []*partitionState
	// lastOwners has the last owner of each partition.
	lastOwners map[int32]string
	// stableSince is the time since which the view is unchanged, except for new nodes. Until
	// rebalanceUntil, partitions may move and the view is still treated as stable. refusals contains
	// the nodes that did not open a partition.
	stableSince, rebalanceUntil time.Time
	refusals                    map[string]refusal
	// notifying contains the nodes that are currently being notified. The value true means that the
	// node must be notified once more afterwards.
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
	def(&cfg.Every, time.Second)
	def(&cfg.HandoverTimeout, 10*time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	n := &Node{
		cfg: cfg, kick: make(chan struct{}, 1), lastOwners: map[int32]string{}, refusals: map[string]refusal{}, notifying: map[string]bool{},
		changed: make(chan struct{}), stepped: make(chan struct{}), polled: make(chan struct{}),
	}
	for part := range int32(router.Partitions) { // bits of [Member.Parts]
		if cfg.Me.Parts&(1<<part) != 0 {
			n.partitions = append(n.partitions, &partitionState{part: part, slot: cfg.Slot(part), takeover: takeoverTimer{me: cfg.Me.ID}})
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
	if owner := n.view.part(part).Owner; n.elsewhere(owner) {
		return owner.peer(), true
	}
	return router.Peer{}, false
}

// elsewhere reports whether the owner is another node.
func (n *Node) elsewhere(owner Member) bool {
	return owner.ID != n.cfg.Me.ID && !owner.outsideCluster()
}

// Knows reports whether the owners are known. They are unknown if no poll has succeeded for the length
// of a lease. [Node.Owners] then returns the earlier owners, which may still be correct.
func (n *Node) Knows() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.stale && slices.ContainsFunc(n.view.Parts, func(p Partition) bool { return n.elsewhere(p.Owner) })
}

// Owners returns the other nodes that own partitions. all reports whether every partition that needs an
// owner has one.
func (n *Node) Owners() (owners []router.Peer, all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	met := map[string]bool{}
	for _, p := range n.view.Parts {
		if n.elsewhere(p.Owner) && !met[p.Owner.ID] {
			met[p.Owner.ID] = true
			owners = append(owners, p.Owner.peer())
		}
	}
	return owners, len(n.view.Parts) > 0 && n.view.Unowned() == 0
}

// NonEmpty returns the numbers of the partitions that have rows, in order.
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

// Changed returns a channel that is closed when an owner changes.
func (n *Node) Changed() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

// Refresh requests a poll soon. It may be called often. A notification from another node has the same
// effect.
func (n *Node) Refresh() {
	select {
	case n.kick <- struct{}{}:
	default:
	}
}

// View returns the last view.
func (n *Node) View() View {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.view
}

// atMost is the shortest interval between two polls. afterAway is the interval after a failed poll.
// afterEnd is the time between the end of a lease and the next poll.
const (
	atMost    = 10 * time.Millisecond
	afterAway = 200 * time.Millisecond
	afterEnd  = 2 * time.Millisecond
)

// Run polls and reacts to changes until ctx ends. Then it hands over the remaining partitions and
// removes the node's row.
func (n *Node) Run(ctx context.Context) {
	for ctx.Err() == nil {
		n.poll(ctx)
		if !sleep(ctx, n.rest(), nil) || !sleep(ctx, time.Until(n.next()), n.kick) {
			break
		}
	}
	n.startDraining()
	_ = n.settled(context.Background()) // this context never ends
	n.work.Wait()
	last, cancel := context.WithTimeout(context.Background(), n.cfg.Every)
	defer cancel()
	if err := n.cfg.Registry.Deregister(last, n.cfg.Me); err != nil {
		n.cfg.Log.Warn("deregistering node failed, its entry expires with the lease", "error", err)
	}
}

// rest returns the minimum time until the next poll, even if callers request one. Callers that wait for
// an owner request polls often. They must not overload a database that has just become available again.
func (n *Node) rest() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away != nil {
		return afterAway
	}
	return atMost
}

// sleep waits for the duration pause, or until kick receives a value. It returns false if ctx has
// ended.
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

// Drain hands over this node's partitions, and waits until the node owns none or ctx ends. The node
// then takes over no more partitions. Run continues, so that later calls can be forwarded.
func (n *Node) Drain(ctx context.Context) error {
	n.startDraining()
	n.Refresh()
	return n.settled(ctx)
}

func (n *Node) startDraining() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leaving = true
	n.reconcile()
}

// settled waits until no partition is open.
func (n *Node) settled(ctx context.Context) error {
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

// notifyAll makes all nodes poll, including this one.
func (n *Node) notifyAll() {
	n.Refresh()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.view.Nodes {
		if m.ID != n.cfg.Me.ID {
			n.notifyPeer(m.peer())
		}
	}
}

// notifyPeer makes another node poll. If that node is already being notified, it is notified once more
// afterwards. If it cannot be reached, it polls by itself within a second. The caller holds mu.
func (n *Node) notifyPeer(to router.Peer) {
	if _, under := n.notifying[to.ID]; under {
		n.notifying[to.ID] = true
		return
	}
	n.notifying[to.ID] = false
	n.work.Go(func() {
		for again := true; again; {
			ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Every)
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
