package model

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/pawl-dev/pawl/test/testkit/endpoint"
)

// TestFaultsHaveTheEndpointsWords: the message of a failure is the endpoint's own text, for each form of its
// answer.
func TestFaultsHaveTheEndpointsWords(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"error":{"message":"no tokens left","type":"x"}}`:                  "no tokens left",
		`{"error":"no tokens left"}`:                                         "no tokens left",
		`{"message":"no tokens left"}`:                                       "no tokens left",
		`{"detail":"no tokens left"}`:                                        "no tokens left",
		`{"detail":[{"loc":["body"],"msg":"no tokens left"}]}`:               "no tokens left",
		`[{"error":{"code":400,"message":"no tokens left","status":"BAD"}}]`: "no tokens left",
		`{"errors":[{"message":"no tokens left"}]}`:                          "no tokens left",
		`"no tokens left"`:                                                   "no tokens left",
		`no tokens left`:                                                     "no tokens left",
		`<html><head><title> No
 tokens left </title></head><body>x</body></html>`: "No tokens left",
		`<html><script>var x</script><h1>No tokens</h1> left</html>`: "No tokens left",
		`{"error":{"code":"model_loading"}}`:                         "model_loading",
		`{"error":null}`:                                             "",
		``:                                                           "",
		`{"error":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`: "",
	} {
		if got := faultWords([]byte(body)); got != want {
			t.Errorf("%s: %q", body, got)
		}
	}
	if got := faultWords([]byte(strings.Repeat("ä", 1<<20))); len(got) > maxWords {
		t.Errorf("%d bytes", len(got))
	}
}

// TestFaultsInAStream: the code of an error in a stream follows from what the endpoint says. The failure is
// final if no further attempt can help.
func TestFaultsInAStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		scheme, event, code string
		final               bool
	}{
		"chat, limit":        {"", `{"error":{"code":429,"message":"said so"}}`, CodeRateLimited, false},
		"chat, bad":          {"", `{"error":{"code":400,"message":"said so"}}`, "MODEL_400", true},
		"chat, words":        {"", `{"error":"said so"}`, CodeCut, false},
		"messages, limit":    {anthropicScheme, `{"type":"error","error":{"type":"rate_limit_error","message":"said so"}}`, CodeRateLimited, false},
		"messages, overload": {anthropicScheme, `{"type":"error","error":{"type":"overloaded_error","message":"said so"}}`, CodeCut, false},
		"messages, bad":      {anthropicScheme, `{"type":"error","error":{"type":"invalid_request_error","message":"said so"}}`, "MODEL_400", true},
		"responses, failed":  {responsesScheme, `{"type":"response.failed","response":{"error":{"code":"server_error","message":"said so"}}}`, CodeCut, false},
		"responses, limit":   {responsesScheme, `{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"said so"}}}`, CodeRateLimited, false},
		"responses, event":   {responsesScheme, `{"type":"error","code":"server_error","message":"said so"}`, CodeCut, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, _, err := askEndpoint(t, c.scheme, endpoint.Answer{Body: stream(c.event)})
			f, ok := errors.AsType[*Failure](err)
			if !ok || f.Code != c.code || f.Final != c.final || !strings.HasSuffix(f.Message, ": said so") {
				t.Errorf("%+v", f)
			}
		})
	}
}

// TestOneCallIsOneRequest: no layer below this package repeats a request.
func TestOneCallIsOneRequest(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 408, 429, 500, 503, 529} {
		for _, scheme := range []string{"", anthropicScheme, responsesScheme} {
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Retry-After", "0.001")
				w.WriteHeader(status)
				_, _ = w.Write([]byte(`{"error":{"message":"said so"}}`))
			}))
			e, err := ParseEndpoint("gpt=" + scheme + server.URL)
			if err != nil {
				t.Fatal(err)
			}
			e.Timeout = time.Minute
			_, _, err = e.Ask(t.Context(), &Request{}, func(string) {})
			server.Close()
			if f, ok := errors.AsType[*Failure](err); !ok || f.Final || !strings.Contains(f.Message, "said so") || asked.Load() != 1 {
				t.Errorf("%d %q: %v, asked %d times", status, scheme, err, asked.Load())
			}
		}
	}
}

// TestWhatIsSaidOfAKey: the failure has the endpoint's text without the key and without parts of it.
func TestWhatIsSaidOfAKey(t *testing.T) {
	t.Parallel()
	masked := key[:8] + strings.Repeat("*", 12) + key[len(key)-4:]
	for _, said := range []string{key, masked, "xx" + key[3:]} {
		_, _, _, err := askEndpoint(t, "", endpoint.Answer{Status: 401, Error: "Incorrect key: " + said + "."})
		f, ok := errors.AsType[*Failure](err)
		if !ok || f.Code != CodeUnauthorized || !f.Final || !strings.Contains(f.Message, "Incorrect key: ") || strings.Contains(f.Message, key[:5]) || strings.Contains(f.Message, key[len(key)-4:]) {
			t.Errorf("%+v", f)
		}
	}
}

// TestWordsOfAFault: a word in an error means the same in the clients of all languages.
func TestWordsOfAFault(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../testdata/model/faults.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range gjson.ParseBytes(text).Array() {
		word, want := row.Get("word").String(), row.Get("non_retryable").Bool()
		for _, field := range []string{"type", "code"} {
			if code, got := classOf(gjson.Parse(`{"`+field+`":"`+word+`"}`), CodeCut); got != want {
				t.Errorf("%s %s is %s, final: %v", field, word, code, got)
			}
		}
	}
}
