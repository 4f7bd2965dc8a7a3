package grpcapi

import (
	"context"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/delivery/subscription"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// PutWebhook implements pawl.v1.DeliveryService.
func (s *deliveryService) PutWebhook(ctx context.Context, in *pawlv1.PutWebhookRequest) (*pawlv1.PutWebhookResponse, error) {
	sends, err := s.sending()
	if err != nil {
		return nil, err
	}
	call := callOf(ctx, in.GetNamespace())
	if _, err := s.server.linksFor(call, in.GetLinkFor()); err != nil {
		return nil, err
	}
	sub, created, err := s.subscriptions.PutWebhook(ctx, subscription.WebhookRequest{
		Call: call, ID: in.GetWebhookId(), URL: in.GetUrl(), Secret: in.GetSecret(),
		Filter: convert.FilterFromProto(in.GetFilter()), Kinds: convert.KindsFromProto(in.GetKinds()), FromBeginning: in.GetFromBeginning(),
		LinkFor: in.GetLinkFor(), Format: machine.MessageFormat(in.GetFormat()),
	})
	if err != nil {
		return nil, err
	}
	sends.Serve(sub.SubscriptionKey)
	return &pawlv1.PutWebhookResponse{Webhook: s.webhook(&sub), Created: created}, nil
}

// GetWebhook implements pawl.v1.DeliveryService.
func (s *deliveryService) GetWebhook(ctx context.Context, in *pawlv1.GetWebhookRequest) (*pawlv1.GetWebhookResponse, error) {
	sub, err := s.subscriptions.OwnSubscription(ctx, callOf(ctx, in.GetNamespace()), machine.SubscriptionWebhook, "", in.GetWebhookId())
	if err != nil {
		return nil, err
	}
	return &pawlv1.GetWebhookResponse{Webhook: s.webhook(sub)}, nil
}

// ListWebhooks implements pawl.v1.DeliveryService.
func (s *deliveryService) ListWebhooks(ctx context.Context, in *pawlv1.ListWebhooksRequest) (*pawlv1.ListWebhooksResponse, error) {
	subs, err := s.subscriptions.OwnSubscriptions(ctx, callOf(ctx, in.GetNamespace()), machine.SubscriptionWebhook)
	if err != nil {
		return nil, err
	}
	out := &pawlv1.ListWebhooksResponse{Webhooks: make([]*pawlv1.Webhook, len(subs))}
	for i := range subs {
		out.Webhooks[i] = s.webhook(&subs[i])
	}
	return out, nil
}

// DeleteWebhook implements pawl.v1.DeliveryService.
func (s *deliveryService) DeleteWebhook(ctx context.Context, in *pawlv1.DeleteWebhookRequest) (*pawlv1.DeleteWebhookResponse, error) {
	key, err := s.subscriptions.DeleteWebhook(ctx, callOf(ctx, in.GetNamespace()), in.GetWebhookId())
	if err != nil {
		return nil, err
	}
	if s.sends != nil {
		s.sends.Stop(key)
	}
	return &pawlv1.DeleteWebhookResponse{}, nil
}

// webhook converts a webhook without its secret.
func (s *deliveryService) webhook(sub *machine.Subscription) *pawlv1.Webhook {
	return &pawlv1.Webhook{
		WebhookId: sub.ID, Owner: sub.Owner, Url: sub.URL, Filter: filterToProto(&sub.Filter), Kinds: kindsToProto(sub.Kinds),
		Cursor: s.subscriptions.SubscriptionCursor(sub).String(), Attempts: int32(sub.Attempts), NextAt: convert.TimeToProto(sub.NextAt),
		LastError: sub.LastError, DeadLetters: sub.Dead, CreatedAt: convert.TimeToProto(sub.CreatedAt),
		LinkFor: sub.LinkFor, Format: pawlv1.WebhookFormat(sub.Format),
	}
}

// filterToProto converts the pack, state, parent, statuses and labels of a filter. It returns nil if the filter has none
// of them.
func filterToProto(f *machine.RunFilter) *pawlv1.RunFilter {
	if f.Pack == "" && f.State == "" && f.Parent == "" && len(f.Status) == 0 && len(f.Labels) == 0 {
		return nil
	}
	out := &pawlv1.RunFilter{Pack: f.Pack, State: f.State, ParentRunId: f.Parent, Labels: map[string]string{}}
	for _, status := range f.Status {
		out.Statuses = append(out.Statuses, pawlv1.RunStatus(status))
	}
	for _, label := range f.Labels {
		out.Labels[label.Key] = label.Value
	}
	return out
}

func kindsToProto(in []machine.RecordKind) []pawlv1.RecordKind {
	out := make([]pawlv1.RecordKind, len(in))
	for i, kind := range in {
		out[i] = pawlv1.RecordKind(kind)
	}
	return out
}
