package node

import (
	"context"
	"time"
)

// look reads the rows and begins what is to be done.
func (n *Node) look(ctx context.Context) {
	n.mu.Lock()
	me, sent := n.cfg.Me, time.Now()
	me.Leaving = n.leaving
	// What was opened after the rows were asked is not in the answer.
	judged := n.tenure
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
	if err == nil {
		if n.seen.IsZero() {
			n.work.Go(n.tellAll)
		}
		n.see(view, sent)
		n.keep(sent)
		if owner := view.Owner; judged != nil && judged == n.tenure && owner != (Member{}) && owner.ID != me.ID {
			n.giveUp("it was taken over", "by", owner.Address)
		}
		if judged != nil && judged == n.tenure && n.phase == open && view.outgrown() {
			n.cfg.Log.Info("all nodes speak a newer format: the store is given back, and taken again in it", "part.format", view.Format)
			n.close()
		}
	}
	n.act()
}

// tell logs that the rows are away, and that they are back: once each. It is called under mu.
func (n *Node) tell(err error, sent time.Time) {
	switch {
	case err != nil && n.away == nil:
		n.cfg.Log.Warn("the rows of the cluster cannot be read, it is tried on", "error", err)
	case err == nil && n.away != nil:
		n.cfg.Log.Info("the rows of the cluster are read again", "after", sent.Sub(n.seen))
	}
	n.away = err
}

// see keeps a view and tells whoever waits for another one. It is called under mu.
func (n *Node) see(view View, sent time.Time) {
	gap := !n.seen.IsZero() && sent.Sub(n.seen) > n.cfg.Lease/2
	n.claim.sees(view, time.Now(), gap)
	n.tellOwner(view.Owner)
	if err := n.cfg.keeps(view.Format); err != nil && view.Format != n.view.Format {
		n.cfg.Log.Warn("this node only stands by", "error", err)
	}
	same := n.view.same(view)
	n.view, n.seen, n.heard = view, sent, time.Now()
	if !same {
		close(n.changed)
		n.changed = make(chan struct{})
	}
}

// tellOwner logs who else has the store, once for each that takes it. It is called under mu.
func (n *Node) tellOwner(owner Member) {
	switch {
	case owner == (Member{}) || owner.ID == n.view.Owner.ID || owner.ID == n.cfg.Me.ID:
	case owner.stranger():
		n.cfg.Log.Warn("the store is held by a process that is no node of the cluster; it is waited for", "address", owner.Address)
	default:
		n.cfg.Log.Info("another node has the store, this one stands by", "owner", owner.Address)
	}
}

// margin is how much sooner than the database a node takes its lease for ended.
const margin = 500 * time.Millisecond

// keep learns how long the lease holds for certain. It is called under mu.
func (n *Node) keep(sent time.Time) {
	if n.view.Owner.ID == n.cfg.Me.ID {
		n.holds(sent.Add(min(n.view.Lease, n.cfg.Lease) - margin))
	}
}

func (n *Node) holds(until time.Time) {
	if !until.After(n.until) {
		return
	}
	n.until = until
	if n.phase == open {
		n.cfg.Seat.Extend(until)
	}
}

// act begins what is to be done. It is called under mu.
func (n *Node) act() {
	switch {
	case n.phase == opening && n.leaving:
		n.quit()
	case n.phase == open && n.leaving:
		n.close()
	case n.phase == open && n.failed:
		n.giveUp("it has failed")
	case n.phase == none && !n.leaving && n.away == nil && n.cfg.keeps(n.view.Format) == nil:
		if at, free := n.claim.at(n.view); free && !time.Now().Before(at) {
			n.step(opening)
			ctx, quit := context.WithCancel(context.Background())
			n.quit = quit
			n.work.Go(func() { n.take(ctx) })
		}
	}
}

// giveUp closes what this node has no more. It is called under mu.
func (n *Node) giveUp(why string, args ...any) {
	if n.phase != open {
		return
	}
	n.cfg.Log.Warn("the store is given up: "+why, args...)
	n.claim.fails(time.Now())
	n.close()
}

// close begins to hand the store over. It is called under mu.
func (n *Node) close() {
	n.step(closing)
	n.work.Go(n.hand)
}

// step is called under mu.
func (n *Node) step(to phase) {
	n.phase = to
	close(n.stepped)
	n.stepped = make(chan struct{})
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
	if n.phase != none || n.leaving || n.cfg.keeps(n.view.Format) != nil {
		return at
	}
	if take, free := n.claim.at(n.view); free {
		sooner(take)
	} else {
		sooner(n.heard.Add(n.view.Lease + afterEnd))
	}
	return at
}
