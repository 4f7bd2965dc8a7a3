package pawl

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// Run is a handle to one run. Its methods call the sidecar and retry failed calls. They set the
// namespace and the run_id of a request. If a request has no id, they set a random one, so that a retry
// has no second effect. Safe for concurrent use.
type Run struct {
	c  *Client
	id string
}

// ID returns the run's id.
func (r *Run) ID() string { return r.id }

func (r *Run) stubs() pawlv1.RunServiceClient { return pawlv1.NewRunServiceClient(r.c.conn) }

// Info returns the current state of the run with its artifacts and budgets. Reason: RUN_NOT_FOUND.
func (r *Run) Info(ctx context.Context) (*pawlv1.GetRunResponse, error) {
	return call(ctx, r.c, r.stubs().GetRun, &pawlv1.GetRunRequest{Namespace: r.c.o.Namespace, RunId: r.id})
}

// Emit emits an event in the run's current state. The call is idempotent by the request's event_id.
// Reasons: UNKNOWN_EVENT, SEQ_MISMATCH, RUN_TERMINAL, RUN_PAUSED, TURN_TOKEN_STALE.
func (r *Run) Emit(ctx context.Context, request *pawlv1.EmitEventRequest) (*pawlv1.EmitEventResponse, error) {
	request = proto.CloneOf(request)
	request.Namespace, request.RunId = r.c.o.Namespace, r.id
	if request.GetEventId() == "" {
		request.EventId = rand.Text()
	}
	return call(ctx, r.c, r.stubs().EmitEvent, request)
}

// SendInput adds a message to the next turn of the visit. The call is idempotent by the request's
// message_id. Reasons: RUN_TERMINAL, INPUT_QUEUE_FULL.
func (r *Run) SendInput(ctx context.Context, request *pawlv1.SendInputRequest) (*pawlv1.SendInputResponse, error) {
	request = proto.CloneOf(request)
	request.Namespace, request.RunId = r.c.o.Namespace, r.id
	if request.GetMessageId() == "" {
		request.MessageId = rand.Text()
	}
	return call(ctx, r.c, r.stubs().SendInput, request)
}

// Pause pauses the run. No turn of the run is started until [Run.Resume] is called. Reason:
// RUN_TERMINAL.
func (r *Run) Pause(ctx context.Context, note string) (*pawlv1.PauseRunResponse, error) {
	request := &pawlv1.PauseRunRequest{Namespace: r.c.o.Namespace, RunId: r.id, Note: note, RequestId: rand.Text()}
	return call(ctx, r.c, r.stubs().PauseRun, request)
}

// Resume ends a pause. Reason: RUN_TERMINAL.
func (r *Run) Resume(ctx context.Context, note string) (*pawlv1.ResumeRunResponse, error) {
	request := &pawlv1.ResumeRunRequest{Namespace: r.c.o.Namespace, RunId: r.id, Note: note, RequestId: rand.Text()}
	return call(ctx, r.c, r.stubs().ResumeRun, request)
}

// Cancel ends the run with the status CANCELLED. Reason: RUN_TERMINAL.
func (r *Run) Cancel(ctx context.Context, note string) (*pawlv1.CancelRunResponse, error) {
	request := &pawlv1.CancelRunRequest{Namespace: r.c.o.Namespace, RunId: r.id, Note: note, RequestId: rand.Text()}
	return call(ctx, r.c, r.stubs().CancelRun, request)
}

// Wait waits until the run has ended or, depending on until, has ended or waits for an outside event.
// Then it returns the run. ctx bounds the wait. Without a deadline the call may last until the run
// ends.
func (r *Run) Wait(ctx context.Context, until pawlv1.WaitUntil) (*pawlv1.Run, error) {
	const once = 20 * time.Second
	request := &pawlv1.WaitRunRequest{Namespace: r.c.o.Namespace, RunId: r.id, Until: until, Timeout: durationpb.New(once)}
	for {
		waited, err := call(ctx, r.c, r.stubs().WaitRun, request)
		if err != nil {
			return nil, err
		}
		if !waited.GetTimedOut() {
			return waited.GetRun(), nil
		}
	}
}

// Serve executes a run of EXECUTION_CALLER in this process until it ends or waits for an outside event.
// Then it returns the state of the run. All runs that a client serves share one stream. When ctx ends,
// the client releases the run, and another process can continue it. The pack decides whether an
// interrupted turn or tool is executed again. Errors: [ErrServed], [ErrTakenOver], [ErrNotServed],
// [ErrNoTurnFunc], [ErrClosed], the errors of ServeRun, and the error of ctx.
func (r *Run) Serve(ctx context.Context, with Serving) (*pawlv1.GetRunResponse, error) {
	s, err := r.c.worker()
	if err != nil {
		return nil, err
	}
	if _, err := s.w.Serve(ctx, r.id, with); err != nil {
		if errors.Is(err, ErrStopped) {
			<-s.ended
			err = errors.Join(s.err, closedBy(r.c))
		}
		if e := ErrorOf(err); e != nil {
			return nil, e
		}
		return nil, err
	}
	return r.Info(ctx)
}

// closedBy returns ErrClosed if the client is closed. Otherwise it returns nil.
func closedBy(c *Client) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	return nil
}

// ErrGap is the error of [Run.Transitions] when the stream skips a record.
var ErrGap = errors.New("pawl: a record is missing in the stream")

// Transitions iterates over the run's records whose seq is greater than after, and follows the run
// until it ends. It yields each record once, in order. kinds selects the kinds of records. The default
// is TRANSITION and ENDED. If the connection is lost, Transitions continues after the last record. If no
// connection delivers anything for [Options.RetryFor], it ends with the error of the last one.
// The first error ends the sequence. Errors: [ErrGap] and the errors of StreamTransitions. When ctx
// ends, the error is the cause of ctx or the status CANCELLED or DEADLINE_EXCEEDED of the stream.
func (r *Run) Transitions(ctx context.Context, after uint64, kinds ...pawlv1.RecordKind) iter.Seq2[*pawlv1.Record, error] {
	return func(yield func(*pawlv1.Record, error) bool) {
		backoff, since := newBackoff(), time.Now()
		for {
			received := false
			ended, goOn, err := r.tail(ctx, &after, kinds, &received, func(record *pawlv1.Record) bool { return yield(record, nil) })
			if ended || !goOn {
				return
			}
			if received {
				backoff, since = newBackoff(), time.Now()
			}
			e := ErrorOf(err)
			pause := backoff.next()
			if e == nil || e.Advice() == GiveUp || ctx.Err() != nil || time.Since(since)+pause > r.c.o.RetryFor {
				yield(nil, err)
				return
			}
			select {
			case <-time.After(max(pause, e.RetryAfter)):
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
		}
	}
}

// tail reads one stream of [Run.Transitions]. It sets after to the seq of the last record, and received if the stream
// delivers a record or a heartbeat. goOn is false if take has ended the iteration.
func (r *Run) tail(
	ctx context.Context, after *uint64, kinds []pawlv1.RecordKind, received *bool, take func(*pawlv1.Record) bool,
) (ended, goOn bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var stream grpc.ServerStreamingClient[pawlv1.StreamTransitionsResponse]
	stream, err = r.stubs().StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{
		Namespace: r.c.o.Namespace, RunId: r.id, Kinds: kinds, AfterSeq: *after, Follow: true,
	})
	if err != nil {
		return false, true, err
	}
	for {
		answer, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return true, true, nil
		case err != nil:
			return false, true, err
		}
		*received = true
		if answer.GetRecord() == nil {
			continue
		}
		record := answer.GetRecord()
		if record.GetSeq() <= *after {
			continue // An earlier connection delivered it.
		}
		if record.GetPrevSeq() > *after {
			return false, true, fmt.Errorf("%w: run %s: record %d follows %d, the last one read was %d",
				ErrGap, r.id, record.GetSeq(), record.GetPrevSeq(), *after)
		}
		*after = record.GetSeq()
		if !take(record) {
			return false, false, nil
		}
	}
}
