package client

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestCardsHaveOneReading: a card is read by exact names, and one with a member twice is none.
func TestCardsHaveOneReading(t *testing.T) {
	t.Parallel()
	const (
		good  = `{"url":"http://agent.example/good","protocolBinding":"JSONRPC","protocolVersion":"1.0"}`
		other = `{"url":"http://agent.example/other","protocolBinding":"JSONRPC","protocolVersion":"1.0"}`
	)
	for body, want := range map[string]string{
		`{"supportedInterfaces":[` + good + `],"SupportedInterfaces":[` + other + `]}`:                            "http://agent.example/good",
		`{"supportedInterfaces":[` + strings.Replace(good, `}`, `,"URL":"http://agent.example/other"}`, 1) + `]}`: "http://agent.example/good",
		`{"supportedInterfaces":[` + good + `],"supportedInterfaces":[` + other + `]}`:                            "!twice",
		`{"SupportedInterfaces":[` + other + `]}`:                                                                 "!no interface",
		`{"supportedInterfaces":[` + good + `],"security":{"x":[{"odd":1e3}]}}`:                                   "http://agent.example/good",
	} {
		client := &http.Client{Transport: bounded{cannedAnswer{body, "application/json"}}}
		base := &url.URL{Scheme: "http", Host: "agent.example"}
		card, err := fetchCard(t.Context(), client, Remote{Card: base.String()})
		got := ""
		if err == nil {
			var face *foreignInterface
			if face, err = choose(card, base, nil); err == nil {
				got = face.URL
			}
		}
		fault, refused := strings.CutPrefix(want, "!")
		if refused && (err == nil || !strings.Contains(err.Error(), fault)) || !refused && (err != nil || got != want) {
			t.Errorf("%s: %q, %v, want %q", body, got, err, want)
		}
	}
}

// TestErrorsHaveOneReading: the reason of an agent's error is that under its exact name.
func TestErrorsHaveOneReading(t *testing.T) {
	t.Parallel()
	body := `{"error":{"message":"no","details":[{"reason":"DIGEST_MISMATCH","Reason":"TASK_NOT_FOUND"}]}}`
	err := ofHTTP(&http.Response{StatusCode: http.StatusBadRequest, Status: "400 Bad Request", Body: io.NopCloser(strings.NewReader(body))})
	if err == nil || !strings.Contains(err.Error(), "DIGEST_MISMATCH") {
		t.Error(err)
	}
}
