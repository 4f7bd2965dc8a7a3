package membership

import (
	"maps"
	"time"
)

// Placement is a function of what the rows say, so that nodes that see the same decide the same.
// Where they do not, a take-over fails and is tried again: that nobody has a partition besides its
// owner is not placement's doing.

// loads counts what each node that stays has.
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

// fewest is the node that may have a partition and has fewest by loads, the eldest of those; "":
// nobody may.
func (v View) fewest(p Partition, loads map[string]int, but func(m Member) bool) (id string) {
	for _, m := range v.Nodes {
		if m.canOwn(p) && !but(m) && (id == "" || loads[m.ID] < loads[id]) {
			id = m.ID
		}
	}
	return id
}

// successors says who takes each partition that nobody has, at once: of all that may, who has fewest.
// Who is new comes after all others: a process that was started in the place of one that was killed has
// fewest, and is slowest to open anything, as it reads, compiles and connects for itself first; it
// gets its share when the others have shared this. had is who had it last, and did not renew the
// lease: that one is not there though its row may be, unless it is me.
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

// move is a partition that is to be another node's.
type move struct {
	part     int32
	from, to string
}

// moves are those after which no node has two more than another one that could have one of them; none
// while somebody is about to take one.
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

// move is the next one, away from the node that has most. Who is new would not be heir of what is given
// away for it.
func (v View) move(loads map[string]int, owners map[int32]string) (best move, found bool) {
	for i := range v.Parts {
		p := v.Parts[len(v.Parts)-1-i]
		from := owners[p.ID]
		if _, stays := loads[from]; !stays {
			continue // it is given away without us
		}
		to := v.fewest(p, loads, func(m Member) bool { return m.ID == from || m.New })
		if to == "" || loads[from]-loads[to] < 2 || found && loads[from] <= loads[best.from] {
			continue
		}
		best, found = move{part: p.ID, from: from, to: to}, true
	}
	return best, found
}

// How long everything has an owner before something is given away; how soon it is back if the one
// that it was given to did not want it, and for how long nothing is given then: the first time, and
// at most, as it is twice as long each time.
const (
	settling        = 2 * time.Second
	refused         = 30 * time.Second
	minRefusalPause = time.Minute
	maxRefusalPause = 16 * minRefusalPause
	// levelling is how long more is given as soon as the last of it has been taken.
	levelling = 10 * time.Second
	// yielding is how long who gave something leaves it to the others: they open only so many at once.
	yielding = 3 * time.Second
)

// refusal is how long nothing is given, because of a node that did not want what it was given.
type refusal struct {
	until time.Time
	pause time.Duration
}

// balance gives away what is more than this node's share, as much at once as is opened at once. It is called
// under mu.
func (n *Node) balance() {
	now := time.Now()
	calm := now.Sub(n.stableSince) >= settling
	if n.leaving || n.away != nil || !calm && !now.Before(n.rebalanceUntil) || n.isBalancingPaused(now) || n.count(opening)+n.count(closing) > 0 {
		return
	}
	for _, m := range n.view.moves() {
		if p := n.stateOf(m.part); m.from == n.cfg.Me.ID && p != nil && p.phase == open && n.count(closing) < atOnce {
			n.cfg.Log.Info("partition handover to less loaded node started", "partition", p.part, "to", m.to)
			p.given, p.to = now, m.to
			if calm {
				n.rebalanceUntil = now.Add(levelling)
			}
			p.takeover.retryAt = later(p.takeover.retryAt, now.Add(yielding))
			n.close(p)
		}
	}
}

// recordReturn notes that a place is open again, which may have been given away in vain. It is called under mu.
func (n *Node) recordReturn(p *partitionState) {
	if now := time.Now(); !p.given.IsZero() && now.Sub(p.given) < refused {
		lasts := min(max(2*n.refusals[p.to].pause, minRefusalPause), maxRefusalPause)
		if now.Before(n.refusals[p.to].until) {
			lasts = n.refusals[p.to].pause // it came with others
		}
		n.refusals[p.to] = refusal{now.Add(lasts), lasts}
	}
	p.given = time.Time{}
}

// isBalancingPaused is called under mu.
func (n *Node) isBalancingPaused(now time.Time) bool {
	for _, t := range n.refusals {
		if now.Before(t.until) {
			return true
		}
	}
	return false
}

// resolveHandovers learns from a view what was not given in vain: what a third node has by now, and what may come back
// because the node that it was given to is not there; and who has kept what it was given. It is called
// under mu.
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

// Unowned is how many partitions nobody has that some node may take.
func (v View) Unowned() (n int) {
	for _, p := range v.Parts {
		if p.Owner == (Member{}) && v.fewest(p, nil, func(Member) bool { return false }) != "" {
			n++
		}
	}
	return n
}
