package membership

import (
	"maps"
	"time"
)

// Placement decides which node owns which partition. It is computed only from the rows in the database,
// so nodes that read the same rows make the same decisions. If nodes decide differently, a takeover
// fails and is retried. Placement does not guarantee that a partition has only one owner. Fencing in
// the store guarantees this: it refuses commits of an earlier owner.

// loads returns the number of partitions of each node. Nodes that are leaving are not included.
func (v View) loads() map[string]int {
	loads := map[string]int{}
	for _, m := range v.Nodes {
		if !m.Leaving {
			loads[m.ID] = 0
		}
	}
	for _, p := range v.Parts {
		if _, stays := loads[p.Owner.ID]; stays {
			loads[p.Owner.ID]++
		}
	}
	return loads
}

// leastLoaded returns the id of the node that has the fewest partitions according to loads and may own p. It
// ignores nodes for which but returns true. If several nodes have equally few, it returns the one that
// joined first. If there is none, it returns "".
func (v View) leastLoaded(p Partition, loads map[string]int, but func(m Member) bool) (id string) {
	for _, m := range v.Nodes {
		if m.canOwn(p) && !but(m) && (id == "" || loads[m.ID] < loads[id]) {
			id = m.ID
		}
	}
	return id
}

// successors assigns every unowned partition to the node with the fewest partitions that may own it.
// New nodes are chosen last, because a process that has just started opens a partition more slowly: it
// must first read, compile and connect. New nodes get their share later by balancing.
//
// had contains the last owner of each partition. The last owner did not renew its lease, so it is
// treated as dead even if its row still exists, unless it is this node (me).
func (v View) successors(me string, had map[int32]string) map[int32]string {
	loads, successors := v.loads(), map[int32]string{}
	for _, p := range v.Parts {
		if p.Owner != (Member{}) {
			continue
		}
		gone := func(m Member) bool { return m.ID == had[p.ID] && m.ID != me }
		heir := v.leastLoaded(p, loads, func(m Member) bool { return m.New || gone(m) })
		if heir == "" {
			heir = v.leastLoaded(p, loads, gone)
		}
		if heir != "" {
			successors[p.ID] = heir
			loads[heir]++
		}
	}
	return successors
}

// move is a planned move of a partition from one node to another.
type move struct {
	part     int32
	from, to string
}

// balancingMoves returns the moves that balance the cluster. After these moves, no node has two partitions more
// than another node that could own one of them and is not new. While a partition has no owner, balancingMoves returns nil.
func (v View) balancingMoves() (balancingMoves []move) {
	if v.Unowned() > 0 {
		return nil
	}
	loads, owners := v.loads(), map[int32]string{}
	for _, p := range v.Parts {
		owners[p.ID] = p.Owner.ID
	}
	for {
		next, found := v.move(loads, owners)
		if !found {
			return balancingMoves
		}
		loads[next.from]--
		loads[next.to]++
		owners[next.part] = next.to
		balancingMoves = append(balancingMoves, next)
	}
}

// move returns the next move that balances the cluster. It takes a partition from the node with the
// most partitions. The target is never a new node, because new nodes take over unowned partitions last.
func (v View) move(loads map[string]int, owners map[int32]string) (best move, found bool) {
	for i := range v.Parts {
		p := v.Parts[len(v.Parts)-1-i]
		from := owners[p.ID]
		if _, stays := loads[from]; !stays {
			continue // the owner is leaving and gives it away anyway
		}
		to := v.leastLoaded(p, loads, func(m Member) bool { return m.ID == from || m.New })
		if to == "" || loads[from]-loads[to] < 2 || found && loads[from] <= loads[best.from] {
			continue
		}
		best, found = move{part: p.ID, from: from, to: to}, true
	}
	return best, found
}

// These constants are the times of balancing, which gives partitions to nodes that have fewer.
const (
	// settlingTime is how long the view of the cluster must be unchanged before this node gives a partition
	// to another node.
	settlingTime = 2 * time.Second
	// refusalWindow is how long after a handover the return of a partition counts as a refusal. If this node has to open the
	// partition again within this time, the node that was given the partition did not open it,
	// and balancing pauses.
	refusalWindow = 30 * time.Second
	// minRefusalPause is how long balancing first pauses after a node did not open a partition that was
	// given to it. The pause doubles each time, up to maxRefusalPause.
	minRefusalPause = time.Minute
	maxRefusalPause = 16 * minRefusalPause
	// levellingTime is how long this node may continue to give partitions to other nodes after it gave the
	// first one. In this time, it does not wait until the view of the cluster is unchanged, because its
	// own handovers change the view.
	levellingTime = 10 * time.Second
	// yieldingTime is how long this node does not take over again a partition that it gave to another node.
	// The other node may need this time, because a node opens only a few partitions at once.
	yieldingTime = 3 * time.Second
)

// refusal is a pause of balancing, because a node did not open a partition that was given to it.
type refusal struct {
	until time.Time
	pause time.Duration
}

// balance gives the partitions above this node's share to other nodes. It hands over at most atOnce
// partitions at the same time. The caller holds the mutex n.mu.
func (n *Node) balance() {
	now := time.Now()
	calm := now.Sub(n.stableSince) >= settlingTime
	if n.leaving || n.pollError != nil || !calm && !now.Before(n.rebalanceUntil) || n.isBalancingPaused(now) || n.count(opening)+n.count(closing) > 0 {
		return
	}
	for _, m := range n.view.balancingMoves() {
		if p := n.stateOf(m.part); m.from == n.cfg.Self.ID && p != nil && p.phase == open && n.count(closing) < atOnce {
			n.cfg.Log.Info("partition handover to less loaded node started", "partition", p.part, "node", m.to)
			p.givenAt, p.to = now, m.to
			if calm {
				n.rebalanceUntil = now.Add(levellingTime)
			}
			p.takeover.retryAt = latestTime(p.takeover.retryAt, now.Add(yieldingTime))
			n.close(p)
		}
	}
}

// recordReturn is called when this node has opened a partition. If this node gave the same partition to
// another node a short time before, that node did not open it, and balancing pauses. The caller holds
// the mutex n.mu.
func (n *Node) recordReturn(p *partitionState) {
	if now := time.Now(); !p.givenAt.IsZero() && now.Sub(p.givenAt) < refusalWindow {
		lasts := min(max(2*n.refusals[p.to].pause, minRefusalPause), maxRefusalPause)
		if now.Before(n.refusals[p.to].until) {
			lasts = n.refusals[p.to].pause // another partition came back from the same node
		}
		n.refusals[p.to] = refusal{now.Add(lasts), lasts}
	}
	p.givenAt = time.Time{}
}

// isBalancingPaused reports whether balancing is paused because a node did not open a partition that
// was given to it. The caller holds the mutex n.mu.
func (n *Node) isBalancingPaused(now time.Time) bool {
	for _, t := range n.refusals {
		if now.Before(t.until) {
			return true
		}
	}
	return false
}

// resolveHandovers forgets the handovers whose result a new view of the cluster shows. A handover has
// failed if its target node is leaving or no longer alive, or if a third node owns the partition. It has
// succeeded if the target owns the partition when the duration refusalWindow has passed since the handover. In
// this case, balancing is no longer paused because of the target. It is also no longer paused because of a
// node that is leaving or no longer alive. The caller holds the mutex n.mu.
func (n *Node) resolveHandovers(view View) {
	now, loads := time.Now(), view.loads()
	gone := func(id string) bool {
		_, stays := loads[id]
		return !stays
	}
	for _, p := range n.partitions {
		if p.givenAt.IsZero() {
			continue
		}
		switch owner := view.part(p.part).Owner.ID; {
		case gone(p.to) || owner != "" && owner != p.to && owner != n.cfg.Self.ID:
			p.givenAt = time.Time{}
		case owner == p.to && now.Sub(p.givenAt) >= refusalWindow:
			p.givenAt = time.Time{}
			delete(n.refusals, p.to)
		}
	}
	maps.DeleteFunc(n.refusals, func(id string, _ refusal) bool { return gone(id) })
}

// Unowned returns the number of partitions that have no owner and that some node may take over.
func (v View) Unowned() (n int) {
	for _, p := range v.Parts {
		if p.Owner == (Member{}) && v.leastLoaded(p, nil, func(Member) bool { return false }) != "" {
			n++
		}
	}
	return n
}
