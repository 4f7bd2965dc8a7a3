package membership

import (
	"maps"
	"time"
)

// Placement is a function of the database rows, so nodes that read the same rows make the same
// decisions. If nodes decide differently, a takeover fails and is retried. Placement does not guarantee
// that a partition has only one owner. The fence of the store guarantees this.

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

// fewest returns the node with the fewest partitions, according to loads, among the nodes that may own
// p and that but does not exclude. If several have equally few, it returns the oldest of them. It
// returns "" if there is none.
func (v View) fewest(p Partition, loads map[string]int, but func(m Member) bool) (id string) {
	for _, m := range v.Nodes {
		if m.canOwn(p) && !but(m) && (id == "" || loads[m.ID] < loads[id]) {
			id = m.ID
		}
	}
	return id
}

// successors assigns every unowned partition to the node with the fewest partitions among the nodes
// that may own it. New nodes are chosen last. A process that replaced a killed process has the fewest
// partitions, but it opens a partition most slowly, because it must first read, compile and connect. It
// gets its share later by balancing. had contains the last owner of each partition. The last owner did
// not renew its lease. Therefore it is treated as dead even if its row exists, unless it is this node
// (me).
func (v View) successors(me string, had map[int32]string) map[int32]string {
	loads, successors := v.loads(), map[int32]string{}
	for _, p := range v.Parts {
		if p.Owner != (Member{}) {
			continue
		}
		gone := func(m Member) bool { return m.ID == had[p.ID] && m.ID != me }
		heir := v.fewest(p, loads, func(m Member) bool { return m.New || gone(m) })
		if heir == "" {
			heir = v.fewest(p, loads, gone)
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

// moves returns the moves that balance the cluster. After these moves, no node has two partitions more
// than another node that could own one of them. While a partition has no owner, it returns none.
func (v View) moves() (moves []move) {
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
			return moves
		}
		loads[next.from]--
		loads[next.to]++
		owners[next.part] = next.to
		moves = append(moves, next)
	}
}

// move returns the next move. The partition is taken from the node with the most partitions. The target
// is not a new node, because a new node would not take over the partition.
func (v View) move(loads map[string]int, owners map[int32]string) (best move, found bool) {
	for i := range v.Parts {
		p := v.Parts[len(v.Parts)-1-i]
		from := owners[p.ID]
		if _, stays := loads[from]; !stays {
			continue // the owner is leaving and gives it away anyway
		}
		to := v.fewest(p, loads, func(m Member) bool { return m.ID == from || m.New })
		if to == "" || loads[from]-loads[to] < 2 || found && loads[from] <= loads[best.from] {
			continue
		}
		best, found = move{part: p.ID, from: from, to: to}, true
	}
	return best, found
}

// These constants are times of balancing. settling is how long the view must be unchanged before this
// node gives a partition to another node. If this node gets the partition back within the time refused,
// the new owner did not open it. In this case no partition is given to another node for the time
// minRefusalPause. This pause doubles each time, up to maxRefusalPause.
const (
	settling        = 2 * time.Second
	refused         = 30 * time.Second
	minRefusalPause = time.Minute
	maxRefusalPause = 16 * minRefusalPause
	// levelling is how long further partitions may be given to other nodes after the last one was
	// given.
	levelling = 10 * time.Second
	// yielding is how long a node does not take over a partition that it gave to another node. The
	// other nodes need this time, because they open only a few partitions at once.
	yielding = 3 * time.Second
)

// refusal pauses balancing because a node did not open a partition that was given to it.
type refusal struct {
	until time.Time
	pause time.Duration
}

// balance gives the partitions above this node's share to other nodes, at most atOnce at the same time.
// The caller holds mu.
func (n *Node) balance() {
	now := time.Now()
	calm := now.Sub(n.stableSince) >= settling
	if n.leaving || n.away != nil || !calm && !now.Before(n.rebalanceUntil) || n.isBalancingPaused(now) || n.count(opening)+n.count(closing) > 0 {
		return
	}
	for _, m := range n.view.moves() {
		if p := n.stateOf(m.part); m.from == n.cfg.Me.ID && p != nil && p.phase == open && n.count(closing) < atOnce {
			n.cfg.Log.Info("partition handover to less loaded node started", "partition", p.part, "node", m.to)
			p.given, p.to = now, m.to
			if calm {
				n.rebalanceUntil = now.Add(levelling)
			}
			p.takeover.retryAt = later(p.takeover.retryAt, now.Add(yielding))
			n.close(p)
		}
	}
}

// recordReturn records that this node has opened a partition again. If this node gave the partition to
// another node a short time before, the other node did not open it, and balancing pauses. The caller
// holds mu.
func (n *Node) recordReturn(p *partitionState) {
	if now := time.Now(); !p.given.IsZero() && now.Sub(p.given) < refused {
		lasts := min(max(2*n.refusals[p.to].pause, minRefusalPause), maxRefusalPause)
		if now.Before(n.refusals[p.to].until) {
			lasts = n.refusals[p.to].pause // another partition came back from the same node
		}
		n.refusals[p.to] = refusal{now.Add(lasts), lasts}
	}
	p.given = time.Time{}
}

// isBalancingPaused reports whether a refusal currently pauses balancing. The caller holds mu.
func (n *Node) isBalancingPaused(now time.Time) bool {
	for _, t := range n.refusals {
		if now.Before(t.until) {
			return true
		}
	}
	return false
}

// resolveHandovers updates the pending handovers from a view. A handover ends if its target is no
// longer alive, if a third node owns the partition, or if the target has owned it for the time refused.
// In the last case the refusal of that target also ends. The caller holds mu.
func (n *Node) resolveHandovers(view View) {
	now, loads := time.Now(), view.loads()
	gone := func(id string) bool {
		_, stays := loads[id]
		return !stays
	}
	for _, p := range n.partitions {
		if p.given.IsZero() {
			continue
		}
		switch owner := view.part(p.part).Owner.ID; {
		case gone(p.to) || owner != "" && owner != p.to && owner != n.cfg.Me.ID:
			p.given = time.Time{}
		case owner == p.to && now.Sub(p.given) >= refused:
			p.given = time.Time{}
			delete(n.refusals, p.to)
		}
	}
	maps.DeleteFunc(n.refusals, func(id string, _ refusal) bool { return gone(id) })
}

// Unowned returns the number of partitions that have no owner and that some node may take over.
func (v View) Unowned() (n int) {
	for _, p := range v.Parts {
		if p.Owner == (Member{}) && v.fewest(p, nil, func(Member) bool { return false }) != "" {
			n++
		}
	}
	return n
}
