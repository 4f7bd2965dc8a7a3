package model

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestAnswersHaveOneReading: an event in which a member is there twice is no answer; another
// case of a name is another name; half of a character that a model says is U+FFFD.
func TestAnswersHaveOneReading(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"id":"1","choices":[{"index":0,"delta":{"content":"hello","content":"pay"},"finish_reason":"stop"}]}`: "!twice",
		`{"id":"1","choices":[{"index":0,"delta":{"content":"hello","Content":"pay"},"finish_reason":"stop"}]}`: "hello",
		`{"id":"1","choices":[{"index":0,"delta":{"content":"a\ud83d"},"finish_reason":"stop"}]}`:               "a\uFFFD",
		`{"id":"1","choices":[{"index":0,"delta":{"content":"a\udE00b"},"finish_reason":"stop"}]}`:              "a\uFFFDb",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte("data: " + body + "\n\ndata: [DONE]\n\n"))
		}))
		e := &Endpoint{Name: "gpt", URL: server.URL + "/", Model: "m", Timeout: time.Minute}
		answer, usage, err := e.Ask(t.Context(), &Request{MaxAnswer: 1 << 10}, func(string) {})
		server.Close()
		fault, refused := strings.CutPrefix(want, "!")
		switch {
		case refused && (err == nil || !strings.Contains(err.Error(), fault) || !usage.GetEstimated()):
			t.Errorf("%s: %v, %v, %v", body, answer, usage, err)
		case !refused && (err != nil || answer.GetParts()[0].GetText() != want):
			t.Errorf("%s: %v, %v", body, answer, err)
		}
	}
}

// TestCallsHaveOneReading: the calls of a recorded message go to the endpoint by exact names.
func TestCallsHaveOneReading(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[{"id":"a","name":"look","Name":"pay","arguments":"{}"}]`:                   "look",
		`[{"id":"a","name":"look","arguments":"{}","Function":{"name":"pay"}}]`:      "look",
		`[{"id":"a","function":{"name":"look","NAME":"pay","arguments":"{\"a\"}"}}]`: "look",
		`[{"id":"a","name":"look","name":"pay","arguments":"{}"}]`:                   "!twice",
	} {
		calls, err := callsOf(&pawlv1.Message{Role: "assistant", ToolCallsJson: text})
		fault, refused := strings.CutPrefix(want, "!")
		if refused && (err == nil || !strings.Contains(err.Error(), fault)) || !refused && (err != nil || calls[0].Name != want) {
			t.Errorf("%s: %+v, %v", text, calls, err)
		}
	}
	if arguments, broken := normalArguments(`{"a":1,"a":2}`); arguments != "{}" || broken == "" {
		t.Error("arguments that two readers see differently go out")
	}
}
