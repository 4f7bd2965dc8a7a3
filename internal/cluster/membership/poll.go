package membership

import (
	"context"
	"slices"
	"time"
)

// poll sends a heartbeat, reads the rows and begins the necessary changes.
func (n *Node) poll(ctx context.Context) {
	n.mu.Lock()
	me, sent := n.cfg.Me, time.Now()
	me.Leaving = n.leaving
	// If a partition is opened after the rows were requested, the answer does not contain it.
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
	n.logReachability(err, sent)
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

// logReachability logs once that the database is unreachable, and once that it is reachable again. The
// caller holds mu.
func (n *Node) logReachability(err error, sent time.Time) {
	switch {
	case err != nil && n.away == nil:
		n.cfg.Log.Warn("database unreachable, retrying", "error", err)
	case err == nil && n.away != nil:
		n.cfg.Log.Info("database reachable again", "duration", sent.Sub(n.viewRequestedAt))
	}
	n.away = err
}

// updateView stores a view and wakes the callers that wait for a change. The caller holds mu.
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

// signal wakes the callers that wait for another view. The caller holds mu.
func (n *Node) signal() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// stateOf returns the state of a partition. It returns nil if this node cannot own the partition. The
// caller holds mu.
func (n *Node) stateOf(part int32) *partitionState {
	for _, p := range n.partitions {
		if p.part == part {
			return p
		}
	}
	return nil
}

// logUnsupportedFormats logs each format that this node does not support. It logs a format only once.
// The caller holds mu.
func (n *Node) logUnsupportedFormats(view View) {
	told := map[uint32]bool{}
	for _, part := range n.view.Parts {
		told[part.Format] = true
	}
	for _, part := range view.Parts {
		if err := n.cfg.keeps(part.Format); err != nil && !told[part.Format] {
			told[part.Format] = true
			n.cfg.Log.Warn("node on standby, it does not support the store's format", "error", err)
		}
	}
}

// logOwnerChange logs that another node owns a partition. It logs this once for each takeover. The
// caller holds mu.
func (n *Node) logOwnerChange(part Partition) {
	switch owner := part.Owner; {
	case owner == (Member{}) || owner.ID == n.view.part(part.ID).Owner.ID || owner.ID == n.cfg.Me.ID:
	case owner.outsideCluster():
		n.cfg.Log.Warn("partition owned by a process outside the cluster, waiting", "partition", part.ID, "owner", owner.Address)
	default:
		n.cfg.Log.Info("partition acquired by another node", "partition", part.ID, "owner", owner.Address)
	}
}

// margin is the time by which a node treats its lease as ended earlier than the database does.
const margin = 500 * time.Millisecond

// checkLease updates a partition from a view. sent is the time when the view was requested. asked is
// the partition that was open at that time. The caller holds mu.
func (n *Node) checkLease(p *partitionState, asked OpenPartition, sent time.Time) {
	part := n.view.part(p.part)
	if part.Owner.ID == n.cfg.Me.ID {
		p.extendLease(sent.Add(min(part.Lease, n.cfg.Lease) - margin))
	}
	if asked == nil || asked != p.partition {
		return
	}
	switch {
	case part.Owner != (Member{}) && part.Owner.ID != n.cfg.Me.ID:
		n.abandon(p, "taken over", "owner", part.Owner.Address)
	case part.Owner == (Member{}) && sent.Sub(p.until) > n.cfg.Lease:
		// Another node owned the partition in the meantime, or the owner is unknown. Heartbeats no
		// longer renew the lease. No commit would detect this, because no call reaches the partition.
		n.abandon(p, "lease expired")
	}
	if p.phase == open && n.view.formatOutdated(part) {
		n.cfg.Log.Info("format upgrade started, partition reopened", "partition", p.part, "format", part.Format)
		n.close(p)
	}
}

// atOnce limits the number of partitions that are opened at the same time. Each of them first needs
// connections to the database and reads its data.
const atOnce = 8

// reconcile begins the openings and handovers that the view requires. The caller holds mu.
func (n *Node) reconcile() {
	successors := n.view.successors(n.cfg.Me.ID, n.lastOwners)
	for _, p := range n.partitions {
		switch {
		case p.phase == opening && n.leaving:
			p.quit()
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

// mayTake reports whether this node may take over a partition when its timer is due. The caller holds
// mu.
func (n *Node) mayTake(p *partitionState) bool {
	return p.phase == none && !n.leaving && n.away == nil && n.cfg.keeps(n.view.part(p.part).Format) == nil
}

// next returns the time of the next regular poll.
func (n *Node) next() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away != nil {
		return time.Now()
	}
	at := n.lastPoll.Add(n.cfg.Every)
	sooner := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	successors := n.view.successors(n.cfg.Me.ID, n.lastOwners)
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
