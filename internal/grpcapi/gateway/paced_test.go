package gateway

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// TestSlowBody: a body that does not come ends the request, and so does a client that
// takes nothing of an answer; a stream may last.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 2)
	handler := paced(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			ended <- err
			return
		}
		piece := strings.Repeat("x", 1<<20)
		if r.URL.Path == "/stream" {
			piece = "x" // it has to be through in time on a busy machine, too
		}
		for {
			if _, err := io.WriteString(w, piece); err != nil {
				ended <- err
				return
			}
			if r.URL.Path == "/stream" {
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				ended <- r.Context().Err()
				return
			}
		}
	}), 500*time.Millisecond, 500*time.Millisecond)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nten bytes",
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		conn := say(t, server, request)
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%.10s: %v", request, err)
		}
		conn.Close()
	}
	conn := say(t, server, "POST /stream HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
	answer := bufio.NewReader(conn)
	if _, err := answer.ReadString('x'); err != nil {
		t.Fatal(err)
	}
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case err := <-ended:
		t.Errorf("a stream that is read is ended: %v", err)
	case <-timer.C:
	}
	conn.Close()
	<-ended
}

func say(t *testing.T, server *httptest.Server, request string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	return conn
}
