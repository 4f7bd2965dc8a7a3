package grpcapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

var (
	errEnds    = errors.New("the service ends")
	errStalled = errors.New("stalled")
	errOwn     = errors.New("the handler's own")
)

const grace = 20 * time.Millisecond

// caller is a stream whose other side does nothing until it is released.
type caller struct {
	grpc.ServerStream
	frees chan struct{}
	// startedCalls receives the calls that have begun, in order.
	startedCalls chan string
}

func newCaller() *caller {
	return &caller{frees: make(chan struct{}), startedCalls: make(chan string, 8)}
}

func (c *caller) call(what string) error {
	c.startedCalls <- what
	<-c.frees
	return nil
}

func (c *caller) SendMsg(any) error            { return c.call("send") }
func (c *caller) SendHeader(metadata.MD) error { return c.call("header") }
func (c *caller) RecvMsg(any) error            { return c.call("receive") }

// TestEnding: a stream ends soon after its service ends, also while its handler waits for the end of the
// service, for a message, or for the reader.
func TestEnding(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		handle func(context.Context, grpc.ServerStream) error
		want   error
		// held: the other side of the stream blocks the handler.
		held bool
	}{
		{"by itself", func(context.Context, grpc.ServerStream) error { return errOwn }, errOwn, false},
		{"by its handler", func(ends context.Context, _ grpc.ServerStream) error { <-ends.Done(); return errOwn }, errOwn, false},
		{"who sends nothing", func(_ context.Context, s grpc.ServerStream) error { return s.RecvMsg(nil) }, errEnds, true},
		{"who takes nothing", func(_ context.Context, s grpc.ServerStream) error { return s.SendMsg(nil) }, errStalled, true},
		{"who takes no header", func(_ context.Context, s grpc.ServerStream) error { return s.SendHeader(nil) }, errStalled, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ends, end := context.WithCancelCause(t.Context())
			c := newCaller()
			if tt.held {
				go func() { <-c.startedCalls; end(errEnds) }()
			} else {
				end(errEnds)
			}
			ended := make(chan error, 3)
			err := endStream(ends, grace, func() error { return errStalled }, c, func(s grpc.ServerStream) error {
				err := tt.handle(ends, s)
				if tt.held {
					ended <- s.SendMsg(nil)
					ended <- s.SendHeader(nil)
					ended <- s.RecvMsg(nil)
				}
				return err
			})
			if !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
			close(c.frees)
			for range cap(ended) {
				if !tt.held {
					return
				}
				if err := <-ended; !errors.Is(err, errEnds) {
					t.Errorf("a handler that was left behind: %v", err)
				}
			}
		})
	}
}

// TestEndingPanics: if the handler panics, endStream panics in the goroutine of its caller. The panic names
// the place in the handler.
func TestEndingPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if cause, _ := recover().(string); !strings.Contains(cause, "here") || !strings.Contains(cause, "ending_test.go") {
			t.Errorf("panic %q", cause)
		}
	}()
	_ = endStream(t.Context(), grace, nil, newCaller(), func(grpc.ServerStream) error { panic("here") })
}

// TestEndingHTTP: a client that does not send the rest of its request, or does not read the answer, does not
// hold a handler.
func TestEndingHTTP(t *testing.T) {
	t.Parallel()
	for name, handle := range map[string]func(http.ResponseWriter, *http.Request) error{
		"reads": func(_ http.ResponseWriter, r *http.Request) error { _, err := r.Body.Read(make([]byte, 1)); return err },
		"writes": func(w http.ResponseWriter, _ *http.Request) (err error) {
			for piece := make([]byte, 1<<20); err == nil; {
				_, err = w.Write(piece)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ends, end := context.WithCancelCause(t.Context())
			ended := make(chan error, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				endHTTP(ends, grace, w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					end(errEnds)
					ended <- handle(w, r)
				}))
			}))
			t.Cleanup(server.Close)
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(cancel)
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			if name == "reads" {
				req.Body, req.ContentLength = io.NopCloser(blocked{ctx.Done()}), 1
			}
			go func() {
				// The client does not read the body of the answer.
				if resp, err := server.Client().Do(req); err == nil {
					<-ctx.Done()
					_ = resp.Body.Close()
				}
			}()
			if err := <-ended; err == nil {
				t.Error("no error")
			}
		})
	}
}

// blocked is a body that never comes.
type blocked struct{ over <-chan struct{} }

func (b blocked) Read([]byte) (int, error) { <-b.over; return 0, context.Canceled }
