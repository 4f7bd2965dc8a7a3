package membership

import (
	"context"
	"time"
)

// phase is the progress of this node in opening or closing a partition.
type phase int

const (
	none phase = iota
	opening
	open
	closing
)

// partitionState is the state of a partition that this node may own. The mutex of Node protects its
// fields.
type partitionState struct {
	part     int32
	slot     Slot
	takeover takeoverTimer

	phase     phase
	partition OpenPartition
	failed    bool
	// cancelOpening cancels an opening that is in progress.
	cancelOpening context.CancelFunc
	// until is the time until which this node's lease on the partition is certainly valid.
	until time.Time
	// givenAt is the time when this node gave the partition to another node for balance. to is the id of
	// that node.
	givenAt time.Time
	to      string
}

// count returns the number of partitions that are in the given phase. The caller holds the mutex n.mu.
func (n *Node) count(in phase) (count int) {
	for _, p := range n.partitions {
		if p.phase == in {
			count++
		}
	}
	return count
}

// step changes the phase of a partition and wakes the callers that wait for such a change. The caller
// holds the mutex n.mu.
func (n *Node) step(p *partitionState, to phase) {
	p.phase = to
	close(n.stepped)
	n.stepped = make(chan struct{})
}

// extendLease records that this node's lease on the partition is certainly valid until a later time.
func (p *partitionState) extendLease(until time.Time) {
	if !until.After(p.until) {
		return
	}
	p.until = until
	if p.phase == open {
		p.slot.ExtendLease(until)
	}
}

// abandon begins to close an open partition that this node no longer owns, or whose store has failed, and
// logs why. It does nothing if the partition is not open. The caller holds the mutex n.mu.
func (n *Node) abandon(p *partitionState, why string, args ...any) {
	if p.phase != open {
		return
	}
	n.cfg.Log.Warn("partition lost", append(args, "partition", p.part, "reason", why)...)
	p.takeover.backOff(time.Now())
	n.close(p)
}

// close begins to hand a partition over to the next owner, in a new goroutine. The caller holds the
// mutex n.mu.
func (n *Node) close(p *partitionState) {
	n.step(p, closing)
	n.work.Go(func() { n.handOver(p) })
}

// open begins to take over a partition in a new goroutine. The caller holds the mutex n.mu.
func (n *Node) open(p *partitionState) {
	n.step(p, opening)
	ctx, quit := context.WithCancel(context.Background())
	p.cancelOpening = quit
	n.work.Go(func() { n.acquire(ctx, p) })
}
