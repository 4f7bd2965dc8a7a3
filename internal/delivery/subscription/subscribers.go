package subscription

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// SubscriptionCursor returns the position of a consumer or a webhook in the form of a cursor.
func (r *Service) SubscriptionCursor(sub *machine.Subscription) runtime.Cursor {
	return runtime.Cursor{Epoch: r.cfg.Journal.Epoch(), Position: sub.After, Index: sub.Index}
}

// OwnSubscription returns a subscription of the caller. A caller with the scope admin may read all
// subscriptions. A *machine.Error NOT_FOUND means that the subscription does not exist or belongs to
// another owner.
func (r *Service) OwnSubscription(ctx context.Context, call runtime.Call, kind machine.SubscriptionKind, run, id string) (*machine.Subscription, error) {
	ns, err := r.readableNamespace(call)
	if err != nil {
		return nil, err
	}
	sub, err := r.Subscription(ctx, machine.SubscriptionKey{Namespace: ns, Kind: kind, Run: run, ID: id})
	if err != nil {
		return nil, err
	}
	if sub == nil || !isOwner(call, sub) {
		return nil, notFoundError(kind, id)
	}
	return sub, nil
}

// Lags returns, for consumers and for webhooks of all namespaces, how many commits of its namespace the slowest one has
// not acknowledged or was not sent. A kind without a subscription has the lag 0.
func (r *Service) Lags(ctx context.Context) (map[machine.SubscriptionKind]uint64, error) {
	lags := map[machine.SubscriptionKind]uint64{machine.SubscriptionConsumer: 0, machine.SubscriptionWebhook: 0}
	for _, ns := range r.cfg.Engine.NamespaceNumbers() {
		tail, err := r.cfg.Journal.Tail(ctx, ns)
		if err != nil {
			return nil, err
		}
		for kind, most := range lags {
			subs, err := r.cfg.Store.Subscriptions(ctx, ns, kind, "")
			if err != nil {
				return nil, err
			}
			for i := range subs {
				if s := &subs[i]; !s.Done && s.After < tail {
					most = max(most, tail-s.After)
				}
			}
			lags[kind] = most
		}
	}
	return lags, nil
}

// removeOwn removes a subscription that belongs to no run and that the caller owns, and returns its key. A caller with
// the scope admin may remove those of other owners. Errors: see [Service.OwnSubscription].
func (r *Service) removeOwn(ctx context.Context, call runtime.Call, kind machine.SubscriptionKind, id string) (machine.SubscriptionKey, error) {
	ns, err := r.readableNamespace(call)
	if err != nil {
		return machine.SubscriptionKey{}, err
	}
	key := machine.SubscriptionKey{Namespace: ns, Kind: kind, ID: id}
	return key, r.remove(ctx, key, func(sub *machine.Subscription) error {
		if sub == nil || !isOwner(call, sub) {
			return notFoundError(kind, id)
		}
		return nil
	})
}

// OwnSubscriptions lists the caller's subscriptions of a kind, ordered by run and id. A caller with the
// scope admin gets all subscriptions.
func (r *Service) OwnSubscriptions(ctx context.Context, call runtime.Call, kind machine.SubscriptionKind) ([]machine.Subscription, error) {
	ns, err := r.readableNamespace(call)
	if err != nil {
		return nil, err
	}
	all, err := r.cfg.Store.Subscriptions(ctx, ns, kind, "")
	if err != nil {
		return nil, inSubscription(machine.SubscriptionKey{}, err)
	}
	own := all[:0]
	for i := range all {
		if isOwner(call, &all[i]) {
			own = append(own, all[i])
		}
	}
	return own, nil
}

func isOwner(call runtime.Call, sub *machine.Subscription) bool {
	return call.Principal.Owns(sub.Owner) || policy.Require(call.Principal, policy.Admin) == nil
}

// notFoundError returns the error for a subscription that does not exist or that the caller may not see.
func notFoundError(kind machine.SubscriptionKind, id string) error {
	r := machine.Error{Code: machine.CodeNotFound, Reason: "DELIVERY_NOT_FOUND", Field: "delivery_ref", Message: fmt.Sprintf("there is no receiver %q", id)}
	switch kind {
	case machine.SubscriptionConsumer:
		r.Reason, r.Field, r.Message = "CONSUMER_NOT_FOUND", "consumer", fmt.Sprintf("there is no consumer %q", id)
	case machine.SubscriptionWebhook:
		r.Reason, r.Field, r.Message = "WEBHOOK_NOT_FOUND", "webhook_id", fmt.Sprintf("there is no webhook %q", id)
	case machine.SubscriptionPush: // the error above
	}
	return &r
}

func nameTakenError(reason, field, name string) error {
	return &machine.Error{
		Code: machine.CodeAlreadyExists, Reason: reason, Field: field, Message: fmt.Sprintf("%q belongs to another principal", name),
	}
}

func tooMany(reason, field string, limit, got int) error {
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: reason, Field: field,
		Message: "the namespace has as many as it may", Limit: int64(limit), Got: int64(got),
	}
}

// inField sets the name of the request field in a [machine.Error], without the errors that wrap it. It returns other
// errors unchanged.
func inField(field string, err error) error {
	if refusal, ok := errors.AsType[*machine.Error](err); ok {
		named := *refusal
		named.Field = field
		return &named
	}
	return err
}
