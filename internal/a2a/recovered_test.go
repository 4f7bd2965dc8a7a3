package a2a

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestPanicBreaksABegunAnswerOff: a client whose answer was begun when the handler panicked notices that the answer is
// not whole. Otherwise the client gets an error. The log has the cause of both.
func TestPanicBreaksABegunAnswerOff(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := &Service{cfg: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &answerWriter{ResponseWriter: w}
		defer s.recovered(answer, r)
		if r.URL.Path == "/begun" {
			_, _ = io.WriteString(answer, "data: 1\n\n")
			_ = http.NewResponseController(answer).Flush()
		}
		panic("here")
	}))
	get := func(path string) (int, string, error) {
		resp, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body), err
	}
	if status, body, err := get("/"); status != http.StatusInternalServerError || err != nil || !strings.Contains(body, "correlation_id") {
		t.Errorf("%d %q %v", status, body, err)
	}
	if status, body, err := get("/begun"); status != http.StatusOK || err == nil || body != "data: 1\n\n" {
		t.Errorf("a begun answer: %d %q %v", status, body, err)
	}
	server.Close() // waits for the handlers
	if n := strings.Count(log.String(), "panic: here"); n != 2 {
		t.Errorf("%d lines in %s", n, &log)
	}
}
