package gateway

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlowBody: a request ends if its body does not come, or if its client takes nothing of the answer. A
// stream may last. The connections are pipes, because their deadlines use the clock of the synctest bubble,
// which stands still while any goroutine can run.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const body, piece = time.Second, 3 * time.Second
		ended := make(chan error, 1)
		dial := paceServer(t, paced(slowAnswers(ended), body, piece))
		for request, after := range map[string]time.Duration{
			"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nten bytes": body,
			"GET / HTTP/1.1\r\nHost: x\r\n\r\n":                                  piece,
		} {
			begun, conn := time.Now(), dial(request)
			if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != after {
				t.Errorf("%.10s ended after %v: %v", request, time.Since(begun), err)
			}
			conn.Close()
		}
		conn := dial("POST /stream HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
		if _, err := bufio.NewReader(conn).ReadString('x'); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		select {
		case err := <-ended:
			t.Errorf("a stream that is read is ended: %v", err)
		default:
		}
		conn.Close()
		<-ended
	})
}

// slowAnswers reads the body and answers without end. For a stream it writes one piece only. ended receives
// the error with which the request ended.
func slowAnswers(ended chan<- error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			ended <- err
			return
		}
		if r.URL.Path == "/stream" {
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			ended <- r.Context().Err()
			return
		}
		for {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<20)); err != nil {
				ended <- err
				return
			}
		}
	})
}

// paceServer serves until the test ends. dial opens a connection and sends a request over it.
func paceServer(t *testing.T, handler http.Handler) (dial func(request string) net.Conn) {
	t.Helper()
	pipes, ended := make(pipes), make(chan error, 1)
	server := &http.Server{Handler: handler}
	go func() { ended <- server.Serve(pipes) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return func(request string) net.Conn {
		near, far := net.Pipe()
		pipes <- far
		if _, err := io.WriteString(near, request); err != nil {
			t.Fatal(err)
		}
		return near
	}
}

// pipes is a listener whose connections are the ends of pipes.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error { close(p); return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }
