package grpcapi

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestRequestsTogether: requests that share a message, with the registration among them, are taken in order.
// Each has its own receipt.
func TestRequestsTogether(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	reg := registration("many")
	reg.Batches = true
	h := r.open(ctx, &pawlv1.WorkRequest{
		Credits: &pawlv1.WorkCredits{Turns: 1}, Item: &pawlv1.WorkRequest_Register{Register: reg},
		More: []*pawlv1.WorkRequest{{Credits: &pawlv1.WorkCredits{Turns: 3}}},
	})
	for range 4 {
		r.startWorkers(ctx)
	}
	var message *pawlv1.WorkRequest
	for range 4 {
		h.ids++
		one := completion(h.turn(), "Again")
		if one.Id = h.ids; message == nil {
			message = one
		} else {
			message.More = append(message.More, one)
		}
	}
	nested := &pawlv1.WorkRequest{Id: 9, Credits: &pawlv1.WorkCredits{}, More: []*pawlv1.WorkRequest{{Id: 10}}}
	broken := &pawlv1.WorkRequest{Id: 11, Item: &pawlv1.WorkRequest_Release{Release: &pawlv1.WorkRelease{}}}
	message.More = append(message.More, nested, broken)
	if err := h.stream.Send(message); err != nil {
		t.Fatal(err)
	}
	receipts := map[uint64]*pawlv1.WorkReceipt{}
	h.until("receipts", func() bool {
		for len(h.receipts) > 0 {
			receipts[h.receipts[0].GetId()] = h.receipts[0]
			h.receipts = h.receipts[1:]
		}
		return len(receipts) == 6
	})
	for id := uint64(1); id <= 4; id++ {
		if receipts[id].GetCompleteTurn().GetTransition() == nil {
			t.Errorf("request %d: %v", id, receipts[id])
		}
	}
	for _, id := range []uint64{9, 11} {
		if codes.Code(receipts[id].GetError().GetCode()) != codes.InvalidArgument {
			t.Errorf("request %d: %v", id, receipts[id])
		}
	}
	for range 4 {
		h.turn()
	}
}

// TestTooManyTogether: if a message has more requests than the server takes, each of them is refused.
func TestTooManyTogether(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	h := r.registerWorker(ctx, registration("flood"))
	message := &pawlv1.WorkRequest{Id: 1}
	for id := range uint64(maxBatch) {
		message.More = append(message.More, &pawlv1.WorkRequest{Id: id + 2})
	}
	if err := h.stream.Send(message); err != nil {
		t.Fatal(err)
	}
	refused := 0
	h.until("refusals", func() bool {
		for ; len(h.receipts) > 0; h.receipts = h.receipts[1:] {
			if h.receipts[0].GetError() != nil {
				refused++
			}
		}
		return refused == maxBatch+1
	})
}

// countedStream counts the messages that are sent on it.
type countedStream struct {
	grpc.ServerStream
	first    *pawlv1.WorkResponse
	messages int
	ids      []uint64
}

func (s *countedStream) Recv() (*pawlv1.WorkRequest, error) { return nil, nil }

func (s *countedStream) Send(m *pawlv1.WorkResponse) error {
	if s.messages++; s.first == nil {
		s.first = m
	}
	for _, one := range append([]*pawlv1.WorkResponse{m}, m.GetMore()...) {
		s.ids = append(s.ids, one.GetReceipt().GetId())
	}
	return nil
}

// TestResponsesTogether: responses that wait go in one message, in order and within its bounds, and only to
// workers that can read it.
func TestResponsesTogether(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		batches       bool
		queued, bytes int
		wantMessages  int
	}{
		{true, 10, 10, 1}, {true, maxBatch + 10, 10, 2}, {true, 5, maxBatchBytes/2 + 1, 5}, {false, 10, 10, 10}, {true, 1, 10, 1},
	} {
		link, stream := newWorkStream(nil), &countedStream{}
		link.batches = tt.batches
		for id := range tt.queued {
			receipt := &pawlv1.WorkReceipt{Id: uint64(id), Answer: &pawlv1.WorkReceipt_Heartbeat{
				Heartbeat: &pawlv1.LeaseExtension{Lost: []string{string(make([]byte, tt.bytes))}},
			}}
			link.push(&pawlv1.WorkResponse{Item: &pawlv1.WorkResponse_Receipt{Receipt: receipt}})
		}
		for range min(tt.queued, cap(link.inFlight)) {
			link.inFlight <- struct{}{}
		}
		go func() {
			for range tt.queued - cap(link.inFlight) {
				link.inFlight <- struct{}{}
			}
		}()
		if err := link.flush(stream); err != nil {
			t.Fatal(err)
		}
		if stream.messages != tt.wantMessages || len(stream.ids) != tt.queued {
			t.Errorf("%+v: %d messages with %d responses", tt, stream.messages, len(stream.ids))
		}
		for i, id := range stream.ids {
			if id != uint64(i) {
				t.Fatalf("%+v: response %d is %d", tt, i, id)
			}
		}
	}
}

// TestRegistrationIsAnsweredAlone: the answer to a registration is alone in its message, because a worker that
// waits for it reads no other response in that message. Other responses, here the answers of a turn that the
// worker keeps, come in a later message.
func TestRegistrationIsAnsweredAlone(t *testing.T) {
	t.Parallel()
	link, stream := newWorkStream(nil), &countedStream{}
	link.batches = true
	for range 3 {
		link.push(&pawlv1.WorkResponse{Item: &pawlv1.WorkResponse_StepAnswers{}})
	}
	link.pushFirst(&pawlv1.WorkResponse{Item: &pawlv1.WorkResponse_Registered{Registered: &pawlv1.WorkerRegistered{}}})
	if err := link.flush(stream); err != nil {
		t.Fatal(err)
	}
	if stream.first.GetRegistered() == nil || len(stream.first.GetMore()) != 0 || stream.messages != 2 || len(stream.ids) != 4 {
		t.Errorf("%d responses in %d messages, the first: %v", len(stream.ids), stream.messages, stream.first)
	}
}

// TestBriefReceipts: a worker can register for compact receipts. The receipt of its completion then says only
// that the completion was taken, or why not. Receipts that the worker needs to go on are complete.
func TestBriefReceipts(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	reg := registration("brief")
	reg.CompactReceipts = true
	h := r.open(ctx, &pawlv1.WorkRequest{
		Credits: &pawlv1.WorkCredits{Turns: 1}, Item: &pawlv1.WorkRequest_Register{Register: reg},
	})
	r.startWorkers(ctx)
	turn := h.turn()
	step, err := h.ask(stepRequest(turn, "run_tests", `{"path": "."}`))
	if err != nil || len(step.GetRequestStep().GetOutcomes()) != 1 {
		t.Errorf("a step request: %v, %v", step, err)
	}
	beat, err := h.ask(beat(turn.GetLease().GetToken()))
	if err != nil || len(beat.GetHeartbeat().GetLeases()) != 1 {
		t.Errorf("a heartbeat: %v, %v", beat, err)
	}
	_, err = h.ask(completion(turn, "Nope"))
	wantError(t, err, codes.FailedPrecondition, "UNKNOWN_EVENT")
	done, err := h.ask(completion(turn, "Again"))
	if err != nil || done.GetAnswer() != nil {
		t.Errorf("a completion: %v, %v", done, err)
	}
	h.turn()
}
