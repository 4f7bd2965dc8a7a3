package membership

import (
	"context"
	"slices"
	"time"
)

// poll sends a heartbeat, reads the rows of the cluster, and begins to open or close partitions
// accordingly.
func (n *Node) poll(ctx context.Context) {
	n.mu.Lock()
	me, sent := n.cfg.Self, time.Now()
	me.Leaving = n.leaving
	// judged contains the partitions that are open before the rows are requested. The answer may not contain
	// a partition that was opened later, so only the partitions in judged may be closed because of it.
	judged := make([]OpenPartition, len(n.partitions))
	for i, p := range n.partitions {
		judged[i] = p.partition
	}
	n.mu.Unlock()
	view, err := n.cfg.Registry.Heartbeat(ctx, me)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lastPoll = sent
	close(n.polled)
	n.polled = make(chan struct{})
	if ctx.Err() != nil {
		return
	}
	n.logReachability(ctx, err, sent)
	if err != nil && !n.stale && !n.viewRequestedAt.IsZero() && time.Since(n.viewRequestedAt) >= n.cfg.Lease {
		n.stale = true
		n.signal()
	}
	if err == nil {
		first := n.viewRequestedAt.IsZero()
		n.updateView(view, sent)
		if first {
			n.work.Go(n.notifyAll)
		}
		for i, p := range n.partitions {
			n.checkLease(p, judged[i], sent)
		}
	}
	n.reconcile()
}

// logReachability logs when the database becomes unreachable, with the reason if one is found, and when it becomes
// reachable again. The caller holds the mutex n.mu.
func (n *Node) logReachability(ctx context.Context, err error, sent time.Time) {
	switch {
	case err != nil && n.pollError == nil:
		n.cfg.Log.Warn("database unreachable, retrying", "error", err)
		if n.cfg.FindHindrance != nil {
			n.work.Go(func() { n.logHindrance(ctx, err) })
		}
	case err == nil && n.pollError != nil:
		n.cfg.Log.Info("database reachable again", "duration", sent.Sub(n.viewRequestedAt))
	}
	n.pollError = err
}

// logHindrance logs why a database that can be reached does not answer in time.
func (n *Node) logHindrance(ctx context.Context, err error) {
	if why := n.cfg.FindHindrance(ctx, err); why != nil {
		n.cfg.Log.Warn("database reachable, but does not answer in time", "error", why)
	}
}

// updateView stores a new view of the cluster and wakes the callers that wait for a change. The caller
// holds the mutex n.mu.
func (n *Node) updateView(view View, sent time.Time) {
	now := time.Now()
	gap := !n.viewRequestedAt.IsZero() && sent.Sub(n.viewRequestedAt) > n.cfg.Lease/2
	n.logUnsupportedFormats(view)
	for _, part := range view.Parts {
		n.logOwnerChange(part)
		if part.Owner != (Member{}) {
			n.lastOwners[part.ID] = part.Owner.ID
		}
		if p := n.stateOf(part.ID); p != nil {
			p.takeover.observe(part.Owner, now, gap)
		}
	}
	n.resolveHandovers(view)
	same, stays := n.view.same(view) && !n.stale, n.view.sameMembers(view) && !gap
	if !stays || !slices.EqualFunc(n.view.Parts, view.Parts, Partition.same) {
		n.stableSince = now
	}
	if !stays {
		n.rebalanceUntil = time.Time{}
	}
	n.view, n.viewRequestedAt, n.viewReceivedAt, n.stale = view, sent, now, false
	if !same {
		n.signal()
	}
}

// signal wakes the goroutines that wait until a partition has another owner. They look again, because the
// view may have changed in another way. The caller holds the mutex n.mu.
func (n *Node) signal() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// stateOf returns the state of a partition. It returns nil if this node cannot own the partition. The
// caller holds the mutex n.mu.
func (n *Node) stateOf(part int32) *partitionState {
	for _, p := range n.partitions {
		if p.part == part {
			return p
		}
	}
	return nil
}

// logUnsupportedFormats logs each storage format of a partition that this node does not support, but
// not those that the previous view already had. The caller holds the mutex n.mu.
func (n *Node) logUnsupportedFormats(view View) {
	logged := map[uint32]bool{}
	for _, part := range n.view.Parts {
		logged[part.Format] = true
	}
	for _, part := range view.Parts {
		if err := n.cfg.checkFormat(part.Format); err != nil && !logged[part.Format] {
			logged[part.Format] = true
			n.cfg.Log.Warn("node on standby, it does not support the store's format", "error", err)
		}
	}
}

// logOwnerChange logs that another node has taken over a partition. The caller holds the mutex n.mu.
func (n *Node) logOwnerChange(part Partition) {
	switch owner := part.Owner; {
	case owner == (Member{}) || owner.ID == n.view.part(part.ID).Owner.ID || owner.ID == n.cfg.Self.ID:
	case owner.outsideCluster():
		n.cfg.Log.Warn("partition owned by a process outside the cluster, waiting", "partition", part.ID, "owner", owner.Address)
	default:
		n.cfg.Log.Info("partition acquired by another node", "partition", part.ID, "owner", owner.Address)
	}
}

// margin is the safety time for leases. A node treats its lease as ended this much earlier than the
// database does.
const margin = 500 * time.Millisecond

// checkLease extends the lease of a partition, or closes the partition, as the current view of the
// cluster requires. sent is the time when the view was requested. asked is the open partition at that
// time, or nil. The caller holds the mutex n.mu.
func (n *Node) checkLease(p *partitionState, asked OpenPartition, sent time.Time) {
	part := n.view.part(p.part)
	if part.Owner.ID == n.cfg.Self.ID {
		p.extendLease(sent.Add(min(part.Lease, n.cfg.Lease) - margin))
	}
	if asked == nil || asked != p.partition {
		return
	}
	switch {
	case part.Owner != (Member{}) && part.Owner.ID != n.cfg.Self.ID:
		n.abandon(p, "taken over", "owner", part.Owner.Address)
	case part.Owner == (Member{}) && sent.Sub(p.until) > n.cfg.Lease:
		// The lease ended more than the length of a lease ago. Another node may have owned the
		// partition in the meantime. No commit would detect this, because no call reaches the
		// partition.
		n.abandon(p, "lease expired")
	}
	if p.phase == open && n.view.formatOutdated(part) {
		n.cfg.Log.Info("format upgrade started, partition reopened", "partition", p.part, "format", part.Format)
		n.close(p)
	}
}

// atOnce limits the number of partitions that are opened at the same time, because each opening needs
// connections to the database and reads data. It also limits how many balance hands over at the same time.
const atOnce = 8

// reconcile opens or hands over partitions as the current view of the cluster requires. It only begins
// this work. The caller holds the mutex n.mu.
func (n *Node) reconcile() {
	successors := n.view.successors(n.cfg.Self.ID, n.lastOwners)
	for _, p := range n.partitions {
		switch {
		case p.phase == opening && n.leaving:
			p.cancelOpening()
		case p.phase == open && n.leaving:
			n.close(p)
		case p.phase == open && p.failed:
			n.abandon(p, "store failed")
		case n.mayTake(p) && n.count(opening) < atOnce:
			if at, free := p.takeover.dueAt(successors[p.part]); free && !time.Now().Before(at) {
				n.open(p)
			}
		}
	}
	n.balance()
}

// mayTake reports whether this node may take over a partition, apart from the time at which it may do
// so. The caller holds the mutex n.mu.
func (n *Node) mayTake(p *partitionState) bool {
	return p.phase == none && !n.leaving && n.pollError == nil && n.cfg.checkFormat(n.view.part(p.part).Format) == nil
}

// next returns the time of the next poll if nothing requests an earlier one.
func (n *Node) next() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pollError != nil {
		return time.Now()
	}
	at := n.lastPoll.Add(n.cfg.PollInterval)
	sooner := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	successors := n.view.successors(n.cfg.Self.ID, n.lastOwners)
	for _, part := range n.view.Parts {
		p := n.stateOf(part.ID)
		if p == nil || !n.mayTake(p) || n.count(opening) >= atOnce {
			continue
		}
		if take, free := p.takeover.dueAt(successors[part.ID]); free {
			sooner(take)
		} else {
			sooner(n.viewReceivedAt.Add(part.Lease + afterEnd))
		}
	}
	return at
}
