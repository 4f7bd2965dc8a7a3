package model

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// messagesParameters are the pack's parameters that Anthropic's messages accept.
var messagesParameters = []string{"temperature", "top_p", "top_k", "max_tokens", "stop", "thinking", "tool_choice", "response_format"}

// defaultMaxTokens bounds an answer if the pack sets no bound, because the endpoint requires one.
const defaultMaxTokens = 8192

// messagesVersion is the version of Anthropic's API that is used.
const messagesVersion = "2023-06-01"

// askMessages calls an endpoint that has the form of Anthropic's messages.
func (e *Endpoint) askMessages(ctx context.Context, req *Request, tell *streamWriter) (*reply, *pawlv1.Usage, error) {
	body, err := e.messagesBody(req)
	if err != nil {
		return nil, nil, err
	}
	header := http.Header{"Anthropic-Version": {messagesVersion}}
	if e.Key != "" {
		header.Set("X-Api-Key", e.Key)
	}
	events, err := e.ask(ctx, req, "v1/messages", header, body)
	if err != nil {
		return nil, nil, err
	}
	defer events.close()
	take := messagesAnswer{byteBudget: byteBudget{name: e.Name, limit: req.MaxAnswer}, stream: tell, usage: unreportedUsage()}
	for events.next() {
		if textAt(events.at, "type") == "error" {
			return nil, take.usage, e.midAnswerFailure(events.at.Get("error"))
		}
		if err := take.event(events.at); err != nil {
			return nil, take.usage, err
		}
	}
	if events.err != nil {
		return nil, take.usage, events.err
	}
	if !take.stopped {
		return nil, take.usage, e.cutStreamFailure()
	}
	return take.whole(req), take.usage, nil
}

// messagesAnswer collects an answer of Anthropic's messages from its pieces.
type messagesAnswer struct {
	byteBudget
	stream  *streamWriter
	answer  pawlv1.ModelAnswer
	usage   *pawlv1.Usage
	stopped bool
	blocks  []*block
}

// block is a content block: a text, a tool call or reasoning.
type block struct {
	kind, id, name string
	// raw is the content with which the block began.
	raw             json.RawMessage
	text, signature strings.Builder
}

// maxBlocks bounds the blocks of an answer.
const maxBlocks = 1024

// event applies one event. The number of output tokens arrives with the last events.
func (a *messagesAnswer) event(ev gjson.Result) error {
	switch textAt(ev, "type") {
	case "message_start":
		u := ev.Get("message.usage")
		a.usage.OutputTokens = u.Get("output_tokens").Int()
		a.read(u)
		a.answer.ResponseId, a.answer.Model = textAt(ev, "message.id"), textAt(ev, "message.model")
	case "message_delta":
		tokens := ev.Get("usage.output_tokens")
		if u := ev.Get("usage"); u.Get("input_tokens").Int() > 0 || u.Get("cache_read_input_tokens").Int() > 0 {
			a.read(u) // the newest count includes all earlier ones
		}
		a.usage.OutputTokens, a.usage.Estimated = max(a.usage.GetOutputTokens(), tokens.Int()), tokens.Type == gjson.Null
		a.usage.ReasoningTokens = ev.Get("usage.output_tokens_details.thinking_tokens").Int()
		a.answer.FinishReason = finishOf(textAt(ev, "delta.stop_reason"))
	case "message_stop":
		a.stopped = true
	case "content_block_start":
		return a.begin(ev.Get("index").Int(), ev.Get("content_block"))
	case "content_block_delta":
		return a.delta(ev.Get("index").Int(), ev.Get("delta"))
	}
	return nil
}

// read reads the number of input tokens.
func (a *messagesAnswer) read(u gjson.Result) {
	a.usage.CachedTokens = u.Get("cache_read_input_tokens").Int()
	a.usage.InputTokens = u.Get("input_tokens").Int() + a.usage.GetCachedTokens() + u.Get("cache_creation_input_tokens").Int()
}

// finishOf returns the recorded finish reason for a stop reason.
func finishOf(reason string) string {
	switch reason {
	case "end_turn", "stop_sequence":
		return "stop"
	case "tool_use":
		return "tool_calls"
	case "max_tokens", "model_context_window_exceeded":
		return "length"
	case "refusal":
		return "content_filter"
	}
	return reason
}

func (a *messagesAnswer) begin(index int64, began gjson.Result) error {
	if index != int64(len(a.blocks)) || len(a.blocks) == maxBlocks || !began.IsObject() {
		return errors.New("a block of content is out of order")
	}
	b := &block{kind: textAt(began, "type"), id: textAt(began, "id"), name: textAt(began, "name"), raw: json.RawMessage(began.Raw)}
	text := textAt(began, "text")
	b.text.WriteString(text)
	a.stream.writeText(text)
	a.blocks = append(a.blocks, b)
	return a.take(began.Raw)
}

func (a *messagesAnswer) delta(index int64, d gjson.Result) error {
	if index < 0 || index >= int64(len(a.blocks)) {
		return errors.New("a piece of content is of no block")
	}
	b, text, signature := a.blocks[index], textAt(d, "text"), textAt(d, "signature")
	pieces := []string{text, textAt(d, "partial_json"), textAt(d, "thinking")}
	for _, s := range pieces {
		b.text.WriteString(s)
	}
	b.signature.WriteString(signature)
	a.stream.writeText(text)
	a.stream.writeThought(pieces[2])
	return a.take(append(pieces, signature)...)
}

// whole returns the complete answer.
func (a *messagesAnswer) whole(req *Request) *reply {
	out := &reply{answer: &a.answer, seal: a.seal}
	for _, b := range a.blocks {
		switch b.kind {
		case "text":
			out.texts = append(out.texts, b.text.String())
		case "tool_use":
			out.calls = append(out.calls, rawCall{id: b.id, name: req.wireNames().fromWire(b.name), arguments: b.arguments()})
		}
	}
	return out
}

// seal returns the message in the form in which it is sent back. Reasoning blocks and unknown blocks are unchanged.
func (a *messagesAnswer) seal(_ []string, calls []*pawlv1.ModelCall, wired names) any {
	content := []any{}
	n := 0
	for _, b := range a.blocks {
		switch text := wellFormed(b.text.String()); b.kind {
		case "text":
			if keepsText(text, len(calls) > 0) {
				content = append(content, object{"type": "text", "text": text})
			}
		case "tool_use":
			content = append(content, toolUse(calls[n].GetId(), wired.toWire(calls[n].GetName()), calls[n].GetArguments()))
			n++
		case "thinking":
			content = append(content, object{"type": "thinking", "thinking": text, "signature": wellFormed(b.signature.String())})
		default:
			content = append(content, b.withInput(text))
		}
	}
	return object{"role": "assistant", "content": content}
}

// withInput returns a content block of an unknown kind as the endpoint sent it, with the input that arrived in pieces.
func (b *block) withInput(input string) any {
	if _, err := strictjson.Object([]byte(input)); err != nil {
		return b.raw
	}
	var fields map[string]json.RawMessage
	if strictjson.Decode(b.raw, &fields, strictjson.Foreign) != nil {
		return b.raw
	}
	fields["input"] = json.RawMessage(input)
	return fields
}

func toolUse(id, name, arguments string) object {
	return object{"type": "tool_use", "id": wireID(id), "name": name, "input": json.RawMessage(arguments)}
}

// arguments returns the joined pieces of the input. If there are none, it returns the input with which the block began.
func (b *block) arguments() string {
	if b.text.Len() == 0 {
		if input := parseUnambiguous(b.raw).Get("input"); input.Exists() {
			return input.Raw
		}
	}
	return b.text.String()
}

// messagesBody returns the request in the form of Anthropic's messages.
func (e *Endpoint) messagesBody(req *Request) ([]byte, error) {
	body := object{"model": e.Model, "max_tokens": cmp.Or(req.MaxTokens, defaultMaxTokens), "stream": true}
	for name, value := range req.Parameters {
		switch {
		case !slices.Contains(messagesParameters, name):
			return nil, e.unknownParameter(name, messagesParameters)
		case name == "max_tokens": // the body has req.MaxTokens already
		case name == "stop":
			body["stop_sequences"] = asList(value)
		case name == "response_format":
			body["output_config"] = object{"format": messagesFormat(value)}
		case name == "tool_choice":
			body[name] = messagesChoice(value, req.wireNames())
		default:
			body[name] = value
		}
	}
	if len(req.Tools) == 0 {
		delete(body, "tool_choice")
	} else {
		body["tools"] = messagesTools(req)
	}
	conversation, err := answerEveryCall(req.Messages)
	if err != nil {
		return nil, err
	}
	system := []string{}
	if req.System != "" {
		system = append(system, req.System)
	}
	wire := []object{}
	for _, m := range conversation {
		if m.GetRole() == "system" {
			text, err := textsOf(m)
			if err != nil {
				return nil, err
			}
			system = append(system, text)
			continue
		}
		if wire, err = addMessage(wire, m, req.wireNames()); err != nil {
			return nil, err
		}
	}
	body["messages"] = wire
	if len(system) > 0 {
		body["system"] = strings.Join(system, "\n\n")
	}
	return encodePlain(body), nil
}

// messagesFormat converts a response_format of chat completions to Anthropic's form.
func messagesFormat(value json.RawMessage) any {
	if schema := parseUnambiguous(value).Get("json_schema.schema"); schema.IsObject() {
		return object{"type": "json_schema", "schema": json.RawMessage(schema.Raw)}
	}
	return value
}

// asList returns a list with the value as its only element, or the value if it is a list.
func asList(value json.RawMessage) json.RawMessage {
	if v := bytes.TrimSpace(value); len(v) > 0 && v[0] != '[' {
		return json.RawMessage("[" + string(v) + "]")
	}
	return value
}

// messagesChoice converts a tool_choice that is a word to Anthropic's form. In an object it only replaces the names of
// tools.
func messagesChoice(value json.RawMessage, wired names) any {
	var choice string
	if strictjson.Decode(value, &choice, strictjson.Closed) != nil {
		return wired.choice(value)
	}
	if choice == "required" {
		choice = "any"
	}
	return object{"type": choice}
}

func messagesTools(req *Request) (out []any) {
	for _, t := range req.Tools {
		tool := object{"name": req.wireNames().toWire(t.Name), "input_schema": t.schema()}
		if t.Description != "" {
			tool["description"] = t.Description
		}
		out = append(out, tool)
	}
	return out
}

// addMessage adds a message. Consecutive messages with the same role become one message, because the endpoint requires this. A recorded
// message is sent unchanged.
func addMessage(wire []object, m *pawlv1.Message, wired names) ([]object, error) {
	role, content, err := messagesContent(m, wired)
	if err != nil || len(content) == 0 {
		return wire, err
	}
	if n := len(wire); n > 0 && wire[n-1]["role"] == role {
		before, _ := wire[n-1]["content"].([]any)
		wire[n-1]["content"] = append(before, content...)
		return wire, nil
	}
	return append(wire, object{"role": role, "content": content}), nil
}

// messagesContent returns a message's role and blocks.
func messagesContent(m *pawlv1.Message, wired names) (role string, content []any, err error) {
	if m.GetRole() == "tool" {
		text, err := textsOf(m)
		return "user", []any{object{"type": "tool_result", "tool_use_id": wireID(m.GetToolCallId()), "content": text}}, err
	}
	if m.GetRole() == "assistant" {
		if raw := recordedMessage(Messages, m); raw != nil {
			for _, block := range parseUnambiguous(raw).Get("content").Array() {
				content = append(content, json.RawMessage(block.Raw))
			}
			return "assistant", content, nil
		}
	}
	for i, p := range m.GetParts() {
		part := messagesPart(p)
		if part == nil || m.GetRole() != "user" && part["type"] != "text" {
			return "", nil, unsupported(m, i)
		}
		if text, ok := part["text"].(string); !ok || strings.TrimSpace(text) != "" { // the endpoint refuses blank texts
			content = append(content, part)
		}
	}
	if m.GetRefusal() != "" && len(m.GetParts()) == 0 {
		content = append(content, object{"type": "text", "text": m.GetRefusal()})
	}
	calls, err := callsOf(m)
	for _, c := range calls {
		arguments, _ := normalArguments(c.Arguments)
		content = append(content, toolUse(c.ID, wired.toWire(c.Name), arguments))
	}
	return m.GetRole(), content, err
}

// messagesPart returns a part in the form of Anthropic's messages. It returns nil if this form has none.
func messagesPart(p *pawlv1.Part) object {
	if text, ok := textOf(p); ok {
		return object{"type": "text", "text": text}
	}
	media := mediaOf(p)
	kind := "document"
	switch {
	case strings.HasPrefix(media, "image/"):
		kind = "image"
	case media != "application/pdf":
		return nil
	}
	if p.GetData() != nil {
		return object{"type": kind, "source": object{"type": "base64", "media_type": media, "data": base64Data(p)}}
	}
	if url := fetchable(p); strings.HasPrefix(url, "http") {
		return object{"type": kind, "source": object{"type": "url", "url": url}}
	}
	return nil
}
