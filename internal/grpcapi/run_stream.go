package grpcapi

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
)

// StreamTransitions implements pawl.v1.RunService. The engine reads its journal page by page and holds
// no resources while this method waits for a slow reader. A slow reader gets every record, only later,
// and does not block other calls.
func (s *runService) StreamTransitions(in *pawlv1.StreamTransitionsRequest, stream grpc.ServerStreamingServer[pawlv1.StreamTransitionsResponse]) error {
	leave, err := s.streams.Enter(stream.Context(), in.GetNamespace())
	if err != nil {
		return err
	}
	defer leave()
	ctx, end := s.guardedContext(stream.Context(), pawlv1.RunService_StreamTransitions_FullMethodName)
	defer end()
	req := convert.WatchFromProto(callerOf(ctx), in)
	req.Output = req.Output && s.redactor.Live(ctx, refOf(ctx, in))
	watch, err := s.watches.Watch(ctx, req)
	if err != nil {
		return streamEnd(ctx, err)
	}
	defer watch.Close()
	// The headers notify the reader that the stream is accepted, even if there is no record yet.
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	show := newRecordEncoder(s, req.Call)
	show.one = req.Filter.RunID != ""
	return streamEnd(ctx, s.sendPages(ctx, watch, show, stream))
}

// sendPages sends pages until the watch or the stream ends.
func (s *runService) sendPages(ctx context.Context, watch *streams.Watch, show *recordEncoder, to grpc.ServerStreamingServer[pawlv1.StreamTransitionsResponse]) error {
	for {
		page, err := watch.Next(ctx)
		if err != nil {
			return err
		}
		if page.Heartbeat {
			if err := to.Send(heartbeatToProto(page.Cursor)); err != nil {
				return err
			}
		}
		for i := range page.Output {
			if err := to.Send(convert.OutputToProto(&page.Output[i])); err != nil {
				return err
			}
		}
		for i := range page.Records {
			// The reader may have lost its right after the page was read.
			if err := ctx.Err(); err != nil {
				return err
			}
			// A stream of several runs skips a run that was deleted after the page was read.
			if err := send(ctx, show, &page.Records[i], to); err != nil && (show.one || !machine.IsDeleted(err)) {
				return err
			}
			// Sent records are released, so that a slow reader keeps no memory.
			page.Records[i] = runtime.RecordRow{}
		}
	}
}

// send sends one record. A record is encoded once for all readers. If this reader has requested
// additional fields, the record is encoded separately.
func send(ctx context.Context, show *recordEncoder, row *runtime.RecordRow, to grpc.ServerStreamingServer[pawlv1.StreamTransitionsResponse]) error {
	if row.Snapshot != nil || row.Status != 0 {
		item, err := show.item(ctx, row)
		if err != nil {
			return err
		}
		return to.Send(item)
	}
	data, err := show.encoded(ctx, row)
	if err != nil {
		return err
	}
	return to.SendMsg(data)
}

// streamEnd returns the error with which a stream ends. It is nil if the stream ended by itself. If the
// server ended the stream, it is the cause.
func streamEnd(ctx context.Context, err error) error {
	if errors.Is(err, streams.ErrEnded) {
		return nil
	}
	var refusal *machine.Error
	if errors.As(err, &refusal) && refusal.Reason == apierror.CommitUnknown {
		return err // a repeat could take effect twice
	}
	if cause := context.Cause(ctx); errors.As(cause, &refusal) {
		return cause
	}
	return err
}

// guardedContext returns a context that ends when the caller loses its right to the method or the service
// ends. The cause of the context tells which.
func (s *runService) guardedContext(ctx context.Context, method string) (context.Context, context.CancelFunc) {
	p := auth.CallerOf(ctx)
	return drainContext(ctx, s.auth, s.draining, func() error { return s.auth.Recheck(p, method) })
}

// drainContext returns a context that ends when the channel drain is closed. It also ends when enough returns an error,
// which is called at once and after each change of rights, and when the caller's token expires. The cause of the context
// tells which.
func drainContext(ctx context.Context, authn *auth.Authenticator, drain <-chan struct{}, enough func() error) (context.Context, context.CancelFunc) {
	ctx, over := auth.StreamContext(ctx, auth.CallerOf(ctx))
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for {
			changed := authn.Changed()
			if err := enough(); err != nil {
				cancel(err)
				return
			}
			select {
			case <-changed:
			case <-drain:
				cancel(draining())
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { cancel(nil); over() }
}

func draining() error {
	return &machine.Error{
		Code: machine.CodeUnavailable, Reason: "DRAINING", RetryAfter: int64(time.Second),
		Message: "the server is shutting down; resume with the last cursor at its successor",
	}
}

// stalled returns the error of a stream that could not end normally, because its reader does not read.
func stalled() error {
	return &machine.Error{
		Code: machine.CodeUnavailable, Reason: apierror.OwnerLost, RetryAfter: int64(time.Second),
		Message: "nothing was taken of the stream while the store went to another node; resume with the last cursor",
	}
}
