package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/testkit/endpoint"
)

// stream is a body of events.
func stream(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		var kind struct {
			Type string `json:"type"`
		}
		_ = json.Unmarshal([]byte(e), &kind) // chunks have none
		if kind.Type != "" {
			fmt.Fprintf(&b, "event: %s\n", kind.Type)
		}
		fmt.Fprintf(&b, "data: %s\n\n", e)
	}
	return b.String()
}

func askEndpoint(t *testing.T, scheme string, answer endpoint.Answer) (*pawlv1.ModelAnswer, *pawlv1.Usage, string, error) {
	t.Helper()
	server := endpoint.New(t, func(int, endpoint.Request) endpoint.Answer { return answer })
	e, err := ParseEndpoint("gpt=" + scheme + server.URL)
	if err != nil {
		t.Fatal(err)
	}
	e.Key, e.Timeout = key, longestWait
	var told strings.Builder
	got, usage, err := e.Ask(t.Context(), &Request{Messages: []*pawlv1.Message{user(textPart("Go."))}}, func(s string) { told.WriteString(s) })
	return got, usage, told.String(), err
}

// TestTheKeyIsInNoAnswer: if an endpoint repeats the key, even in pieces, neither the reader nor the record
// gets it. The same holds for an error text that is cut within the key.
func TestTheKeyIsInNoAnswer(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"", anthropicScheme} {
		answer := endpoint.Answer{
			Text: "it is " + key + key[:4], Reasoning: key, Calls: []endpoint.Call{{ID: key, Name: key, Arguments: `{"k":"` + key + `"}`}},
		}
		got, _, told, err := askEndpoint(t, scheme, answer)
		if err != nil {
			t.Fatal(err)
		}
		if raw := got.String() + told; strings.Contains(raw, key) || told != "it is [key]"+key[:4] || got.GetParts()[0].GetText() != told {
			t.Errorf("%q, told %q", raw, told)
		}
		_, _, _, err = askEndpoint(t, scheme, endpoint.Answer{Status: 400, Error: strings.Repeat("x", maxErrorText-10) + key})
		if err == nil || strings.Contains(err.Error(), key[:10]) {
			t.Errorf("%v", err)
		}
	}
}

// TestAnAnswerIsOneThatIsTaken: text that is none, figures that cannot be, names without an
// end, more parts than there may be.
func TestAnAnswerIsOneThatIsTaken(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 300)
	for name, c := range map[string]struct{ scheme, body string }{
		"chat": {"", stream(
			`{"id":"`+long+`","model":"`+long+`","choices":[{"index":0,"delta":{"content":"a`+"\xff"+`","tool_calls":[{"index":0,"id":"x`+long+`","function":{"name":"n`+"\xff"+`","arguments":"{`+"\xc3"+`"}}]},"finish_reason":"`+long+`"}]}`,
			`{"id":"x","choices":[],"usage":{"prompt_tokens":-4,"completion_tokens":9000000000000000000,"prompt_tokens_details":{"cached_tokens":7},"completion_tokens_details":{"reasoning_tokens":-1}}}`,
		)},
		"messages": {anthropicScheme, stream(
			`{"type":"message_start","message":{"id":"`+long+`","model":"`+long+`","usage":{"input_tokens":9000000000000000000,"cache_read_input_tokens":9000000000000000000,"output_tokens":-1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a`+"\xff"+`"}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"x`+long+`","name":"n`+"\xff"+`","input":{}}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{`+"\xc3"+`"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"`+long+`"},"usage":{"output_tokens":-5}}`,
			`{"type":"message_stop"}`,
		)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, usage, told, err := askEndpoint(t, c.scheme, endpoint.Answer{Body: c.body})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := proto.Marshal(got); err != nil || !utf8.ValidString(told) || told != "a\uFFFD" {
				t.Errorf("%v, told %q", err, told)
			}
			if len(got.GetFinishReason()) > maxFinish || len(got.GetResponseId()) > maxName || len(got.GetModel()) > maxName || len(got.GetCalls()[0].GetId()) > maxID {
				t.Errorf("%v", got)
			}
			if min(usage.GetInputTokens(), usage.GetOutputTokens(), usage.GetCachedTokens(), usage.GetReasoningTokens()) < 0 ||
				max(usage.GetInputTokens(), usage.GetOutputTokens()) > maxTokens || usage.GetCachedTokens() > usage.GetInputTokens() {
				t.Errorf("%v", usage)
			}
		})
	}
	blocks := []string{`{"type":"message_start","message":{"id":"m","usage":{}}}`}
	for i := range maxParts + 5 {
		blocks = append(blocks, fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":"%d,"}}`, i, i))
	}
	got, _, told, err := askEndpoint(t, anthropicScheme, endpoint.Answer{Body: stream(append(blocks, `{"type":"message_stop"}`)...)})
	if err != nil || len(got.GetParts()) != maxParts || got.GetParts()[maxParts-1].GetText() != "63,64,65,66,67,68," || !strings.HasSuffix(told, "68,") {
		t.Errorf("%d parts, %v, told %q", len(got.GetParts()), err, told)
	}
}

// TestCallsOfOneIndex: some endpoints give all calls of an answer the same index.
func TestCallsOfOneIndex(t *testing.T) {
	t.Parallel()
	call := func(id, arguments string) string {
		return `{"id":"r","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"` + id + `","function":{"name":"look","arguments":"` + arguments + `"}}]},"finish_reason":"tool_calls"}]}`
	}
	got, _, _, err := askEndpoint(t, "", endpoint.Answer{Body: stream(call("a", "{"), call("a", "}"), call("b", "{}"))})
	if err != nil || len(got.GetCalls()) != 2 || got.GetCalls()[0].GetArguments() != "{}" || got.GetCalls()[1].GetId() != "b" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestWhatIsNoStream: a page of a portal, an answer in one piece, and events that are no JSON give a failure
// with the code that fits. None of them is final.
func TestWhatIsNoStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer endpoint.Answer
		code   string
	}{
		"a page":         {endpoint.Answer{Body: "<html>Sign in</html>", Media: "text/html; charset=utf-8"}, CodeNoStream},
		"in one piece":   {endpoint.Answer{Body: `{"choices":[]}`, Media: "application/json"}, CodeNoStream},
		"no JSON":        {endpoint.Answer{Body: "data: {\"choices\":[{\n\n"}, CodeCut},
		"another thing":  {endpoint.Answer{Body: stream(`{"type":"message_start","message":7}`, `[]`, `{"choices":7}`)}, CodeCut},
		"nothing at all": {endpoint.Answer{Body: "\n\n"}, CodeCut},
		"no end of it":   {endpoint.Answer{Body: "data: " + strings.Repeat("[", 8<<20) + "\n\n"}, CodeCut},
		"a page of 502":  {endpoint.Answer{Status: 502, Body: "<html>bad gateway</html>", Media: "text/html"}, "MODEL_502"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, scheme := range []string{"", anthropicScheme} {
				_, _, _, err := askEndpoint(t, scheme, c.answer)
				if f, ok := errors.AsType[*Failure](err); !ok || f.Code != c.code || f.Final {
					t.Errorf("%q: %v", scheme, err)
				}
			}
		})
	}
}

// TestAnAnswerThatIsBrokenOff: if an endpoint sends an error in the middle of its stream, the failure has the
// text of this error, without the key. An error that is null is no error.
func TestAnAnswerThatIsBrokenOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ scheme, body string }{
		"chat":         {"", stream(`{"id":"r","error":null,"choices":[{"index":0,"delta":{"content":"half"}}]}`, `{"error":{"message":"overloaded `+key+`"}}`)},
		"chat, a word": {"", stream(`{"id":"r","error":null,"choices":[{"index":0,"delta":{"content":"half"}}]}`, `{"error":"overloaded `+key+`"}`)},
		"messages": {anthropicScheme, stream(
			`{"type":"message_start","message":{"id":"m","usage":{"input_tokens":3}}}`, `{"type":"ping"}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"half"}}`,
			`{"type":"error","error":{"type":"overloaded_error","message":"overloaded `+key+`"}}`,
		)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, told, err := askEndpoint(t, c.scheme, endpoint.Answer{Body: c.body})
			if f, ok := errors.AsType[*Failure](err); !ok || f.Code != CodeCut || f.Final || !strings.HasSuffix(f.Message, "overloaded "+keyPlaceholder) || told != "half" {
				t.Errorf("%v, told %q", err, told)
			}
		})
	}
}
