package inprocess_test

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

	"github.com/pawl-dev/pawl/internal/grpcapi/inprocess"
)

var (
	errEnds    = errors.New("the service ends")
	errStalled = errors.New("stalled")
	errOwn     = errors.New("the handler's own")
)

const grace = 20 * time.Millisecond

// caller is a stream whose other side does nothing until it is freed.
type caller struct {
	grpc.ServerStream
	frees chan struct{}
	// began has what was begun, in its order.
	began chan string
}

func newCaller() *caller { return &caller{frees: make(chan struct{}), began: make(chan string, 8)} }

func (c *caller) does(what string) error {
	c.began <- what
	<-c.frees
	return nil
}

func (c *caller) SendMsg(any) error            { return c.does("send") }
func (c *caller) SendHeader(metadata.MD) error { return c.does("header") }
func (c *caller) RecvMsg(any) error            { return c.does("receive") }

// TestEnding: a stream is over soon after its service ends, whatever its handler is at.
func TestEnding(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		handle func(context.Context, grpc.ServerStream) error
		want   error
		// held: by the caller.
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
				go func() { <-c.began; end(errEnds) }()
			} else {
				end(errEnds)
			}
			left := make(chan error, 3)
			err := inprocess.Ending(ends, grace, func() error { return errStalled }, c, func(s grpc.ServerStream) error {
				err := tt.handle(ends, s)
				if tt.held {
					left <- s.SendMsg(nil)
					left <- s.SendHeader(nil)
					left <- s.RecvMsg(nil)
				}
				return err
			})
			if !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
			close(c.frees)
			for range cap(left) {
				if !tt.held {
					return
				}
				if err := <-left; !errors.Is(err, errEnds) {
					t.Errorf("a handler that was left behind: %v", err)
				}
			}
		})
	}
}

// TestEndingPanics: a panic is one of whoever made the call.
func TestEndingPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if cause, _ := recover().(string); !strings.Contains(cause, "here") || !strings.Contains(cause, "ending_test.go") {
			t.Errorf("panic %q", cause)
		}
	}()
	_ = inprocess.Ending(t.Context(), grace, nil, newCaller(), func(grpc.ServerStream) error { panic("here") })
}

// TestEndingHTTP: who neither sends the rest nor reads holds no handler.
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
				inprocess.EndingHTTP(ends, grace, w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
				// Nothing is read of what is answered.
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
