package membership

import (
	"context"
	"time"
)

// take opens a partition.
func (n *Node) take(ctx context.Context, p *place) {
	began := time.Now()
	opened, err := n.cfg.Open(ctx, p.part)
	n.mu.Lock()
	p.quit()
	if err != nil {
		p.claim.fails(time.Now())
		n.step(p, none)
		if !n.leaving {
			n.cfg.Log.Warn("opening partition failed, retrying", "partition", p.part, "error", err, "retry_at", p.claim.failed)
		}
		n.mu.Unlock()
		n.tellAll()
		return
	}
	p.claim.opened()
	p.tenure, p.failed = opened, false
	n.step(p, open)
	// Its lease is one from after the beginning, and was renewed since, if that took long.
	p.until = later(p.until, began.Add(n.cfg.Lease-margin))
	p.seat.Extend(p.until)
	p.seat.Put(opened)
	n.work.Go(func() { n.attend(p, opened) })
	n.cfg.Log.Info("partition acquired", "partition", p.part, "took", time.Since(began))
	n.returned(p)
	n.act()
	n.mu.Unlock()
	n.tellAll()
}

// attend notices a partition that has failed.
func (n *Node) attend(p *place, opened Tenure) {
	select {
	case <-opened.Failed():
	case <-opened.Closed():
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.tenure == opened {
		p.failed = true
		n.act()
	}
}

// hand closes a partition for the next owner.
func (n *Node) hand(p *place) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Handing)
	defer cancel()
	if _, err := p.seat.Take(ctx); err != nil {
		n.cfg.Log.Warn("partition released with calls in flight", "partition", p.part, "error", err)
	}
	empty := time.Since(began)
	n.mu.Lock()
	opened := p.tenure
	n.mu.Unlock()
	if err := opened.Close(ctx); err != nil {
		n.cfg.Log.Warn("closing partition failed", "partition", p.part, "error", err)
	}
	<-opened.Closed()
	n.mu.Lock()
	p.tenure, p.failed, p.until = nil, false, time.Time{}
	n.step(p, none)
	n.mu.Unlock()
	n.cfg.Log.Info("partition released", "partition", p.part, "took", time.Since(began), "drained_in", empty)
	n.tellAll()
}
