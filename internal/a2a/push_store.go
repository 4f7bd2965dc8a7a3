package a2a

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// maxConfigs limits the push configurations of one task.
const maxConfigs = 16

// wholeRecord is the number of an event within its record. It is larger than every number in use, and means the
// position after all events of the record.
const wholeRecord = 1<<16 - 1

// Subscriptions is the part of the subscription service that [Pushes] uses.
type Subscriptions interface {
	Subscribe(ctx context.Context, sub machine.Subscription, most int, limit func(have int) error) error
	Subscriptions(ctx context.Context, kind machine.SubscriptionKind, run string) ([]machine.Subscription, error)
	Unsubscribe(ctx context.Context, key machine.SubscriptionKey) error
}

// Pushes stores push configurations as subscriptions. It implements [PushConfigs].
type Pushes struct {
	Engine Subscriptions
	// Serve is called for a new or changed configuration. Stop is called for a removed configuration.
	Serve func(machine.SubscriptionKey)
	Stop  func(machine.SubscriptionKey)
}

// Create implements [PushConfigs].
func (p *Pushes) Create(ctx context.Context, state *machine.State, config PushConfig) (PushConfig, error) {
	u, err := url.Parse(config.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return config, failAt(invalidParams, "url", "%q is no http(s) URL", clip(config.URL, 200))
	}
	if strings.ContainsFunc(config.Token+config.Scheme+config.Credentials, unicode.IsControl) {
		return config, failAt(invalidParams, "token", "neither token nor authentication may hold line breaks or other control characters")
	}
	if config.ID == "" {
		config.ID = "push-" + strings.ToLower(rand.Text())
	}
	sub := machine.Subscription{
		SubscriptionKey: p.key(state, config.ID), Owner: state.Task.Owner, CreatedAt: time.Now().UnixNano(),
		URL: config.URL, Token: config.Token, Scheme: config.Scheme, Credentials: config.Credentials, After: state.Seq, Index: wholeRecord,
	}
	if state.Status.Terminal() {
		// The task has already ended. Its last record is still pushed, so that the receiver learns the
		// end.
		sub.After = state.Seq - 1
	}
	full := func(have int) error {
		return &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: "MAX_PUSH_CONFIGS", Field: "id",
			Message: "the task has as many push configurations as it may", Limit: maxConfigs, Got: int64(have) + 1,
		}
	}
	if err := p.Engine.Subscribe(ctx, sub, maxConfigs, full); err != nil {
		return config, err
	}
	p.Serve(sub.SubscriptionKey)
	return config, nil
}

func (p *Pushes) key(task *machine.State, id string) machine.SubscriptionKey {
	return machine.SubscriptionKey{Namespace: task.Namespace, Kind: machine.SubscriptionPush, Run: task.RunID, ID: id}
}

// Configs implements [PushConfigs].
func (p *Pushes) Configs(ctx context.Context, task *machine.State) ([]PushConfig, error) {
	subs, err := p.Engine.Subscriptions(ctx, machine.SubscriptionPush, task.RunID)
	if err != nil {
		return nil, err
	}
	out := make([]PushConfig, 0, len(subs))
	for i := range subs {
		// An imported run may have the id of a run in another namespace, so configurations of other
		// namespaces are left out.
		if s := &subs[i]; s.Namespace == task.Namespace {
			out = append(out, PushConfig{ID: s.ID, URL: s.URL, Token: s.Token, Scheme: s.Scheme, Credentials: s.Credentials})
		}
	}
	return out, nil
}

// Delete implements [PushConfigs].
func (p *Pushes) Delete(ctx context.Context, task *machine.State, id string) error {
	key := p.key(task, id)
	if err := p.Engine.Unsubscribe(ctx, key); err != nil {
		return err
	}
	p.Stop(key)
	return nil
}
