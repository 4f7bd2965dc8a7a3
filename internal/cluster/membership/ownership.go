package membership

import (
	"context"
	"time"
)

// acquire takes over a partition and opens it to calls.
func (n *Node) acquire(ctx context.Context, p *partitionState) {
	began := time.Now()
	opened, err := n.cfg.Open(ctx, p.part)
	n.mu.Lock()
	p.cancelOpening()
	if err != nil {
		p.takeover.backOff(time.Now())
		n.step(p, none)
		if !n.leaving {
			n.cfg.Log.Warn("opening partition failed, retrying", "partition", p.part, "error", err, "retry_after", p.takeover.backoff)
		}
		n.mu.Unlock()
		n.notifyAll()
		return
	}
	p.takeover.reset()
	p.partition, p.failed = opened, false
	n.step(p, open)
	// The lease began later than the time began, so it is valid at least until began plus the length of
	// a lease. If opening took a long time, heartbeats have extended the lease further.
	p.until = latestTime(p.until, began.Add(n.cfg.Lease-margin))
	p.slot.ExtendLease(p.until)
	p.slot.Attach(opened)
	n.work.Go(func() { n.watchFailure(p, opened) })
	n.cfg.Log.Info("partition acquired", "partition", p.part, "duration", time.Since(began))
	n.recordReturn(p)
	n.reconcile()
	n.mu.Unlock()
	n.notifyAll()
}

// watchFailure waits until an open partition fails or is closed. If its store fails, this node gives up
// the ownership.
func (n *Node) watchFailure(p *partitionState, opened OpenPartition) {
	select {
	case <-opened.Failed():
	case <-opened.Closed():
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.partition == opened {
		p.failed = true
		n.reconcile()
	}
}

// handOver closes a partition and releases its lease, so that the next owner can open it.
func (n *Node) handOver(p *partitionState) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.HandoverTimeout)
	defer cancel()
	if _, err := p.slot.Detach(ctx); err != nil {
		n.cfg.Log.Warn("partition released with calls in flight", "partition", p.part, "error", err)
	}
	empty := time.Since(began)
	n.mu.Lock()
	opened := p.partition
	n.mu.Unlock()
	if err := opened.Close(ctx); err != nil {
		n.cfg.Log.Warn("closing partition failed", "partition", p.part, "error", err)
	}
	<-opened.Closed()
	n.mu.Lock()
	p.partition, p.failed, p.until = nil, false, time.Time{}
	n.step(p, none)
	n.mu.Unlock()
	n.cfg.Log.Info("partition released", "partition", p.part, "duration", time.Since(began), "drain_duration", empty)
	n.notifyAll()
}
