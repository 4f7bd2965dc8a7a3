package grpcapi

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"
)

// TestErrorsOfHTTPAreLogged: what net/http reports, for example a failed TLS handshake, is a line of the sidecar's log.
func TestErrorsOfHTTPAreLogged(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &Server{cfg: Config{Log: slog.New(slog.NewJSONHandler(&out, nil))}}
	w := newHTTPListener(s, "HTTP", http.NotFoundHandler())
	w.server.ErrorLog.Printf("http: TLS handshake error from %s", "127.0.0.1:1")
	var line struct{ Level, Msg string }
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Level != "INFO" || line.Msg != "http: TLS handshake error from 127.0.0.1:1" {
		t.Errorf("%v: %s", err, out.String())
	}
}
