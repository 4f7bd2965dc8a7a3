package membership

import (
	"context"
	"time"
)

// phase is the progress of a node in opening or closing a partition.
type phase int

const (
	none phase = iota
	opening
	open
	closing
)

// partitionState is the state of a partition that this node may own. The node's lock protects its
// fields.
type partitionState struct {
	part     int32
	slot     Slot
	takeover takeoverTimer

	phase     phase
	partition OpenPartition
	failed    bool
	// quit cancels an opening that is in progress.
	quit context.CancelFunc
	// until is the time until which the lease is certainly valid.
	until time.Time
	// given is the time when this node gave the partition to another node for balance. to is this other
	// node.
	given time.Time
	to    string
}

// count returns the number of partitions in a phase. The caller holds mu.
func (n *Node) count(in phase) (count int) {
	for _, p := range n.partitions {
		if p.phase == in {
			count++
		}
	}
	return count
}

// step changes the phase of a partition and wakes the callers that wait for such a change. The caller
// holds mu.
func (n *Node) step(p *partitionState, to phase) {
	p.phase = to
	close(n.stepped)
	n.stepped = make(chan struct{})
}

// extendLease records a later time until which the lease is certainly valid.
func (p *partitionState) extendLease(until time.Time) {
	if !until.After(p.until) {
		return
	}
	p.until = until
	if p.phase == open {
		p.slot.ExtendLease(until)
	}
}

// abandon closes an open partition that this node no longer owns. The caller holds mu.
func (n *Node) abandon(p *partitionState, why string, args ...any) {
	if p.phase != open {
		return
	}
	n.cfg.Log.Warn("partition lost", append(args, "partition", p.part, "reason", why)...)
	p.takeover.backOff(time.Now())
	n.close(p)
}

// close begins to hand a partition over. The caller holds mu.
func (n *Node) close(p *partitionState) {
	n.step(p, closing)
	n.work.Go(func() { n.handOver(p) })
}

// open begins to take over a partition. The caller holds mu.
func (n *Node) open(p *partitionState) {
	n.step(p, opening)
	ctx, quit := context.WithCancel(context.Background())
	p.quit = quit
	n.work.Go(func() { n.acquire(ctx, p) })
}
