package membership

import (
	"maps"
	"time"
)

// Placement is a function of the rows, so that nodes that read the same rows decide the same.
// If nodes decide differently, a takeover fails and is retried. Placement does not guarantee that
// a partition has only one owner: the store's fence does.

// loads returns the number of partitions of each node that is not leaving.
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

// fewest returns the node with the fewest partitions, by loads, among those that may own p and that
// but does not exclude. Of several, it returns the oldest node. It returns "" if there is none.
func (v View) fewest(p Partition, loads map[string]int, but func(m Member) bool) (id string) {
	for _, m := range v.Nodes {
		if m.canOwn(p) && !but(m) && (id == "" || loads[m.ID] < loads[id]) {
			id = m.ID
		}
	}
	return id
}

// successors assigns every unowned partition to the node with the fewest partitions among those
// that may own it. New nodes come last: a process that replaced a killed one has the fewest
// partitions but is the slowest to open one, because it must first read, compile and connect.
// It gets its share by balancing later. had is the last owner of each partition. That owner did
// not renew the lease, so it counts as dead even if its row exists, except if it is this node (me).
func (v View) successors(me string, had map[int32]string) map[int32]string {
	loads, heirs := v.loads(), map[int32]string{}
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
			heirs[p.ID] = heir
			loads[heir]++
		}
	}
	return heirs
}

// move is a planned move of a partition from one node to another.
type move struct {
	part     int32
	from, to string
}

// moves returns the moves that balance the cluster: after them no node has two partitions more
// than another node that could own one of them. It returns none while a partition has no owner.
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

// move returns the next move, away from the node with the most partitions. It chooses no new
// node, because a new node would not take over the partition.
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

// Times of balancing. settling is how long the view must be unchanged before a partition is given
// away. If the partition comes back within the time refused, its new owner did not open it. Then no
// partition is given away for minRefusalPause; the pause doubles each time, up to maxRefusalPause.
const (
	settling        = 2 * time.Second
	refused         = 30 * time.Second
	minRefusalPause = time.Minute
	maxRefusalPause = 16 * minRefusalPause
	// levelling is how long more partitions may be given away after the last one.
	levelling = 10 * time.Second
	// yielding is how long a node that gave a partition away does not take it over again. The
	// other nodes need time, because they open only a few partitions at once.
	yielding = 3 * time.Second
)

// refusal pauses balancing because a node did not open a partition that it was given.
type refusal struct {
	until time.Time
	pause time.Duration
}

// balance gives away the partitions above this node's share, at most atOnce at the same time.
// Called under mu.
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

// recordReturn records that this node has opened a partition again. If it gave the partition away a
// short time before, the other node did not open it, and balancing pauses. Called under mu.
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

// isBalancingPaused reports whether a refusal pauses balancing now. Called under mu.
func (n *Node) isBalancingPaused(now time.Time) bool {
	for _, t := range n.refusals {
		if now.Before(t.until) {
			return true
		}
	}
	return false
}

// resolveHandovers updates the pending handovers from a view. A handover ends if its target is
// gone, if a third node owns the partition, or if the target has owned it for the time refused. In
// the last case the refusal of that target ends too. Called under mu.
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

// Unowned returns the number of partitions without an owner that some node may take.
func (v View) Unowned() (n int) {
	for _, p := range v.Parts {
		if p.Owner == (Member{}) && v.fewest(p, nil, func(Member) bool { return false }) != "" {
			n++
		}
	}
	return n
}
