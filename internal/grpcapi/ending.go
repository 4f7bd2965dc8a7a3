package grpcapi

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// endStream runs the handler of a stream and returns its error. The context in the parameter ends tells when the
// stream must end. When it is done, the handler has the time grace to return, and the stream's error is the cause of
// this context. A handler that still runs after this time is abandoned. It can then neither send nor receive, so that
// another node can continue the stream. If a send is blocked because the reader does not read, the stream cannot be
// continued, and its error is the result of stalled.
func endStream(ends context.Context, grace time.Duration, stalled func() error, stream grpc.ServerStream, handle func(grpc.ServerStream) error) error {
	s := &endingStream{ServerStream: stream}
	done := make(chan end, 1)
	go func() {
		defer func() {
			if cause := recover(); cause != nil {
				done <- end{panicked: fmt.Sprintf("%v\n%s", cause, debug.Stack())}
			}
		}()
		done <- end{err: handle(s)}
	}()
	select {
	case how := <-done:
		return how.result()
	case <-ends.Done():
	}
	over := time.NewTimer(grace)
	defer over.Stop()
	select {
	case how := <-done:
		return how.result()
	case <-over.C:
		return s.detach(context.Cause(ends), stalled)
	}
}

// end is the result of a handler: an error or a panic.
type end struct {
	err      error
	panicked string
}

// result returns the handler's error. If the handler panicked, result panics in the goroutine that calls it, with a text
// of the value and of the handler's stack.
func (e end) result() error {
	if e.panicked != "" {
		panic(e.panicked)
	}
	return e.err
}

// endingStream is a stream that can be detached from its handler.
type endingStream struct {
	grpc.ServerStream
	// sending is held while a message is sent.
	sending sync.Mutex
	// detachedBy is the error because of which the handler was abandoned. It is nil while the handler
	// is not abandoned.
	detachedBy atomic.Pointer[error]
}

// detach makes the stream unusable for its handler and returns why. If a send is blocked, it returns the error of
// stalled instead.
func (s *endingStream) detach(why error, stalled func() error) error {
	s.detachedBy.Store(&why)
	// Sends that begin from now on return this error. A send that holds the lock is running, and probably blocked.
	if !s.sending.TryLock() {
		return stalled()
	}
	s.sending.Unlock()
	return why
}

// SendMsg implements grpc.ServerStream.
func (s *endingStream) SendMsg(m any) error {
	return s.send(func() error { return s.ServerStream.SendMsg(m) })
}

// SendHeader implements grpc.ServerStream.
func (s *endingStream) SendHeader(md metadata.MD) error {
	return s.send(func() error { return s.ServerStream.SendHeader(md) })
}

func (s *endingStream) send(send func() error) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if why := s.detachedBy.Load(); why != nil {
		return *why
	}
	return send()
}

// RecvMsg implements grpc.ServerStream.
func (s *endingStream) RecvMsg(m any) error {
	if why := s.detachedBy.Load(); why != nil {
		return *why
	}
	return s.ServerStream.RecvMsg(m)
}

// endHTTP ends an HTTP request like [endStream], but always waits until the handler returns. A handler that still runs
// when grace has passed can no longer read or write.
func endHTTP(ends context.Context, grace time.Duration, w http.ResponseWriter, r *http.Request, handle http.Handler) {
	handled, cut := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ends, func() {
		defer close(cut)
		over := time.NewTimer(grace)
		defer over.Stop()
		select {
		case <-handled:
		case <-over.C:
			// A deadline in the past wakes a handler that is blocked in a read or a write.
			control, now := http.NewResponseController(w), time.Now()
			_ = control.SetReadDeadline(now)
			_ = control.SetWriteDeadline(now)
		}
	})
	defer func() {
		if !stop() {
			close(handled)
			<-cut
		}
	}()
	handle.ServeHTTP(w, r)
}
