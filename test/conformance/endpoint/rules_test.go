package endpoint

import (
	"encoding/json"
	"strings"
	"testing"
)

// chat is a request of that form with a user's message before the others.
func chat(messages ...string) string {
	return `{"stream": true, "messages": [{"role": "user", "content": "Tulips."}, ` + strings.Join(messages, ", ") + `]}`
}

func anthropic(messages ...string) string {
	return `{"stream": true, "max_tokens": 10, "messages": [` + strings.Join(messages, ", ") + `]}`
}

func items(all ...string) string {
	return `{"stream": true, "input": [` + strings.Join(all, ", ") + `]}`
}

const (
	user       = `{"role": "user", "content": "Tulips."}`
	called     = `{"role": "assistant", "tool_calls": [{"id": "call_a", "type": "function", "function": {"name": "order", "arguments": "{}"}}]}`
	result     = `{"role": "tool", "tool_call_id": "call_a", "content": "ok"}`
	used       = `{"role": "assistant", "content": [{"type": "tool_use", "id": "call_a", "name": "order", "input": {}}]}`
	used2      = `{"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, {"type": "redacted_thinking", "data": "b3Bh"}, {"type": "tool_use", "id": "call_a", "name": "order", "input": {}}]}`
	useResult  = `{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_a", "content": "ok"}]}`
	pausedText = `{"role": "assistant", "content": [{"type": "text", "text": "Searching"}]}`
	itemCall   = `{"type": "function_call", "call_id": "call_a", "name": "order", "arguments": "{}"}`
	itemResult = `{"type": "function_call_output", "call_id": "call_a", "output": "ok"}`
	thought    = `{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ZW5j"}`
)

// scripted is a case that made the call call_a with everything that has to come back.
var scripted = &Case{Rounds: []*Round{{Parts: []Part{
	{Reasoning: new("Hm."), Signature: "c2ln"},
	{Redacted: "b3Bh"},
	{Call: "order", ID: "call_a", Extra: `{"extra_content": {"google": {"thought_signature": "c2ln"}}}`},
}}, {Finish: "pause_turn", Parts: []Part{{Text: new("Searching")}}}}}

// Each rule takes a sound request and refuses, with these words, one that is not.
func TestRules(t *testing.T) {
	refusing := map[string]bool{}
	for _, test := range []struct {
		rule, body string
		// refused are words of the refusal; "": it is taken.
		refused string
	}{
		{"pairs", chat(called, result, user), ""},
		{"pairs", chat(called), "must be followed by tool messages"},
		{"pairs", chat(called, user), "must be followed by tool messages"},
		{"pairs", chat(called, result, result), "answers no open call"},
		{"pairs", chat(result), "must be a response to a preceding message"},
		{"unique", chat(called, result), ""},
		{"unique", chat(called, result, called, result), "not unique"},
		{"unique", chat(strings.Replace(called, `"call_a"`, `""`, 1)), "is empty or not unique"},
		{"args", chat(called), ""},
		{"args", chat(strings.Replace(called, `"{}"`, `""`, 1)), "no JSON object"},
		{"args", chat(strings.Replace(called, `"{}"`, `"{\"a\""`, 1)), "no JSON object"},
		{"args", chat(strings.Replace(called, `"{}"`, `"null"`, 1)), "no JSON object"},
		{"args", chat(strings.Replace(called, `"{}"`, `{}`, 1)), "no JSON object"},
		{"nonempty", chat(called, result, `{"role": "assistant", "content": "Yes."}`), ""},
		{"nonempty", chat(`{"role": "assistant", "content": ""}`), "must have non-empty content"},
		{"nonempty", chat(`{"role": "assistant", "content": []}`), "must have non-empty content"},
		{"nonempty", chat(`{"role": "assistant", "content": null}`), "must have non-empty content"},
		{"signature", chat(strings.Replace(called, `"type"`, `"extra_content": {"google": {"thought_signature": "c2ln"}}, "type"`, 1)), ""},
		{"signature", chat(strings.Replace(called, `"type"`, `"extra_content": {"google": {"thought_signature": "other"}}, "type"`, 1)), "missing a thought_signature"},
		{"signature", chat(called), "missing a thought_signature"},
		{"reasoning", chat(strings.Replace(called, `"role"`, `"reasoning_content": "Hm.", "role"`, 1)), ""},
		{"reasoning", chat(strings.Replace(called, `"role"`, `"reasoning_content": "Ha.", "role"`, 1)), "must be passed back"},
		{"reasoning", chat(called), "must be passed back"},
		{"reasoning", chat(strings.Replace(called, "call_a", "call_b", 1)), "was never made"},
		{"thoughtid", chat(called, result), ""},
		{"thoughtid", chat(strings.Replace(called, "call_a", "call_b", 1)), "was never sent"},
		{"thoughtid", chat(called, strings.Replace(result, "call_a", "call_b", 1)), "was never sent"},
		{"toolname", `{"stream": true, "tools": [{"type": "function", "function": {"name": "stock_count-2"}}]}`, ""},
		{"toolname", `{"stream": true, "tools": [{"type": "function", "function": {"name": "stock.count"}}]}`, "does not match pattern"},
		{"toolname", `{"stream": true, "tools": [{"name": "` + strings.Repeat("x", 65) + `"}]}`, "does not match pattern"},
		{"messages", anthropic(user, used, useResult), ""},
		{"messages", anthropic(used, useResult), "first message must use"},
		{"messages", strings.Replace(anthropic(user), `"max_tokens": 10, `, "", 1), "max_tokens: Field required"},
		{"messages", anthropic(user, `{"role": "assistant", "content": []}`, user), "must have non-empty content"},
		{"messages", anthropic(user, `{"role": "assistant", "content": [{"type": "text", "text": ""}]}`, user), "must be non-empty"},
		{"messages", anthropic(user, `{"role": "assistant", "content": [{"type": "text", "text": "\n"}]}`, user), "non-whitespace"},
		{"messages", anthropic(user, used, useResult, used, useResult), "ids must be unique"},
		{"messages", anthropic(user, strings.ReplaceAll(used, "call_a", "call.a"), strings.ReplaceAll(useResult, "call_a", "call.a")), "should match pattern"},
		{"messages", anthropic(user, strings.Replace(used, `"input": {}`, `"input": "{}"`, 1), useResult), "valid dictionary"},
		{"messages", anthropic(user, used), "without `tool_result`"},
		{"messages", anthropic(user, used, user), "without `tool_result`"},
		{"messages", anthropic(user, useResult), "unexpected `tool_use_id`"},
		{"messages", anthropic(user, used, strings.Replace(useResult, `{"type"`, `{"type": "tool_result", "tool_use_id": "call_a"}, {"type"`, 1)), "a single result"},
		{"messages", anthropic(user, `{"role": "assistant", "content": "Yes. "}`), "trailing whitespace"},
		{"thinking", anthropic(user, used2, useResult), ""},
		{"thinking", anthropic(user, used, useResult), "Expected `thinking`"},
		{"thinking", anthropic(user, strings.Replace(used2, "c2ln", "other", 1), useResult), "cannot be modified"},
		{"thinking", anthropic(user, strings.Replace(used2, "b3Bh", "other", 1), useResult), "cannot be modified"},
		{"thinking", anthropic(user, strings.Replace(used2, "Hm.", "Ha.", 1), useResult), "cannot be modified"},
		{"thinking", anthropic(user, strings.Replace(used2, "call_a", "call_b", 1), useResult), "was never made"},
		{"paused", anthropic(user, pausedText), ""},
		{"paused", anthropic(user, pausedText, used, useResult), ""},
		{"paused", anthropic(user, pausedText, user), "follows an answer that was paused"},
		{"responses", items(thought, itemCall, itemResult), ""},
		{"responses", items(thought, `{"role": "assistant", "content": "Yes."}`), ""},
		{"responses", items(itemCall), "No tool output found"},
		{"responses", items(itemResult), "No tool call found"},
		{"responses", items(itemCall, itemCall, itemResult), "empty or not unique"},
		{"responses", items(strings.Replace(itemCall, `"{}"`, `"{\"a"`, 1), itemResult), "no JSON object"},
		{"responses", items(thought), "required following item"},
		{"responses", items(thought, `{"role": "user", "content": "Go on."}`), "required following item"},
		{"responses", items(strings.Replace(thought, `"ZW5j"`, "null", 1), itemCall, itemResult), "are not persisted"},
	} {
		var body map[string]any
		if err := json.Unmarshal([]byte(test.body), &body); err != nil {
			t.Fatalf("%s: %v: %s", test.rule, err, test.body)
		}
		scripted.Rules = []string{test.rule}
		refusing[test.rule] = refusing[test.rule] || test.refused != ""
		got := findBreach(scripted, body)
		if (test.refused == "") != (got == "") || !strings.Contains(got, test.refused) {
			t.Errorf("%s: %s\nwant %q, got %q", test.rule, test.body, test.refused, got)
		}
	}
	for name := range rules {
		if !refusing[name] {
			t.Errorf("no request here is refused by %s", name)
		}
	}
}

// A request for an answer in one piece is refused, by cases without rules as well.
func TestStreamsAlone(t *testing.T) {
	if got := findBreach(&Case{}, map[string]any{"stream": false}); !strings.Contains(got, "stream") {
		t.Errorf("got %q", got)
	}
}
