package model

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/testkit/endpoint"
)

const key = "sk-secret-of-the-test"

// forms runs a test with each wire format. The endpoint always answers with the given answer.
func forms(t *testing.T, answer endpoint.Answer, test func(*testing.T, *Endpoint, *endpoint.Server)) {
	for name, prefix := range map[string]string{"chat": "", "messages": anthropicScheme, "responses": responsesScheme} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := endpoint.New(t, func(int, endpoint.Request) endpoint.Answer { return answer })
			e, err := ParseEndpoint("gpt=" + prefix + server.URL + "/base#real")
			if err != nil {
				t.Fatal(err)
			}
			e.Key, e.Timeout = key, time.Minute
			test(t, &e, server)
		})
	}
}

func user(parts ...*pawlv1.Part) *pawlv1.Message { return &pawlv1.Message{Role: "user", Parts: parts} }

func textPart(s string) *pawlv1.Part { return &pawlv1.Part{Content: &pawlv1.Part_Text{Text: s}} }

// TestAnAnswerIsReadWhole: Ask returns the text, the reasoning, the calls and the usage of an answer, in each
// wire format.
func TestAnAnswerIsReadWhole(t *testing.T) {
	t.Parallel()
	answer := endpoint.Answer{Text: "Let me see.", Reasoning: "hm", Calls: []endpoint.Call{{ID: "c1", Name: "look", Arguments: `{"at":1}`}, {ID: "c2", Name: "look", Arguments: `{"at":`}}}
	forms(t, answer, func(t *testing.T, e *Endpoint, server *endpoint.Server) {
		var told strings.Builder
		got, usage, err := e.Ask(t.Context(), &Request{
			System: "Be brief.", Tools: []Tool{{Name: "look"}}, Messages: []*pawlv1.Message{user(textPart("Go."))},
			Parameters: map[string]json.RawMessage{"temperature": json.RawMessage("0.5"), "tool_choice": json.RawMessage(`"required"`)},
		}, func(s string) { told.WriteString(s) })
		if err != nil {
			t.Fatal(err)
		}
		if told.String() != "Let me see." || got.GetParts()[0].GetText() != "Let me see." || got.GetFinishReason() != "tool_calls" {
			t.Errorf("told %q, answer %v", told.String(), got)
		}
		if calls := got.GetCalls(); len(calls) != 2 || calls[0].GetArguments() != `{"at":1}` || calls[1].GetId() != "c2" || calls[1].GetArguments() != "{}" || calls[1].GetBrokenArguments() != `{"at":` {
			t.Errorf("calls %v", calls)
		}
		if usage.GetInputTokens() != 10 || usage.GetCachedTokens() != 4 || usage.GetOutputTokens() != 5 {
			t.Errorf("usage %v", usage)
		}
		asked := server.Requests()[0]
		if asked.Body["model"] != "real" || asked.Body["stream"] != true || !strings.HasPrefix(asked.Path, "/base/") {
			t.Errorf("asked %v at %s", asked.Body, asked.Path)
		}
		if asked.Header.Get("Authorization") != "Bearer "+key && asked.Header.Get("X-Api-Key") != key {
			t.Errorf("no key in %v", asked.Header)
		}
	})
}

// TestWhatFailsSaysHow: each failure has its code, says whether it is final, and has no key
// in it.
func TestWhatFailsSaysHow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer endpoint.Answer
		code   string
		final  bool
		after  time.Duration
	}{
		"a wrong key":    {answer: endpoint.Answer{Status: 401, Error: "no such key: " + key}, code: CodeUnauthorized, final: true},
		"too many calls": {answer: endpoint.Answer{Status: 429, Error: key, RetryAfter: "7"}, code: CodeRateLimited, after: 7 * time.Second},
		"a server's":     {answer: endpoint.Answer{Status: 503, Error: "busy"}, code: "MODEL_503"},
		"a bad request":  {answer: endpoint.Answer{Status: 400, Error: "bad"}, code: "MODEL_400", final: true},
		"a redirect":     {answer: endpoint.Answer{Status: 307, Error: "there"}, code: "MODEL_307", final: true},
		"a cut stream":   {answer: endpoint.Answer{Text: "half of", Cut: true}, code: CodeCut},
		"a long answer":  {answer: endpoint.Answer{Text: strings.Repeat("x", 2000)}, code: CodeTooLarge, final: true},
		"many arguments": {answer: endpoint.Answer{Calls: []endpoint.Call{{ID: "c", Name: "look", Arguments: strings.Repeat("x", 2000)}}}, code: CodeTooLarge, final: true},
		"an endless one": {answer: endpoint.Answer{Text: "and", Hang: true}, code: CodeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forms(t, c.answer, func(t *testing.T, e *Endpoint, _ *endpoint.Server) {
				if c.code == CodeTimeout {
					e.Timeout = 100 * time.Millisecond
				}
				_, _, err := e.Ask(t.Context(), &Request{MaxAnswer: 1000, Messages: []*pawlv1.Message{user(textPart("Go."))}}, func(string) {})
				f, ok := errors.AsType[*Failure](err)
				if !ok || f.Code != c.code || f.Final != c.final || f.RetryAfter != c.after || strings.Contains(f.Message, key) {
					t.Errorf("%T %+v", err, f)
				}
			})
		})
	}
}

// TestNobodyThere: the failure of an endpoint that cannot be reached is not final.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	e, err := ParseEndpoint("gpt=http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	e.Timeout = time.Minute
	_, _, err = e.Ask(t.Context(), &Request{}, func(string) {})
	if f, ok := errors.AsType[*Failure](err); !ok || f.Code != CodeUnreachable || f.Final {
		t.Errorf("%v", err)
	}
}

// TestACancelledCallIsNoFailure: a cancelled call returns context.Canceled and no failure, because another
// execution has the turn by then.
func TestACancelledCallIsNoFailure(t *testing.T) {
	t.Parallel()
	forms(t, endpoint.Answer{Text: "and", Hang: true}, func(t *testing.T, e *Endpoint, _ *endpoint.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		_, _, err := e.Ask(ctx, &Request{Messages: []*pawlv1.Message{user(textPart("Go."))}}, func(string) { cancel() })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

// TestMuchReasoning: a megabyte of reasoning is no failure if there is room for it. Without room it is a
// failure with its own code.
func TestMuchReasoning(t *testing.T) {
	t.Parallel()
	forms(t, endpoint.Answer{Reasoning: strings.Repeat("think ", 1<<20/6), Text: "Done."}, func(t *testing.T, e *Endpoint, _ *endpoint.Server) {
		got, usage, err := e.Ask(t.Context(), &Request{MaxAnswer: 4 << 20, Messages: []*pawlv1.Message{user(textPart("Go."))}}, func(string) {})
		if err != nil || got.GetParts()[0].GetText() != "Done." || usage == nil {
			t.Fatalf("%v, %v", got.GetFinishReason(), err)
		}
		_, _, err = e.Ask(t.Context(), &Request{MaxAnswer: 1 << 19, Messages: []*pawlv1.Message{user(textPart("Go."))}}, func(string) {})
		f, ok := errors.AsType[*Failure](err)
		if !ok || f.Code != CodeTooLarge || !f.Final {
			t.Errorf("%v", err)
		}
	})
}

// TestWhatAnEndpointCannotTake: a request that an endpoint cannot take fails with an error that names the
// reason, and nothing is sent.
func TestWhatAnEndpointCannotTake(t *testing.T) {
	t.Parallel()
	data := func(media string) *pawlv1.Part {
		return &pawlv1.Part{Content: &pawlv1.Part_Data{Data: []byte("abcd")}, MediaType: media, Filename: "it.bin"}
	}
	for name, c := range map[string]struct {
		req  *Request
		code string
		says string
	}{
		"a video":             {&Request{Messages: []*pawlv1.Message{user(textPart("See:"), data("video/mp4"))}}, CodePart, "video/mp4"},
		"a blob":              {&Request{Messages: []*pawlv1.Message{user(&pawlv1.Part{Content: &pawlv1.Part_Uri{Uri: "blob:sha256:00"}, MediaType: "image/png"})}}, CodePart, "parts[0]"},
		"a picture of a tool": {&Request{Messages: []*pawlv1.Message{{Role: "assistant", Parts: []*pawlv1.Part{data("image/png")}}}}, CodePart, "it.bin"},
		"a parameter":         {&Request{Parameters: map[string]json.RawMessage{"mood": json.RawMessage("1")}}, CodeParameter, "parameters.mood"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forms(t, endpoint.Answer{Text: "no"}, func(t *testing.T, e *Endpoint, server *endpoint.Server) {
				_, _, err := e.Ask(t.Context(), c.req, func(string) {})
				f, ok := errors.AsType[*Failure](err)
				if !ok || f.Code != c.code || !f.Final || !strings.Contains(f.Message, c.says) || len(server.Requests()) != 0 {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// TestNoCallDangles: a call that has no answer in the conversation gets one in the request. Media are sent in
// the form that the endpoint takes.
func TestNoCallDangles(t *testing.T) {
	t.Parallel()
	forms(t, endpoint.Answer{Text: "ok"}, func(t *testing.T, e *Endpoint, server *endpoint.Server) {
		calls := `[{"id":"a","name":"look","arguments":"{}"},{"id":"b","type":"function","function":{"name":"look","arguments":"nonsense"}}]`
		_, _, err := e.Ask(t.Context(), &Request{Messages: []*pawlv1.Message{
			user(textPart("Go."), &pawlv1.Part{Content: &pawlv1.Part_Data{Data: []byte("abcd")}, MediaType: "image/png"}),
			{Role: "assistant", ToolCallsJson: calls}, {Role: "tool", ToolCallId: "a", Parts: []*pawlv1.Part{textPart("seen")}},
			user(textPart("And?")),
		}}, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(server.Requests()[0].Body)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(raw); strings.Count(text, "NOT_MADE") != 1 || !strings.Contains(text, "YWJjZA==") || strings.Contains(text, "nonsense") {
			t.Errorf("asked %s", text)
		}
	})
}

// TestEndpointsAreRead: what is no endpoint is refused, and no fault repeats a password.
func TestEndpointsAreRead(t *testing.T) {
	t.Parallel()
	e, err := ParseEndpoint("gpt-5=https://api.example.com/v1")
	if err != nil || e.URL != "https://api.example.com/v1/" || e.Model != "gpt-5" || e.Form != Chat || KeyVariable(e.Name) != "PAWL_MODEL_KEY_GPT_5" {
		t.Errorf("%+v, %v", e, err)
	}
	for _, text := range []string{
		"", "gpt", "=https://h", "g pt=https://h", "gpt=ftp://h", "gpt=anthropic+ftp://h", "gpt=https://", "gpt=https://h?key=hunter2", "gpt=https://me:hunter2@h", "gpt=https://h\x00hunter2",
	} {
		if _, err := ParseEndpoint(text); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"": 0, "3": 3 * time.Second, "0.5": time.Second / 2, "-1": 0, "NaN": 0, "1e300": 0, "1e5": longestWait, "soon": 0, "Inf": 0} {
		if got := retryAfter(http.Header{"Retry-After": {text}}); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}
