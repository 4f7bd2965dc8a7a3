package inprocess

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

// Ending runs the handler of a stream. The stream ends soon after the context ends is done. Its error
// is then the cause of this context. The handler has the duration grace to return. After that, the
// handler is abandoned and can neither send nor receive, so that another node can continue the stream.
// If a reader that does not read blocks the handler, the stream cannot be continued, and the error is
// the result of stalled.
func Ending(ends context.Context, grace time.Duration, stalled func() error, stream grpc.ServerStream, handle func(grpc.ServerStream) error) error {
	s := &ending{ServerStream: stream}
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

// result returns the handler's error. If the handler panicked, result panics with the same value in the
// goroutine that calls it.
func (e end) result() error {
	if e.panicked != "" {
		panic(e.panicked)
	}
	return e.err
}

// ending is a stream that can be detached from its handler.
type ending struct {
	grpc.ServerStream
	// sending is held while a message is sent.
	sending sync.Mutex
	// detachedBy is the error because of which the handler was abandoned. It is nil while the handler
	// is not abandoned.
	detachedBy atomic.Pointer[error]
}

// detach detaches the stream from its handler and returns why. If a send is blocked, it returns the
// error of stalled instead.
func (s *ending) detach(why error, stalled func() error) error {
	s.detachedBy.Store(&why)
	// Every later send checks detachedBy. A send that is running holds the lock.
	if !s.sending.TryLock() {
		return stalled()
	}
	s.sending.Unlock()
	return why
}

// SendMsg implements grpc.ServerStream.
func (s *ending) SendMsg(m any) error {
	return s.send(func() error { return s.ServerStream.SendMsg(m) })
}

// SendHeader implements grpc.ServerStream.
func (s *ending) SendHeader(md metadata.MD) error {
	return s.send(func() error { return s.ServerStream.SendHeader(md) })
}

func (s *ending) send(send func() error) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if why := s.detachedBy.Load(); why != nil {
		return *why
	}
	return send()
}

// RecvMsg implements grpc.ServerStream.
func (s *ending) RecvMsg(m any) error {
	if why := s.detachedBy.Load(); why != nil {
		return *why
	}
	return s.ServerStream.RecvMsg(m)
}

// EndingHTTP does the same as [Ending] for an HTTP request. If the handler still runs after its grace,
// it can no longer read or write.
func EndingHTTP(ends context.Context, grace time.Duration, w http.ResponseWriter, r *http.Request, handle http.Handler) {
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
