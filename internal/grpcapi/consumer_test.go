package grpcapi

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

func (r *rig) deliveries() pawlv1.DeliveryServiceClient {
	return pawlv1.NewDeliveryServiceClient(r.conn)
}

// readAll returns what a consumer reads that has acknowledged nothing.
func (r *rig) readAll(ctx context.Context, name string) []*pawlv1.StreamTransitionsResponse {
	r.t.Helper()
	return collect(r.t, r.stream(ctx, &pawlv1.StreamTransitionsRequest{Consumer: name}))
}

// TestConsumerGoesOnWhereItAcknowledged: at every position, a consumer continues after what it acknowledged,
// not after what it read.
func TestConsumerGoesOnWhereItAcknowledged(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.drive(ctx, r.start(ctx).GetTurn(), 5)
	responses := r.readAll(ctx, "billing")
	if len(responses) != 6 {
		t.Fatalf("%d items", len(responses))
	}
	for i, item := range responses {
		ack := &pawlv1.AckConsumerRequest{Consumer: "billing", Cursor: item.GetRecord().GetCursor()}
		for range 2 {
			if _, err := r.deliveries().AckConsumer(ctx, ack); err != nil {
				t.Fatalf("ack %d: %v", i, err)
			}
		}
		rest := r.readAll(ctx, "billing")
		if len(rest) != len(responses)-i-1 || len(rest) > 0 && rest[0].GetRecord().GetCursor() != responses[i+1].GetRecord().GetCursor() {
			t.Fatalf("after the ack of item %d: %d items", i, len(rest))
		}
	}
	again := collect(t, r.stream(ctx, &pawlv1.StreamTransitionsRequest{Consumer: "billing", AfterCursor: responses[1].GetRecord().GetCursor()}))
	if len(again) != 4 {
		t.Fatalf("from a position of its own: %d items", len(again))
	}
	list, err := r.deliveries().ListConsumers(ctx, &pawlv1.ListConsumersRequest{})
	if err != nil || len(list.GetConsumers()) != 1 || list.GetConsumers()[0].GetCursor() != responses[5].GetRecord().GetCursor() {
		t.Fatalf("consumers %v, %v", list, err)
	}
}

// TestConsumerFromNow: a new consumer begins at the position at which it was made, even if it reads much
// later.
func TestConsumerFromNow(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.drive(ctx, r.start(ctx).GetTurn(), 2)
	req := &pawlv1.StreamTransitionsRequest{Consumer: "late", FromNow: true}
	if items := collect(t, r.stream(ctx, req)); len(items) != 1 || items[0].GetHeartbeat().GetCursor() == "" {
		t.Fatalf("items %v", items)
	}
	r.drive(ctx, turn, 3)
	if items := collect(t, r.stream(ctx, req)); len(items) != 3 {
		t.Fatalf("%d items, want the three since it was made", len(items))
	}
}

// TestConsumerHasOneStream: a newer stream of a consumer ends the older one. Deleting the consumer ends its
// stream.
func TestConsumerHasOneStream(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.start(ctx)
	req := &pawlv1.StreamTransitionsRequest{Consumer: "one", Follow: true}
	first := r.stream(ctx, req)
	next(t, first)
	second := r.stream(ctx, req)
	next(t, second)
	_, err := first.Recv()
	wantError(t, err, codes.Aborted, "CONSUMER_REPLACED")
	list, err := r.deliveries().ListConsumers(ctx, &pawlv1.ListConsumersRequest{})
	if err != nil || !list.GetConsumers()[0].GetConnected() {
		t.Fatalf("consumers %v, %v", list, err)
	}
	if _, err := r.deliveries().DeleteConsumer(ctx, &pawlv1.DeleteConsumerRequest{Consumer: "one"}); err != nil {
		t.Fatal(err)
	}
	_, err = second.Recv()
	wantError(t, err, codes.NotFound, "CONSUMER_NOT_FOUND")
	_, err = r.deliveries().DeleteConsumer(ctx, &pawlv1.DeleteConsumerRequest{Consumer: "one"})
	wantError(t, err, codes.NotFound, "CONSUMER_NOT_FOUND")
}

// TestConsumerIsItsOwners: another principal cannot read, acknowledge, delete or list a consumer. If it
// acknowledges or deletes, the answer is the same as for a consumer that does not exist.
func TestConsumerIsItsOwners(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withTokens), testContext(t)
	ownCtx, other, admin := withToken(ctx, "driver"), withToken(ctx, "runs:read"), withToken(ctx, "admin")
	cursor := r.start(ownCtx).GetRecord().GetCursor()
	r.readAll(ownCtx, "billing")
	_, err := r.stream(other, &pawlv1.StreamTransitionsRequest{Consumer: "billing"}).Recv()
	wantError(t, err, codes.AlreadyExists, "CONSUMER_TAKEN")
	_, err = r.deliveries().AckConsumer(other, &pawlv1.AckConsumerRequest{Consumer: "billing", Cursor: cursor})
	wantError(t, err, codes.NotFound, "CONSUMER_NOT_FOUND")
	_, err = r.deliveries().DeleteConsumer(other, &pawlv1.DeleteConsumerRequest{Consumer: "billing"})
	wantError(t, err, codes.NotFound, "CONSUMER_NOT_FOUND")
	for _, c := range []struct {
		ctx  context.Context
		want int
	}{{ownCtx, 1}, {other, 0}, {admin, 1}} {
		list, err := r.deliveries().ListConsumers(c.ctx, &pawlv1.ListConsumersRequest{})
		if err != nil || len(list.GetConsumers()) != c.want {
			t.Errorf("consumers %v, %v; want %d", list, err, c.want)
		}
	}
	if _, err := r.deliveries().DeleteConsumer(admin, &pawlv1.DeleteConsumerRequest{Consumer: "billing"}); err != nil {
		t.Fatal(err)
	}
}

func TestAcksThatAreRefused(t *testing.T) {
	t.Parallel()
	r, other := newRig(t), newRig(t)
	ctx := testContext(t)
	r.drive(ctx, r.start(ctx).GetTurn(), 2)
	foreign := other.start(ctx).GetRecord().GetCursor()
	items := r.readAll(ctx, "c")
	if _, err := r.deliveries().AckConsumer(ctx, &pawlv1.AckConsumerRequest{Consumer: "c", Cursor: items[1].GetRecord().GetCursor()}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		consumer, cursor string
		code             codes.Code
		reason           string
	}{
		{"c", items[0].GetRecord().GetCursor(), codes.OutOfRange, "CURSOR_BEHIND"},
		{"c", foreign, codes.OutOfRange, "CURSOR_FOREIGN"},
		{"c", "abc", codes.InvalidArgument, "BAD_CURSOR"},
		{"d", items[2].GetRecord().GetCursor(), codes.NotFound, "CONSUMER_NOT_FOUND"},
		{"c", "", codes.InvalidArgument, "INVALID_REQUEST"},
	} {
		_, err := r.deliveries().AckConsumer(ctx, &pawlv1.AckConsumerRequest{Consumer: tt.consumer, Cursor: tt.cursor})
		wantError(t, err, tt.code, tt.reason)
	}
	if rest := r.readAll(ctx, "c"); len(rest) != 1 {
		t.Fatalf("a refused ack moved the consumer: %d items left", len(rest))
	}
}
