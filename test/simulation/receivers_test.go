//go:build sim

package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/delivery/subscription"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// receivers are the receivers of webhooks. They know which webhooks were removed: these must deliver
// nothing more.
type receivers struct {
	world *world
	mu    sync.Mutex
	dice  *rand.Rand
	hooks map[string]*hook
}

// hook is a webhook as those who made and removed it know it.
type hook struct {
	// puts counts the requested webhooks. underWay counts the requests without an answer.
	puts, underWay int
	// removing counts the removals without an answer. A webhook that is made at the same time may
	// replace the removed one.
	removing int
	// gone means that a removal was answered and no webhook was requested since it began.
	gone bool
	// last is the place of the newest event that came, and when the webhook was made that
	// sent it.
	last    uint64
	created int64
	posts   int
}

func newReceivers(w *world) *receivers {
	return &receivers{world: w, dice: rand.New(rand.NewPCG(w.seed, 11)), hooks: map[string]*hook{}}
}

func (rs *receivers) hook(n *node, id string) *hook {
	key := n.name + "/" + id
	if rs.hooks[key] == nil {
		rs.hooks[key] = &hook{}
	}
	return rs.hooks[key]
}

var errReceiver = errors.New("503 Service Unavailable")

// Post implements [deliver.Poster].
func (rs *receivers) Post(ctx context.Context, sub *machine.Subscription, event machine.Delivery) error {
	rs.mu.Lock()
	h := rs.hooks[sub.URL[len("https://"):]]
	late, fails := time.Duration(rs.dice.IntN(300))*time.Millisecond, rs.dice.IntN(8) == 0
	if h == nil {
		rs.mu.Unlock()
		rs.world.fail("webhooks are somebody's", "%s", sub.URL)
		return errReceiver
	}
	h.posts++
	if h.gone {
		rs.world.fail("what was deleted stays deleted", "webhook %s was removed, and event %s is posted to it", sub.ID, event.ID)
	}
	if sub.CreatedAt == h.created && event.After+1 < h.last && h.removing == 0 && !rs.world.crashed() {
		rs.world.fail("webhooks are told in order", "webhook %s: event at %d after %d", sub.ID, event.After, h.last)
	}
	h.created, h.last = sub.CreatedAt, max(event.After, boolTo(sub.CreatedAt == h.created, h.last))
	rs.mu.Unlock()
	if err := pause(ctx, late); err != nil {
		return err
	}
	if fails && !rs.world.healing {
		return errReceiver
	}
	return nil
}

func boolTo(on bool, n uint64) uint64 {
	if on {
		return n
	}
	return 0
}

// crashed reports whether a process has died. Deliveries may then be repeated.
func (w *world) crashed() bool { return w.nodes[0].lives+w.nodes[1].lives > 2 }

// subscribe makes and removes webhooks and consumers.
func (pp *people) subscribe(k kind, n *node, dice *rand.Rand) {
	id := fmt.Sprintf("hook%d", dice.IntN(2))
	switch k {
	case "put webhook":
		pp.putWebhook(n, id)
	case "delete webhook":
		pp.deleteWebhook(n, id)
	case "ack":
		pp.acknowledge(pp.world.readers[len(pp.world.nodes)])
	case "list":
		pp.call(n, "list", func(ctx context.Context, p *process) error {
			_, err := p.house.Subscriptions.OwnSubscriptions(ctx, owner, machine.SubscriptionWebhook)
			return err
		})
	}
}

var owner = runtime.Call{Principal: runtime.Principal{Subject: "owner", Scopes: policy.RunsRead}}

func (pp *people) putWebhook(n *node, id string) {
	rs := pp.world.receivers
	h := rs.hook(n, id)
	pp.call(n, "put "+id, func(ctx context.Context, p *process) error {
		rs.mu.Lock()
		h.puts++
		h.underWay++
		h.gone = false
		rs.mu.Unlock()
		seen := pp.history.begins(callSeen{object: n.name + "/" + id, verb: "put"})
		sub, created, err := p.house.Subscriptions.PutWebhook(ctx, subscription.WebhookRequest{
			Call: owner, ID: id, URL: "https://" + n.name + "/" + id, FromBeginning: true,
			Secret: "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz",
		})
		if p.ctx.Err() == nil {
			seen.created = created
			pp.history.ends(seen, err)
		}
		if err == nil {
			p.box.Serve(sub.SubscriptionKey)
		}
		rs.mu.Lock()
		defer rs.mu.Unlock()
		// The store decides whether a webhook exists whose request has an unknown outcome.
		if err == nil || p.ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
			h.underWay--
		}
		return err
	})
}

func (pp *people) deleteWebhook(n *node, id string) {
	rs := pp.world.receivers
	h := rs.hook(n, id)
	pp.call(n, "delete "+id, func(ctx context.Context, p *process) error {
		rs.mu.Lock()
		puts, sure := h.puts, h.underWay == 0
		h.removing++
		rs.mu.Unlock()
		defer rs.removed(h)
		seen := pp.history.begins(callSeen{object: n.name + "/" + id, verb: "delete"})
		key, err := p.house.Subscriptions.DeleteWebhook(ctx, owner, id)
		if p.ctx.Err() == nil {
			pp.history.ends(seen, err)
		}
		if err != nil {
			return err
		}
		p.box.Stop(key)
		rs.mu.Lock()
		defer rs.mu.Unlock()
		if p.ctx.Err() == nil && sure && h.puts == puts {
			h.gone = true
		}
		return nil
	})
}

// removed ends a removal. A later delivery belongs to another webhook.
func (rs *receivers) removed(h *hook) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	h.removing--
	h.created = 0
}

// final checks that removed webhooks do not exist and that all other webhooks do.
func (rs *receivers) final() {
	for _, n := range rs.world.nodes {
		p := n.process()
		if p == nil {
			continue
		}
		for i := range 2 {
			id := fmt.Sprintf("hook%d", i)
			h := rs.hooks[n.name+"/"+id]
			sub, err := p.house.Subscriptions.Subscription(context.Background(), machine.SubscriptionKey{Kind: machine.SubscriptionWebhook, ID: id})
			switch {
			case err != nil:
				rs.world.fail("no internal errors", "webhook %s of %s: %v", id, n.name, err)
			case sub != nil && (h == nil || h.gone):
				rs.world.fail("what was deleted stays deleted", "webhook %s of %s is there", id, n.name)
			}
		}
	}
}

// acknowledge acknowledges records for a consumer.
func (pp *people) acknowledge(r *reader) {
	cursor, at := r.place(), r.cursor
	if cursor == "" {
		return
	}
	pp.call(r.node, "ack", func(ctx context.Context, p *process) error {
		err := p.house.Subscriptions.AckConsumer(ctx, subscription.ConsumerRef{Call: operator, Name: r.name}, cursor)
		if err == nil && p.ctx.Err() == nil && before(r.acked, at) {
			r.acked = at
		}
		return err
	})
}

func (n *node) index() int {
	if n.machine() == n.world.nodes[0] {
		return 0
	}
	return 1
}
