package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/cluster/route"
)

// Seat is where calls of this node find the store while it has it: that of the router.
type Seat interface {
	Put(home route.Home)
	// Take closes it to calls and waits for those inside.
	Take(ctx context.Context) (route.Home, error)
	// Extend says until when the lease holds for certain.
	Extend(until time.Time)
}

// Tenure is the store, open, with its house.
type Tenure interface {
	route.Home
	// Close answers what was accepted, closes the store and gives its lease back.
	Close(ctx context.Context) error
	// Closed is closed once it is.
	Closed() <-chan struct{}
}

// Config is what a [Node] is made of. All but the times and Log is required.
type Config struct {
	Me Member
	// Oldest is the oldest format that this node keeps the store in. Default: any is.
	Oldest uint32
	Rows   Rows
	Seat   Seat
	// Open takes the store and opens it, or fails soon if another one has it; its context ends
	// with that. Beats renew the lease from the moment when it is taken.
	Open func(ctx context.Context) (Tenure, error)
	// Nudge has another node look at the rows now.
	Nudge func(ctx context.Context, to route.Peer) error
	// Lease is how long a beat keeps the store, and a node alive. Default 3 s.
	Lease time.Duration
	// Every is the pause between two looks when nothing happens. Default 1 s.
	Every time.Duration
	// Handing bounds how long calls inside are waited for at a hand-over. Default 10 s.
	Handing time.Duration
	// Log is told what happens. Default: discarded.
	Log *slog.Logger
}

// phase is where the node is between two tenures.
type phase int

const (
	none phase = iota
	opening
	open
	closing
)

// Node is one. Use [New], then [Node.Run]. Safe for concurrent use.
type Node struct {
	cfg  Config
	kick chan struct{}
	work sync.WaitGroup

	mu   sync.Mutex
	view View
	// changed is closed and made anew when who has the store changes, stepped when the phase
	// does, looked after every look.
	changed, stepped, looked chan struct{}
	// seen is when the rows were asked for the view, heard when it came, asked when they were asked
	// last; away is why they cannot be read.
	seen, heard, asked time.Time
	away               error
	claim              claim
	leaving            bool

	phase  phase
	tenure Tenure
	failed bool
	// quit ends an opening that is under way.
	quit context.CancelFunc
	// until is how long the lease holds for certain.
	until time.Time
}

// New makes one that has nothing yet.
func New(cfg Config) *Node {
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	def(&cfg.Lease, 3*time.Second)
	def(&cfg.Every, time.Second)
	def(&cfg.Handing, 10*time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Node{
		cfg: cfg, kick: make(chan struct{}, 1), claim: claim{me: cfg.Me.ID},
		changed: make(chan struct{}), stepped: make(chan struct{}), looked: make(chan struct{}),
	}
}

var _ route.Directory = (*Node)(nil)

// Owner is who has the store; false: nobody, or this node.
func (n *Node) Owner() (route.Peer, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if owner := n.view.Owner; owner.ID != n.cfg.Me.ID && !owner.stranger() {
		return owner.peer(), true
	}
	return route.Peer{}, false
}

// Changed is closed when that changes.
func (n *Node) Changed() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

// Refresh has the rows read soon. It may be called often; a nudge by another node is the same.
func (n *Node) Refresh() {
	select {
	case n.kick <- struct{}{}:
	default:
	}
}

// View is what was seen last.
func (n *Node) View() View {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.view
}

// The pause between two looks, however often somebody asks, and after one in vain; how soon after
// its end a lease is taken for ended.
const (
	atMost    = 10 * time.Millisecond
	afterAway = 200 * time.Millisecond
	afterEnd  = 2 * time.Millisecond
)

// Run looks and acts until ctx ends. Then it hands over what it still has, and takes its row away.
func (n *Node) Run(ctx context.Context) {
	for ctx.Err() == nil {
		n.look(ctx)
		if !sleep(ctx, n.rest(), nil) || !sleep(ctx, time.Until(n.next()), n.kick) {
			break
		}
	}
	n.leave()
	_ = n.settled(context.Background()) // that does not end
	n.work.Wait()
	last, cancel := context.WithTimeout(context.Background(), n.cfg.Every)
	defer cancel()
	if err := n.cfg.Rows.Leave(last, n.cfg.Me); err != nil {
		n.cfg.Log.Warn("the row of this node stays until its lease ends", "error", err)
	}
}

// rest is how long the rows are left alone, whoever asks: callers who wait for an owner ask often,
// and a database that is about to come back is not to be busy with us.
func (n *Node) rest() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away != nil {
		return afterAway
	}
	return atMost
}

// sleep pauses, or until somebody kicks; false: ctx has ended.
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

// Leave hands the store over, if this node has it, and waits until it is free, or ctx ends.
// It takes it no more. Run goes on, so that others are known for as long as there are callers.
func (n *Node) Leave(ctx context.Context) error {
	n.leave()
	n.Refresh()
	return n.settled(ctx)
}

func (n *Node) leave() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leaving = true
	n.act()
}

// settled waits until nothing is open.
func (n *Node) settled(ctx context.Context) error {
	for {
		n.mu.Lock()
		phase, stepped := n.phase, n.stepped
		n.mu.Unlock()
		if phase == none {
			return nil
		}
		select {
		case <-stepped:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
