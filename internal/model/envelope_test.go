package model

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/testkit/endpoint"
)

// asMessage returns an answer as a message of the next request, as the sidecar makes it.
func asMessage(t *testing.T, a *pawlv1.ModelAnswer) *pawlv1.Message {
	t.Helper()
	var calls []call
	for _, c := range a.GetCalls() {
		calls = append(calls, call{ID: c.GetId(), Name: c.GetName(), Arguments: c.GetArguments()})
	}
	m := &pawlv1.Message{Role: "assistant", Parts: a.GetParts(), Refusal: a.GetRefusal(), ProviderJson: a.GetProviderJson()}
	if calls != nil {
		m.ToolCallsJson = string(encodePlain(calls))
	}
	return m
}

// requestBody returns the body of the request that sends messages.
func requestBody(t *testing.T, e *Endpoint, server *endpoint.Server, messages ...*pawlv1.Message) string {
	t.Helper()
	n := len(server.Requests())
	if _, _, err := e.Ask(t.Context(), &Request{Tools: []Tool{{Name: "flower.order"}}, Messages: messages}, func(string) {}); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(server.Requests()[n].Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestWhatWasRecordedIsToldAgain: a recorded answer is in the next request with the data that the provider
// wants back, in each wire format. If this data is of another library or cannot be used, the request has the
// calls without it.
func TestWhatWasRecordedIsToldAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		scheme, body string
		back         []string
	}{
		"chat": {"", stream(
			`{"id":"r","choices":[{"delta":{"reasoning_content":"Tulips <first>.","content":" \n"}}]}`,
			`{"id":"r","choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"flower_order","arguments":"{\"n\":1.50}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]},"finish_reason":"tool_calls"}]}`,
		), []string{`"reasoning_content":"Tulips \u003cfirst\u003e."`, `"thought_signature":"c2ln"`, `"content":null`, `"name":"flower_order"`}},
		"messages": {anthropicScheme, stream(
			`{"type":"message_start","message":{"id":"r","usage":{}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"b3BhcXVl"}}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"server_tool_use","id":"s","name":"web","input":{}}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"q\":1}"}}`,
			`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"a","name":"flower_order","input":{}}}`,
			`{"type":"message_stop"}`,
		), []string{`"signature":"c2ln"`, `"data":"b3BhcXVl"`, `"input":{"q":1}`, `"name":"flower_order"`}},
		"responses": {responsesScheme, stream(
			`{"type":"response.output_item.done","item":{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"c2ln"}}`,
			`{"type":"response.output_item.done","item":{"type":"function_call","id":"fc","call_id":"a","name":"flower_order","arguments":"{\"n\""}}`,
			`{"type":"response.completed","response":{"id":"r","output":[],"usage":{}}}`,
		), []string{`"encrypted_content":"c2ln"`, `"arguments":"{}"`, `"call_id":"a"`, `"name":"flower_order"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := endpoint.New(t, func(int, endpoint.Request) endpoint.Answer { return endpoint.Answer{Body: c.body} })
			e, err := ParseEndpoint("gpt=" + c.scheme + server.URL)
			if err != nil {
				t.Fatal(err)
			}
			e.Timeout = time.Minute
			got, _, err := e.Ask(t.Context(), &Request{Tools: []Tool{{Name: "flower.order"}}, Messages: []*pawlv1.Message{user(textPart("Go."))}}, func(string) {})
			if err != nil || got.GetCalls()[0].GetName() != "flower.order" || got.GetProviderName() == "" {
				t.Fatalf("%v, %v", got, err)
			}
			m := asMessage(t, got)
			if foreign := ForeignLibrary(m); foreign != "" {
				t.Errorf("our own answer is of %s", foreign)
			}
			again := requestBody(t, &e, server, user(textPart("Go.")), m)
			for _, want := range c.back {
				if !strings.Contains(again, want) {
					t.Errorf("%s is not in %s", want, again)
				}
			}
			for _, envelope := range []string{
				strings.Replace(m.GetProviderJson(), `"pawl"`, `"ai"`, 1), `{"anthropic":[{"type":"thinking"}]}`, `nonsense`, `{"library":"pawl","version":"9","message":7}`,
				`{"library":"pawl","version":"1","message":{"` + e.Form.name() + `":{"tool_calls":[]}}}`,
			} {
				m.ProviderJson = envelope
				anew := requestBody(t, &e, server, user(textPart("Go.")), m)
				if strings.Contains(anew, "c2ln") || !strings.Contains(anew, `"name":"flower_order"`) {
					t.Errorf("%s: told %s", envelope, anew)
				}
			}
			if m.ProviderJson = `{"library":"ai","version":"6.0.1","message":[]}`; ForeignLibrary(m) != "ai 6.0.1" {
				t.Errorf("of %q", ForeignLibrary(m))
			}
		})
	}
}

// TestNamesOfTools: each tool has a name that endpoints take. The answer has the name from the pack.
func TestNamesOfTools(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 70)
	n := namesOf([]Tool{{Name: "a.b"}, {Name: "a_b"}, {Name: "a/b"}, {Name: long}, {Name: long + "y"}})
	seen := map[string]bool{}
	for _, name := range []string{"a.b", "a_b", "a/b", long, long + "y"} {
		out := n.toWire(name)
		if !wireName.MatchString(out) || seen[out] || n.fromWire(out) != name {
			t.Errorf("%s is told as %s, heard as %s", name, out, n.fromWire(out))
		}
		seen[out] = true
	}
	if n.toWire("a_b") != "a_b" || n.fromWire("nothere") != "nothere" || !wireName.MatchString(n.toWire("")) || !wireName.MatchString(n.toWire("ü")) {
		t.Errorf("%+v", n)
	}
	if got := string(n.choice(json.RawMessage(`{"type":"function","function":{"name":"a.b"}}`))); !strings.Contains(got, n.toWire("a.b")) {
		t.Errorf("chosen %s", got)
	}
}
