package a2a

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
)

// pushType is the media type of pushed events (A2A specification §4.3.3).
const pushType = "application/a2a+json"

// PushEvents returns the events of one task for one push configuration. They are the same as in
// streams. They are read with the rights of the task's owner.
type PushEvents struct {
	tail *tail
	sub  *machine.Subscription
	// seq and nth are the position of the last event that was read. A record may cause several events.
	// nth counts them from 1.
	seq uint64
	nth uint16
	// erasable reports whether the run can be erased. If it can, the values of the run are stored only
	// in rows that an erasure removes.
	erasable bool
}

// PushEvents opens the events after the position of a subscription. It reads the whole journal of the
// run, because an event depends on all records before it.
func (s *Service) PushEvents(ctx context.Context, sub *machine.Subscription) (*PushEvents, error) {
	caller := runtime.Call{
		Namespace: s.cfg.Engine.NamespaceName(sub.Namespace), Principal: runtime.Principal{Subject: sub.Owner, Scopes: runtime.ScopeRunsRead},
	}
	state, err := s.cfg.Engine.StateAt(ctx, runtime.RunRef{Call: caller, RunID: sub.Run}, 0)
	if err != nil {
		return nil, err
	}
	if state.Erased != nil {
		return &PushEvents{}, nil
	}
	t, err := s.tail(ctx, caller, state, readJournal)
	if err != nil {
		return nil, err
	}
	return &PushEvents{tail: t, sub: sub, erasable: state.Erasable}, nil
}

// Next waits for the next events. io.EOF means that the task has ended, or that its values were erased before the feed
// was opened.
func (p *PushEvents) Next(ctx context.Context) ([]machine.Delivery, error) {
	if p.tail == nil {
		// The values of the run were erased, so there are no more events to push.
		return nil, io.EOF
	}
	for {
		events, err := p.tail.next(ctx)
		if errors.Is(err, streams.ErrEnded) && p.tail.final == 0 {
			// The engine is closing, but the task has not ended. The next owner of the store sends the
			// remaining events.
			<-ctx.Done()
			return nil, ctx.Err()
		}
		if errors.Is(err, streams.ErrEnded) {
			return nil, io.EOF
		}
		if err != nil {
			return nil, err
		}
		var out []machine.Delivery
		for _, e := range events {
			if e.update == nil || !p.fresh(e.seq) {
				continue
			}
			body, err := protojson.Marshal(e.update)
			if err != nil {
				return nil, err
			}
			out = append(out, machine.Delivery{
				After: p.seq, Index: p.nth, Type: pushType, Body: body, Erasable: p.erasable,
				ID: fmt.Sprintf("%s/%s/%d.%d", p.sub.Run, p.sub.ID, p.seq, p.nth),
			})
		}
		if len(out) > 0 {
			return out, nil
		}
	}
}

// fresh counts an event of the record seq, and reports whether the event comes after the position of the subscription,
// so that it was not pushed yet.
func (p *PushEvents) fresh(seq uint64) bool {
	if seq != p.seq {
		p.seq, p.nth = seq, 0
	}
	p.nth++
	return seq > p.sub.After || seq == p.sub.After && p.nth > p.sub.Index
}

// Close ends the feed.
func (p *PushEvents) Close() {
	if p.tail != nil {
		p.tail.close()
	}
}
