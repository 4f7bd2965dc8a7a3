package grpcapi

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

const (
	// requestsInFlight limits the number of requests of one stream whose receipts are not sent yet.
	// receiptBytes limits the approximate size of these receipts. Above a limit no further request is
	// read, so that a worker that does not read blocks only itself.
	requestsInFlight = 1024
	receiptBytes     = 4 << 20
	// waitingBytes limits the size of the requests of one stream that wait for the operator's limits,
	// in bytes. These requests do not count as in flight, so that other requests are read in the
	// meantime.
	waitingBytes = 32 << 20
	// maxBatch limits the number of requests or responses in one message. maxBatchBytes limits the size
	// of the responses in a message. A single response may be larger.
	maxBatch      = 1024
	maxBatchBytes = 1 << 20
	// heartbeatRate is the accepted number of heartbeats of one stream per second. heartbeatBurst is
	// the number that is accepted at once.
	heartbeatRate  = 20
	heartbeatBurst = 100
)

// workStream is the stream of one worker. It has the queue of messages to the worker, and the order of
// the worker's requests. It implements [dispatch.WorkerSink].
type workStream struct {
	s      *workerService
	worker *dispatch.Worker
	// namespace is the namespace of the worker's turns and steps. It is set before worker, because a
	// turn of a run that the worker still serves may arrive immediately.
	namespace  string
	heartbeats *rate.Limiter
	// batches means that the worker accepts several responses in one message.
	batches bool
	// compactReceipts means that receipts do not have to contain answers, except those without which
	// the worker cannot continue.
	compactReceipts bool

	mu    sync.Mutex
	queue []*pawlv1.WorkResponse
	// wake contains at most one token. The token means that there are messages to send.
	wake chan struct{}
	// ended receives the error with which the engine ends the stream.
	ended chan error

	requests sync.WaitGroup
	// inFlight contains one token for each request that was read and whose receipt is not sent yet.
	// queuedReceiptBytes is the size of the receipts that wait to be sent. receiptsFreed receives at
	// most one token when that size has decreased.
	inFlight           chan struct{}
	queuedReceiptBytes atomic.Int64
	receiptsFreed      chan struct{}
	// waiting is the size, in bytes, of the requests that wait for the operator's rate limits. ratedExcess is the number
	// of requests that continued after this wait although requestsInFlight was reached.
	waiting, ratedExcess atomic.Int64
	// last contains a channel for each run. The channel is closed when the newest request about the run
	// has taken effect.
	last map[string]chan struct{}
	// unanswered is the number of requests that are not answered yet. mu protects unanswered and last.
	unanswered int
}

func newWorkStream(s *workerService) *workStream {
	return &workStream{
		s: s, heartbeats: rate.NewLimiter(heartbeatRate, heartbeatBurst), wake: make(chan struct{}, 1), ended: make(chan error, 1),
		inFlight: make(chan struct{}, requestsInFlight), receiptsFreed: make(chan struct{}, 1), last: make(map[string]chan struct{}),
	}
}

// push queues a message. It never blocks. The queue stays limited, because the work that the worker holds and the number
// of admitted requests are limited.
func (l *workStream) push(m *pawlv1.WorkResponse) {
	l.mu.Lock()
	l.queue = append(l.queue, m)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// pushFirst queues a message ahead of the others.
func (l *workStream) pushFirst(m *pawlv1.WorkResponse) {
	l.mu.Lock()
	l.queue = append([]*pawlv1.WorkResponse{m}, l.queue...)
	l.mu.Unlock()
}

// flush sends all queued messages.
func (l *workStream) flush(stream workServer) error {
	for {
		l.mu.Lock()
		queue := l.queue
		l.queue = nil
		l.mu.Unlock()
		if len(queue) == 0 {
			return nil
		}
		for len(queue) > 0 {
			n := l.batchLen(queue)
			if queue[0].More = queue[1:n]; n == 1 {
				queue[0].More = nil
			}
			if err := stream.Send(queue[0]); err != nil {
				return err
			}
			for _, m := range queue[:n] {
				if receipt := m.GetReceipt(); receipt != nil {
					l.receipted(receipt)
				}
			}
			queue = queue[n:]
		}
	}
}

// batchLen returns how many messages are sent as one. These are as many as fit, and at least one. The
// answer to a registration is sent alone, because a client reads it before it can process other
// messages.
func (l *workStream) batchLen(queue []*pawlv1.WorkResponse) int {
	if !l.batches || queue[0].GetRegistered() != nil {
		return 1
	}
	n, bytes := 1, proto.Size(queue[0])
	for n < min(len(queue), maxBatch) {
		if bytes += proto.Size(queue[n]); bytes > maxBatchBytes {
			break
		}
		n++
	}
	return n
}

// admit waits until one more request may be read. It returns false if the stream has ended.
func (l *workStream) admit(ctx context.Context) bool {
	for l.queuedReceiptBytes.Load() > receiptBytes {
		select {
		case <-l.receiptsFreed:
		case <-ctx.Done():
			return false
		}
	}
	select {
	case l.inFlight <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// queueReceipt queues the receipt of a request that was admitted.
func (l *workStream) queueReceipt(receipt *pawlv1.WorkReceipt) {
	l.queuedReceiptBytes.Add(int64(proto.Size(receipt)))
	l.push(&pawlv1.WorkResponse{Item: &pawlv1.WorkResponse_Receipt{Receipt: receipt}})
}

// receipted releases the capacity of a request after its receipt is sent.
func (l *workStream) receipted(receipt *pawlv1.WorkReceipt) {
	l.queuedReceiptBytes.Add(-int64(proto.Size(receipt)))
	l.releaseRequest()
	select {
	case l.receiptsFreed <- struct{}{}:
	default:
	}
}

// releaseRequest releases the capacity of a request. While requests have continued beyond the limit (ratedExcess), it
// lowers their number instead.
func (l *workStream) releaseRequest() {
	for n := l.ratedExcess.Load(); n > 0; n = l.ratedExcess.Load() {
		if l.ratedExcess.CompareAndSwap(n, n-1) {
			return
		}
	}
	<-l.inFlight
}

// await releases the capacity that a request takes up in the stream while the request waits for the operator's rate
// limits. The function end takes the capacity again. If too many bytes wait already, await returns an error.
func (l *workStream) await(in *pawlv1.WorkRequest) (end func(), err error) {
	size := int64(proto.Size(in))
	if l.waiting.Add(size) > waitingBytes {
		l.waiting.Add(-size)
		return nil, &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: "LIMIT_QUEUE_FULL", Message: "the requests of this stream that wait for the operator's limits hold too many bytes",
			Limit: waitingBytes, Got: waitingBytes + 1, RetryAfter: int64(time.Second),
		}
	}
	l.releaseRequest()
	return func() {
		l.waiting.Add(-size)
		select {
		case l.inFlight <- struct{}{}:
		default:
			l.ratedExcess.Add(1)
		}
	}, nil
}

// idle reports whether the worker holds no work and does not wait for an answer.
func (l *workStream) idle() bool {
	l.mu.Lock()
	quiet := l.unanswered == 0 && len(l.queue) == 0
	l.mu.Unlock()
	turns, steps := l.worker.Held()
	return quiet && turns+steps == 0
}

// receive reads requests until the stream ends, and returns the reason of the end. more are the
// requests that arrived together with the registration.
func (l *workStream) receive(ctx context.Context, stream workServer, more []*pawlv1.WorkRequest) error {
	for {
		if err := l.takeMore(ctx, more); err != nil {
			return err
		}
		if !l.admit(ctx) {
			return context.Cause(ctx)
		}
		in, err := stream.Recv()
		if err != nil {
			return err
		}
		l.worker.Seen()
		more, in.More = in.GetMore(), nil
		if len(more) >= maxBatch {
			l.refuse(in.GetId(), tooMany(len(more)))
			continue
		}
		l.take(ctx, in)
	}
}

// takeMore handles further requests of the same message when there is capacity for them.
func (l *workStream) takeMore(ctx context.Context, more []*pawlv1.WorkRequest) error {
	for _, in := range more {
		if !l.admit(ctx) {
			return context.Cause(ctx)
		}
		switch {
		case len(more) >= maxBatch:
			l.refuse(in.GetId(), tooMany(len(more)))
		case len(in.GetMore()) > 0:
			l.refuse(in.GetId(), nested())
		default:
			l.take(ctx, in)
		}
	}
	return nil
}

func tooMany(got int) error {
	return &machine.Error{
		Code: machine.CodeInvalidArgument, Reason: apierror.InvalidRequest, Field: "more",
		Message: "too many requests in one message", Limit: maxBatch - 1, Got: int64(got),
	}
}

func nested() error {
	return &machine.Error{
		Code: machine.CodeInvalidArgument, Reason: apierror.InvalidRequest, Field: "more.more",
		Message: "a request that came with others carries no others itself",
	}
}

// PrepareTurn implements [dispatch.WorkerSink].
func (l *workStream) PrepareTurn(d dispatch.TurnDelivery) (func(), error) {
	turn, err := l.s.runs.turnResponse(context.Background(), l.namespace, &d.View)
	if err != nil {
		return nil, err
	}
	out := &pawlv1.TurnAssignment{
		Lease: convert.TurnLeaseToProto(&d.TurnLease), Turn: turn, Agent: d.View.Run.Agent, Labels: convert.LabelsToProto(d.View.Run.Labels),
		Traceparent: d.Traceparent,
	}
	return func() { l.push(&pawlv1.WorkResponse{Item: &pawlv1.WorkResponse_Turn{Turn: out}}) }, nil
}

// PrepareStep implements [dispatch.WorkerSink].
func (l *workStream) PrepareStep(d dispatch.StepDelivery) (func(), error) {
	out := convert.StepAssignmentToProto(&d)
	return func() { l.push(&pawlv1.WorkResponse{Item: &pawlv1.WorkResponse_Step{Step: out}}) }, nil
}

// Revoke implements [dispatch.WorkerSink].
func (l *workStream) Revoke(r dispatch.Revocation) {
	l.push(&pawlv1.WorkResponse{Item: &pawlv1.WorkResponse_Revoked{Revoked: convert.RevocationToProto(&r)}})
}

// Unserved implements dispatch.WorkerSink.
func (l *workStream) Unserved(run string, cause dispatch.UnservedCause) {
	l.push(&pawlv1.WorkResponse{Item: &pawlv1.WorkResponse_RunUnserved{RunUnserved: &pawlv1.RunUnserved{
		RunId: run, Cause: pawlv1.UnservedCause(cause),
	}}})
}

// StepsAnswered implements [dispatch.WorkerSink].
func (l *workStream) StepsAnswered(run string, turn uint64, steps []history.StepView) {
	out := &pawlv1.StepAnswers{RunId: run, TurnSeq: turn}
	for i := range steps {
		out.Steps = append(out.Steps, convert.StepViewToProto(run, &steps[i]))
	}
	l.push(&pawlv1.WorkResponse{Item: &pawlv1.WorkResponse_StepAnswers{StepAnswers: out}})
}

// End implements [dispatch.WorkerSink].
func (l *workStream) End(err error) {
	select {
	case l.ended <- err:
	default:
	}
}
