package pawl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// errSessionOver means that the stream ended before the receipt arrived. The request may have taken
// effect. It can be sent again.
var errSessionOver = errors.New("the stream ended before the receipt")

type workClient = grpc.BidiStreamingClient[pawlv1.WorkRequest, pawlv1.WorkResponse]

// session is one registered stream.
type session struct {
	w      *Worker
	stream workClient
	// limit is the size of the largest request that the server accepts, in bytes. A larger request
	// would end the stream, and all leases would be lost.
	limit int64
	// taken contains one token if a turn arrived after heartbeat last chose its pause.
	taken chan struct{}
	out   *outbound

	mu       sync.Mutex
	last     uint64
	receipts map[uint64]chan *pawlv1.WorkReceipt
	ended    chan struct{}
}

func newSession(w *Worker, stream workClient, limit int64) *session {
	return &session{w: w, stream: stream, limit: limit, out: newOutbound(limit), receipts: make(map[uint64]chan *pawlv1.WorkReceipt), ended: make(chan struct{}), taken: make(chan struct{}, 1)}
}

// send queues a request. It returns an error if the stream has ended.
func (s *session) send(req *pawlv1.WorkRequest) error { return s.out.add(req) }

// credits asks for more work.
func (s *session) credits(turns, steps int32) {
	if turns > 0 || steps > 0 {
		_ = s.send(&pawlv1.WorkRequest{Credits: &pawlv1.WorkCredits{Turns: max(turns, 0), Steps: max(steps, 0)}})
	}
}

// call sends a request and waits for its receipt.
func (s *session) call(ctx context.Context, req *pawlv1.WorkRequest) (*pawlv1.WorkReceipt, error) {
	if size := int64(proto.Size(req)); size > s.limit {
		return nil, &Failure{Code: "MESSAGE_TOO_LARGE", Message: fmt.Sprintf("message: %d bytes, the sidecar takes %d", size, s.limit)}
	}
	got := make(chan *pawlv1.WorkReceipt, 1)
	s.mu.Lock()
	s.last++
	req.Id = s.last
	s.receipts[req.Id] = got
	s.mu.Unlock()
	if err := s.send(req); err != nil {
		return nil, errSessionOver
	}
	select {
	case r := <-got:
		return r, status.FromProto(r.GetError()).Err()
	case <-s.ended:
		return nil, errSessionOver
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// receive handles responses until the stream ends.
func (s *session) receive(ctx context.Context) error {
	defer s.out.end()
	defer close(s.ended)
	for {
		m, err := s.stream.Recv()
		if err != nil {
			return err
		}
		s.take(ctx, m)
		for _, more := range m.GetMore() {
			s.take(ctx, more)
		}
	}
}

func (s *session) take(ctx context.Context, m *pawlv1.WorkResponse) {
	switch item := m.GetItem().(type) {
	case *pawlv1.WorkResponse_Turn:
		if !s.w.startTurn(ctx, item.Turn) {
			s.giveBack(&pawlv1.WorkRelease{Work: &pawlv1.WorkRelease_TurnToken{TurnToken: item.Turn.GetLease().GetToken()}})
		}
		select {
		case s.taken <- struct{}{}:
		default:
		}
	case *pawlv1.WorkResponse_Step:
		s.w.count(item.Step.GetDelivery())
		if !s.w.startStep(ctx, item.Step) {
			s.giveBack(&pawlv1.WorkRelease{Work: &pawlv1.WorkRelease_StepToken{StepToken: item.Step.GetLease().GetToken()}})
		}
	case *pawlv1.WorkResponse_Revoked:
		s.w.revoke(item.Revoked)
	case *pawlv1.WorkResponse_StepAnswers:
		s.w.answered(item.StepAnswers)
	case *pawlv1.WorkResponse_RunUnserved:
		s.w.unserved(item.RunUnserved)
	case *pawlv1.WorkResponse_Receipt:
		s.receipt(item.Receipt)
	}
}

// giveBack returns work to the sidecar for which this worker has no function.
func (s *session) giveBack(work *pawlv1.WorkRelease) {
	_ = s.send(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Release{Release: work}})
}

func (s *session) receipt(r *pawlv1.WorkReceipt) {
	s.mu.Lock()
	got := s.receipts[r.GetId()]
	delete(s.receipts, r.GetId())
	s.mu.Unlock()
	if got != nil {
		got <- r
	}
}

// heartbeat extends the leases until the session ends. The pause between two heartbeats is a third of
// the shortest lease, but at most `every` and at least 10 ms. If a turn arrives during a pause, the next
// heartbeat may be sent earlier.
func (s *session) heartbeat(ctx context.Context, every time.Duration) {
	last := time.Now()
	for {
		pause := every
		for _, d := range s.w.leaseDurations() {
			pause = min(pause, d/3)
		}
		select {
		case <-time.After(time.Until(last.Add(max(pause, 10*time.Millisecond)))):
		case <-s.taken:
			continue
		case <-s.ended:
			return
		case <-ctx.Done():
			return
		}
		last = time.Now()
		r, err := s.call(ctx, &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Heartbeat{Heartbeat: &pawlv1.WorkerHeartbeat{Tokens: s.w.turnTokens()}}})
		if err == nil {
			s.w.extended(r.GetHeartbeat())
		}
	}
}

// permanent reports whether a new connection would fail with the same error.
func permanent(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition, codes.Unimplemented:
		return true
	}
	return reasonOf(err) == "WORKER_REPLACED"
}
