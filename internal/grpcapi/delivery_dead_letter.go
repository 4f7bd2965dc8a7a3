package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// receiver returns a webhook or another kind of receiver that belongs to the caller.
func (s *deliveryService) receiver(ctx context.Context, namespace string, ref *pawlv1.DeliveryRef) (*machine.Subscription, error) {
	sub, err := s.subscriptions.OwnSubscription(ctx, callOf(ctx, namespace), deliveryKindFromProto(ref.GetKind()), ref.GetRunId(), ref.GetId())
	return sub, asDelivery(err)
}

// asDelivery converts the reason WEBHOOK_NOT_FOUND to the reason that applies to all kinds of
// receivers.
func asDelivery(err error) error {
	if refusal, ok := errors.AsType[*machine.Error](err); ok && refusal.Reason == "WEBHOOK_NOT_FOUND" {
		named := *refusal
		named.Reason, named.Field = "DELIVERY_NOT_FOUND", "delivery_ref"
		return &named
	}
	return err
}

// ListDeadLetters implements pawl.v1.DeliveryService. The position in a page token is the number of the
// last dead letter of the page.
func (s *deliveryService) ListDeadLetters(ctx context.Context, in *pawlv1.ListDeadLettersRequest) (*pawlv1.ListDeadLettersResponse, error) {
	position, err := convert.PagePosition(in)
	if err != nil {
		return nil, err
	}
	// The position in a valid token is a number or empty, so there can be no error.
	after, _ := strconv.ParseUint(position, 10, 64)
	sub, err := s.receiver(ctx, in.GetNamespace(), in.GetDeliveryRef())
	if err != nil {
		return nil, err
	}
	size := int(in.GetPageSize())
	if size == 0 {
		size = validate.DefaultPageSize
	}
	letters, err := s.subscriptions.ListDeadLetters(ctx, sub.SubscriptionKey, after, size+1)
	if err != nil {
		return nil, err
	}
	out, sizer := &pawlv1.ListDeadLettersResponse{}, convert.PageSizer{}
	for i := range letters {
		letter := deadLetterToProto(&letters[i], in.GetIncludeBody())
		if i == size || !sizer.TryAdd(letter) {
			out.NextPageToken = convert.PageToken(in, strconv.FormatUint(letters[i-1].N, 10))
			break
		}
		out.DeadLetters = append(out.DeadLetters, letter)
	}
	return out, nil
}

func deadLetterToProto(letter *machine.DeadLetter, body bool) *pawlv1.DeadLetter {
	out := &pawlv1.DeadLetter{
		N: letter.N, At: convert.TimeToProto(letter.At), EventId: letter.Event, MediaType: letter.Type,
		Error: letter.Error, Size: int64(len(letter.Body)), Withheld: letter.Withheld,
	}
	if body {
		out.Body = letter.Body
	}
	return out
}

// ResendDeadLetter implements pawl.v1.DeliveryService.
func (s *deliveryService) ResendDeadLetter(ctx context.Context, in *pawlv1.ResendDeadLetterRequest) (*pawlv1.ResendDeadLetterResponse, error) {
	sends, err := s.sending()
	if err != nil {
		return nil, err
	}
	sub, err := s.receiver(ctx, in.GetNamespace(), in.GetDeliveryRef())
	if err != nil {
		return nil, err
	}
	if err := sends.Resend(ctx, sub.SubscriptionKey, in.GetN()); err != nil {
		return nil, err
	}
	return &pawlv1.ResendDeadLetterResponse{}, nil
}

// DiscardDeadLetter implements pawl.v1.DeliveryService.
func (s *deliveryService) DiscardDeadLetter(ctx context.Context, in *pawlv1.DiscardDeadLetterRequest) (*pawlv1.DiscardDeadLetterResponse, error) {
	sub, err := s.receiver(ctx, in.GetNamespace(), in.GetDeliveryRef())
	if err != nil {
		return nil, err
	}
	letters, err := s.subscriptions.ListDeadLetters(ctx, sub.SubscriptionKey, in.GetN()-1, 1)
	if err != nil {
		return nil, err
	}
	if len(letters) == 0 || letters[0].N != in.GetN() {
		return nil, &machine.Error{
			Code: machine.CodeNotFound, Reason: "DEAD_LETTER_NOT_FOUND", Field: "n",
			Message: fmt.Sprintf("%s has no dead letter %d", in.GetDeliveryRef().GetId(), in.GetN()),
		}
	}
	if err := s.subscriptions.DiscardDeadLetter(ctx, sub.SubscriptionKey, in.GetN()); err != nil {
		return nil, err
	}
	return &pawlv1.DiscardDeadLetterResponse{}, nil
}
