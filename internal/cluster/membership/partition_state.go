package membership

import (
	"context"
	"time"
)

// phase is the progress of a node between two ownerships of a partition.
type phase int

const (
	none phase = iota
	opening
	open
	closing
)

// partitionState is a partition that a node may have. Its fields are under the node's lock.
type partitionState struct {
	part     int32
	slot     Slot
	takeover takeoverTimer

	phase     phase
	partition OpenPartition
	failed    bool
	// quit ends an opening that is under way.
	quit context.CancelFunc
	// until is the time until which the lease certainly holds.
	until time.Time
	// given is when the partition was given away for balance, to is the node that it was given
	// to.
	given time.Time
	to    string
}

// count returns the number of partitions in a phase. Called under mu.
func (n *Node) count(in phase) (count int) {
	for _, p := range n.partitions {
		if p.phase == in {
			count++
		}
	}
	return count
}

// step is called under mu.
func (n *Node) step(p *partitionState, to phase) {
	p.phase = to
	close(n.stepped)
	n.stepped = make(chan struct{})
}

// extendLease learns how long the lease holds for certain.
func (p *partitionState) extendLease(until time.Time) {
	if !until.After(p.until) {
		return
	}
	p.until = until
	if p.phase == open {
		p.slot.ExtendLease(until)
	}
}

// closeFailed closes what this node has no more. It is called under mu.
func (n *Node) abandon(p *partitionState, why string, args ...any) {
	if p.phase != open {
		return
	}
	n.cfg.Log.Warn("partition lost", append(args, "partition", p.part, "reason", why)...)
	p.takeover.backOff(time.Now())
	n.close(p)
}

// close begins to hand a partition over. It is called under mu.
func (n *Node) close(p *partitionState) {
	n.step(p, closing)
	n.work.Go(func() { n.handOver(p) })
}

// open begins to take a partition. It is called under mu.
func (n *Node) open(p *partitionState) {
	n.step(p, opening)
	ctx, quit := context.WithCancel(context.Background())
	p.quit = quit
	n.work.Go(func() { n.acquire(ctx, p) })
}
