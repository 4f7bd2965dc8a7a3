package grpcapi

import (
	"context"
	"fmt"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/delivery/subscription"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// Deliveries sends records to the stored receivers.
type Deliveries interface {
	// Serve is called for a new or changed receiver. Stop is called for a removed receiver.
	Serve(key machine.SubscriptionKey)
	Stop(key machine.SubscriptionKey)
	// Resend sends a dead letter (a message that could not be delivered) again. If it is delivered now, Resend removes
	// it. Errors: a *machine.Error DEAD_LETTER_NOT_FOUND, DEAD_LETTER_WITHHELD or DELIVERY_FAILED, or the reason why the
	// owner may not read.
	Resend(ctx context.Context, key machine.SubscriptionKey, n uint64) error
}

// deliveryService implements pawl.v1.DeliveryService. The methods for webhooks are in
// delivery_webhook.go, and those for dead letters in delivery_dead_letter.go.
type deliveryService struct {
	pawlv1.UnimplementedDeliveryServiceServer
	server        *Server
	subscriptions *subscription.Service
	// sends is the object that sends messages to receivers. It is nil if the server sends none.
	sends Deliveries
}

// sending returns the object that sends messages to receivers, or an error if the server sends none.
func (s *deliveryService) sending() (Deliveries, error) {
	if s.sends == nil {
		return nil, &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "DELIVERIES_OFF", Message: "this server sends nothing to receivers",
		}
	}
	return s.sends, nil
}

// ListConsumers implements pawl.v1.DeliveryService.
func (s *deliveryService) ListConsumers(ctx context.Context, in *pawlv1.ListConsumersRequest) (*pawlv1.ListConsumersResponse, error) {
	all, err := s.subscriptions.ListConsumers(ctx, callOf(ctx, in.GetNamespace()))
	if err != nil {
		return nil, err
	}
	out := &pawlv1.ListConsumersResponse{Consumers: make([]*pawlv1.Consumer, len(all))}
	for i, c := range all {
		out.Consumers[i] = &pawlv1.Consumer{
			Consumer: c.Name, Owner: c.Owner, Cursor: c.At.String(), CreatedAt: convert.TimeToProto(c.CreatedAt), Connected: c.Connected,
		}
	}
	return out, nil
}

// AckConsumer implements pawl.v1.DeliveryService.
func (s *deliveryService) AckConsumer(ctx context.Context, in *pawlv1.AckConsumerRequest) (*pawlv1.AckConsumerResponse, error) {
	ref := subscription.ConsumerRef{Call: callOf(ctx, in.GetNamespace()), Name: in.GetConsumer()}
	if err := s.subscriptions.AckConsumer(ctx, ref, in.GetCursor()); err != nil {
		return nil, err
	}
	return &pawlv1.AckConsumerResponse{}, nil
}

// DeleteConsumer implements pawl.v1.DeliveryService.
func (s *deliveryService) DeleteConsumer(ctx context.Context, in *pawlv1.DeleteConsumerRequest) (*pawlv1.DeleteConsumerResponse, error) {
	ref := subscription.ConsumerRef{Call: callOf(ctx, in.GetNamespace()), Name: in.GetConsumer()}
	if err := s.subscriptions.DeleteConsumer(ctx, ref); err != nil {
		return nil, err
	}
	return &pawlv1.DeleteConsumerResponse{}, nil
}

// deliveryKinds are the kinds of subscriptions that have deliveries, in the order in which they are
// listed.
var deliveryKinds = []machine.SubscriptionKind{machine.SubscriptionWebhook, machine.SubscriptionPush}

var deliveryKindsToProto = map[machine.SubscriptionKind]pawlv1.DeliveryKind{
	machine.SubscriptionWebhook: pawlv1.DeliveryKind_DELIVERY_KIND_WEBHOOK,
	machine.SubscriptionPush:    pawlv1.DeliveryKind_DELIVERY_KIND_PUSH,
}

func deliveryKindFromProto(kind pawlv1.DeliveryKind) machine.SubscriptionKind {
	for ours, theirs := range deliveryKindsToProto {
		if theirs == kind {
			return ours
		}
	}
	return 0
}

// ListDeliveries implements pawl.v1.DeliveryService. The position in a page token is the sort key of
// the last receiver of the page.
func (s *deliveryService) ListDeliveries(ctx context.Context, in *pawlv1.ListDeliveriesRequest) (*pawlv1.ListDeliveriesResponse, error) {
	position, err := convert.PagePosition(in)
	if err != nil {
		return nil, err
	}
	size := int(in.GetPageSize())
	if size == 0 {
		size = validate.DefaultPageSize
	}
	out, behind := &pawlv1.ListDeliveriesResponse{}, position == ""
	for _, kind := range deliveryKinds {
		if in.GetKind() != 0 && deliveryKindsToProto[kind] != in.GetKind() {
			continue
		}
		subs, err := s.subscriptions.OwnSubscriptions(ctx, callOf(ctx, in.GetNamespace()), kind)
		if err != nil {
			return nil, err
		}
		for i := range subs {
			sub := &subs[i]
			if !behind && deliveryPlace(sub) <= position || in.GetTroubled() && sub.Attempts == 0 && sub.Dead == 0 {
				continue
			}
			if n := len(out.GetDeliveries()); n == size {
				out.NextPageToken = convert.PageToken(in, refPlace(out.GetDeliveries()[n-1].GetDeliveryRef()))
				return out, nil
			}
			out.Deliveries = append(out.Deliveries, deliveryToProto(sub))
		}
	}
	return out, nil
}

// deliveryPlace returns the sort key of a receiver in lists.
func deliveryPlace(sub *machine.Subscription) string { return refPlace(refToProto(sub)) }

func refPlace(ref *pawlv1.DeliveryRef) string {
	rank := 0
	for i, kind := range deliveryKinds {
		if deliveryKindsToProto[kind] == ref.GetKind() {
			rank = i
		}
	}
	return fmt.Sprintf("%d\x00%s\x00%s", rank, ref.GetRunId(), ref.GetId())
}

func refToProto(sub *machine.Subscription) *pawlv1.DeliveryRef {
	return &pawlv1.DeliveryRef{Kind: deliveryKindsToProto[sub.Kind], RunId: sub.Run, Id: sub.ID}
}

func deliveryToProto(sub *machine.Subscription) *pawlv1.Delivery {
	return &pawlv1.Delivery{
		DeliveryRef: refToProto(sub), Owner: sub.Owner, Url: sub.URL, Attempts: int32(sub.Attempts), NextAt: convert.TimeToProto(sub.NextAt),
		LastError: sub.LastError, DeadLetters: sub.Dead, Done: sub.Done,
	}
}
