package node

import (
	"context"
	"sync"
	"time"
)

// take opens the store.
func (n *Node) take(ctx context.Context) {
	began := time.Now()
	opened, err := n.cfg.Open(ctx)
	n.mu.Lock()
	n.quit()
	if err != nil {
		n.claim.fails(time.Now())
		n.step(none)
		if !n.leaving {
			n.cfg.Log.Warn("the store was not opened", "error", err, "again", n.claim.failed)
		}
		n.mu.Unlock()
		n.tellAll()
		return
	}
	n.claim.opened()
	n.tenure, n.failed = opened, false
	n.step(open)
	// Its lease is one from after the beginning, and was renewed since, if that took long.
	n.until = later(n.until, began.Add(n.cfg.Lease-margin))
	n.cfg.Seat.Extend(n.until)
	n.cfg.Seat.Put(opened)
	n.work.Go(func() { n.attend(opened) })
	n.cfg.Log.Info("this node has the store", "opened_in", time.Since(began))
	n.act()
	n.mu.Unlock()
	n.tellAll()
}

// attend notices a store that has failed.
func (n *Node) attend(opened Tenure) {
	select {
	case <-opened.Failed():
	case <-opened.Closed():
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tenure == opened {
		n.failed = true
		n.act()
	}
}

// hand closes the store for the next owner.
func (n *Node) hand() {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Handing)
	defer cancel()
	if _, err := n.cfg.Seat.Take(ctx); err != nil {
		n.cfg.Log.Warn("the store is handed over while calls are inside", "error", err)
	}
	empty := time.Since(began)
	n.mu.Lock()
	opened := n.tenure
	n.mu.Unlock()
	if err := opened.Close(ctx); err != nil {
		n.cfg.Log.Warn("the store was closed with an error", "error", err)
	}
	<-opened.Closed()
	n.mu.Lock()
	n.tenure, n.failed, n.until = nil, false, time.Time{}
	n.step(none)
	n.mu.Unlock()
	n.cfg.Log.Info("this node has the store no more", "handed_over_in", time.Since(began), "calls_were_out_in", empty)
	n.tellAll()
}

// tellAll has all nodes look, this one too.
func (n *Node) tellAll() {
	n.Refresh()
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Every)
	defer cancel()
	var told sync.WaitGroup
	for _, m := range n.View().Nodes {
		if m.ID != n.cfg.Me.ID {
			// One that is not told sees it by itself within a second.
			told.Go(func() { _ = n.cfg.Nudge(ctx, m.peer()) })
		}
	}
	told.Wait()
}
