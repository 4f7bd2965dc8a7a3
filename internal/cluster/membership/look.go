package membership

import (
	"context"
	"slices"
	"time"
)

// look reads the rows and begins what is to be done.
func (n *Node) look(ctx context.Context) {
	n.mu.Lock()
	me, sent := n.cfg.Me, time.Now()
	me.Leaving = n.leaving
	// What was opened after the rows were asked is not in the answer.
	judged := make([]Tenure, len(n.places))
	for i, p := range n.places {
		judged[i] = p.tenure
	}
	n.mu.Unlock()
	view, err := n.cfg.Rows.Beat(ctx, me)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = sent
	close(n.looked)
	n.looked = make(chan struct{})
	if ctx.Err() != nil {
		return
	}
	n.tell(err, sent)
	if err != nil && !n.stale && !n.seen.IsZero() && time.Since(n.seen) >= n.cfg.Lease {
		n.stale = true
		n.signal()
	}
	if err == nil {
		first := n.seen.IsZero()
		n.see(view, sent)
		if first {
			n.work.Go(n.tellAll)
		}
		for i, p := range n.places {
			n.judge(p, judged[i], sent)
		}
	}
	n.act()
}

// tell logs that the rows are away, and that they are back: once each. It is called under mu.
func (n *Node) tell(err error, sent time.Time) {
	switch {
	case err != nil && n.away == nil:
		n.cfg.Log.Warn("database unreachable, retrying", "error", err)
	case err == nil && n.away != nil:
		n.cfg.Log.Info("database reachable again", "outage", sent.Sub(n.seen))
	}
	n.away = err
}

// see keeps a view and tells whoever waits for another one. It is called under mu.
func (n *Node) see(view View, sent time.Time) {
	now := time.Now()
	gap := !n.seen.IsZero() && sent.Sub(n.seen) > n.cfg.Lease/2
	n.tellFormats(view)
	for _, part := range view.Parts {
		n.tellOwner(part)
		if part.Owner != (Member{}) {
			n.had[part.ID] = part.Owner.ID
		}
		if p := n.place(part.ID); p != nil {
			p.claim.sees(part.Owner, now, gap)
		}
	}
	n.went(view)
	same, stays := n.view.same(view) && !n.stale, n.view.stays(view) && !gap
	if !stays || !slices.EqualFunc(n.view.Parts, view.Parts, Part.same) {
		n.calm = now
	}
	if !stays {
		n.level = time.Time{}
	}
	n.view, n.seen, n.heard, n.stale = view, sent, now, false
	if !same {
		n.signal()
	}
}

// signal wakes who waits for another view. It is called under mu.
func (n *Node) signal() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// place is nil for a partition that this node does not take. It is called under mu.
func (n *Node) place(part int32) *place {
	for _, p := range n.places {
		if p.part == part {
			return p
		}
	}
	return nil
}

// tellFormats logs a format that this node does not keep, once each. It is called under mu.
func (n *Node) tellFormats(view View) {
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

// tellOwner logs who else has a partition, once for each that takes it. It is called under mu.
func (n *Node) tellOwner(part Part) {
	switch owner := part.Owner; {
	case owner == (Member{}) || owner.ID == n.view.part(part.ID).Owner.ID || owner.ID == n.cfg.Me.ID:
	case owner.stranger():
		n.cfg.Log.Warn("partition owned by a process outside the cluster, waiting", "partition", part.ID, "address", owner.Address)
	default:
		n.cfg.Log.Info("partition acquired by another node", "partition", part.ID, "owner", owner.Address)
	}
}

// margin is how much sooner than the database a node takes its lease for ended.
const margin = 500 * time.Millisecond

// judge learns of a place from the view that was asked for while it had that tenure. It is called
// under mu.
func (n *Node) judge(p *place, asked Tenure, sent time.Time) {
	part := n.view.part(p.part)
	if part.Owner.ID == n.cfg.Me.ID {
		p.holds(sent.Add(min(part.Lease, n.cfg.Lease) - margin))
	}
	if asked == nil || asked != p.tenure {
		return
	}
	switch {
	case part.Owner != (Member{}) && part.Owner.ID != n.cfg.Me.ID:
		n.giveUp(p, "taken over", "new_owner", part.Owner.Address)
	case part.Owner == (Member{}) && sent.Sub(p.until) > n.cfg.Lease:
		// Another one had it meanwhile, or who knows: a beat does not renew it any more, and no
		// commit will tell, since no call comes in.
		n.giveUp(p, "lease expired")
	}
	if p.phase == open && n.view.outgrown(part) {
		n.cfg.Log.Info("format upgrade started, partition reopened", "partition", p.part, "format", part.Format)
		n.close(p)
	}
}

// atOnce is how many partitions are opened at once: each asks the database for connections, and
// reads what it needs first.
const atOnce = 8

// act begins what is to be done. It is called under mu.
func (n *Node) act() {
	heirs := n.view.heirs(n.cfg.Me.ID, n.had)
	for _, p := range n.places {
		switch {
		case p.phase == opening && n.leaving:
			p.quit()
		case p.phase == open && n.leaving:
			n.close(p)
		case p.phase == open && p.failed:
			n.giveUp(p, "store failed")
		case n.mayTake(p) && n.count(opening) < atOnce:
			if at, free := p.claim.at(heirs[p.part]); free && !time.Now().Before(at) {
				n.open(p)
			}
		}
	}
	n.balance()
}

// mayTake: nothing but its claim keeps this node from a partition. It is called under mu.
func (n *Node) mayTake(p *place) bool {
	return p.phase == none && !n.leaving && n.away == nil && n.cfg.keeps(n.view.part(p.part).Format) == nil
}

// next is when the rows are read without anybody asking.
func (n *Node) next() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away != nil {
		return time.Now()
	}
	at := n.asked.Add(n.cfg.Every)
	sooner := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	heirs := n.view.heirs(n.cfg.Me.ID, n.had)
	for _, part := range n.view.Parts {
		p := n.place(part.ID)
		if p == nil || !n.mayTake(p) || n.count(opening) >= atOnce {
			continue
		}
		if take, free := p.claim.at(heirs[part.ID]); free {
			sooner(take)
		} else {
			sooner(n.heard.Add(part.Lease + afterEnd))
		}
	}
	return at
}
