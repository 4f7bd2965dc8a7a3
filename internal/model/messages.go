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

// messagesParameters are those of a pack that Anthropic's messages take.
var messagesParameters = []string{"temperature", "top_p", "top_k", "max_tokens", "stop", "thinking", "tool_choice"}

// defaultMaxTokens is asked for where a pack does not say: the endpoint wants a number.
const defaultMaxTokens = 8192

// messagesVersion is the version of Anthropic's contract that is spoken.
const messagesVersion = "2023-06-01"

// askMessages asks an endpoint of Anthropic's messages.
func (e *Endpoint) askMessages(ctx context.Context, req *Request, told func(string)) (*pawlv1.ModelAnswer, *pawlv1.Usage, error) {
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
	take := messagesAnswer{room: room{name: e.Name, limit: req.MaxAnswer}, told: told, usage: unheard()}
	for events.next() {
		if textAt(events.at, "type") == "error" {
			return nil, take.usage, e.broken(events.at.Get("error"))
		}
		if err := take.event(events.at); err != nil {
			return nil, take.usage, err
		}
	}
	if events.err != nil {
		return nil, take.usage, events.err
	}
	if !take.stopped {
		return nil, take.usage, e.cut()
	}
	return take.whole(), take.usage, nil
}

// messagesAnswer is an answer as its pieces come in.
type messagesAnswer struct {
	room
	told    func(string)
	answer  pawlv1.ModelAnswer
	usage   *pawlv1.Usage
	stopped bool
	blocks  []*block
}

// block is a content block: of a text, a tool call or a thought.
type block struct {
	kind, id, name string
	// raw is the block as it began, where it is kept as it is.
	raw             json.RawMessage
	text, signature strings.Builder
}

// maxBlocks bounds the blocks of an answer.
const maxBlocks = 1024

// event takes one event. How much was written is told with the end.
func (a *messagesAnswer) event(ev gjson.Result) error {
	switch textAt(ev, "type") {
	case "message_start":
		u := ev.Get("message.usage")
		cached := u.Get("cache_read_input_tokens").Int()
		a.usage.CachedTokens = cached
		a.usage.OutputTokens = u.Get("output_tokens").Int()
		a.usage.InputTokens = u.Get("input_tokens").Int() + cached + u.Get("cache_creation_input_tokens").Int()
		a.answer.ResponseId, a.answer.Model = textAt(ev, "message.id"), textAt(ev, "message.model")
	case "message_delta":
		said := ev.Get("usage.output_tokens")
		a.usage.OutputTokens, a.usage.Estimated = max(a.usage.GetOutputTokens(), said.Int()), said.Type == gjson.Null
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

// finishOf is a reason to stop in the record's words.
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
	if text != "" {
		a.told(text)
	}
	a.blocks = append(a.blocks, b)
	return a.take(began.Raw)
}

func (a *messagesAnswer) delta(index int64, d gjson.Result) error {
	if index < 0 || index >= int64(len(a.blocks)) {
		return errors.New("a piece of content is of no block")
	}
	b, text, signature := a.blocks[index], textAt(d, "text"), textAt(d, "signature")
	said := []string{text, textAt(d, "partial_json"), textAt(d, "thinking")}
	for _, s := range said {
		b.text.WriteString(s)
	}
	b.signature.WriteString(signature)
	if text != "" {
		a.told(text)
	}
	return a.take(append(said, signature)...)
}

// whole is the answer once it is over. Blocks of thought go back as they came.
func (a *messagesAnswer) whole() *pawlv1.ModelAnswer {
	out := &a.answer
	var kept []any
	for _, b := range a.blocks {
		switch b.kind {
		case "text":
			out.Parts = append(out.Parts, &pawlv1.Part{Content: &pawlv1.Part_Text{Text: b.text.String()}})
		case "tool_use":
			out.Calls = append(out.Calls, &pawlv1.ModelCall{Id: b.id, Name: b.name, Arguments: b.arguments()})
		case "thinking":
			kept = append(kept, object{"type": "thinking", "thinking": b.text.String(), "signature": b.signature.String()})
		case "redacted_thinking":
			kept = append(kept, b.raw)
		}
	}
	if kept != nil {
		raw, _ := json.Marshal(object{"anthropic": kept}) // of texts and of JSON that was read
		out.ProviderJson = string(raw)
	}
	return out
}

func (b *block) arguments() string {
	if b.text.Len() == 0 {
		return "{}"
	}
	return b.text.String()
}

// messagesBody is the request as Anthropic's messages have it.
func (e *Endpoint) messagesBody(req *Request) ([]byte, error) {
	body := object{"model": e.Model, "max_tokens": cmp.Or(req.MaxTokens, defaultMaxTokens), "stream": true}
	for name, value := range req.Parameters {
		switch {
		case !slices.Contains(messagesParameters, name):
			return nil, e.unknownParameter(name, messagesParameters)
		case name == "max_tokens":
		case name == "stop":
			body["stop_sequences"] = listed(value)
		case name == "tool_choice":
			body[name] = messagesChoice(value)
		default:
			body[name] = value
		}
	}
	if len(req.Tools) == 0 {
		delete(body, "tool_choice")
	} else {
		body["tools"] = messagesTools(req.Tools)
	}
	conversation, err := whole(req.Messages)
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
		if wire, err = addMessage(wire, m); err != nil {
			return nil, err
		}
	}
	body["messages"] = wire
	if len(system) > 0 {
		body["system"] = strings.Join(system, "\n\n")
	}
	return json.Marshal(body)
}

// listed is a value as a list of it.
func listed(value json.RawMessage) json.RawMessage {
	if v := bytes.TrimSpace(value); len(v) > 0 && v[0] != '[' {
		return json.RawMessage("[" + string(v) + "]")
	}
	return value
}

// messagesChoice is a tool_choice in Anthropic's words.
func messagesChoice(value json.RawMessage) any {
	var word string
	if strictjson.Decode(value, &word, strictjson.Closed) != nil {
		return value
	}
	if word == "required" {
		word = "any"
	}
	return object{"type": word}
}

func messagesTools(tools []Tool) (out []any) {
	for _, t := range tools {
		schema := t.Parameters
		if len(schema) == 0 {
			schema = anything
		}
		tool := object{"name": t.Name, "input_schema": schema}
		if t.Description != "" {
			tool["description"] = t.Description
		}
		out = append(out, tool)
	}
	return out
}

// addMessage adds a message; neighbours of one role become one, as the endpoint wants it.
func addMessage(wire []object, m *pawlv1.Message) ([]object, error) {
	role, content, err := messagesContent(m)
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

// messagesContent is a message's role and blocks.
func messagesContent(m *pawlv1.Message) (role string, content []any, err error) {
	if m.GetRole() == "tool" {
		text, err := textsOf(m)
		return "user", []any{object{"type": "tool_result", "tool_use_id": m.GetToolCallId(), "content": text}}, err
	}
	if m.GetRole() == "assistant" {
		content = keptBlocks(m.GetProviderJson())
	}
	for i, p := range m.GetParts() {
		part := messagesPart(p)
		if part == nil || m.GetRole() != "user" && part["type"] != "text" {
			return "", nil, unsupported(m, i)
		}
		if part["text"] != "" { // the endpoint refuses empty ones
			content = append(content, part)
		}
	}
	if m.GetRefusal() != "" && len(m.GetParts()) == 0 {
		content = append(content, object{"type": "text", "text": m.GetRefusal()})
	}
	calls, err := callsOf(m)
	for _, c := range calls {
		content = append(content, object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": inputOf(c.Arguments)})
	}
	return m.GetRole(), content, err
}

// inputOf is a call's arguments as an object: what is none goes back as what it was.
func inputOf(arguments string) any {
	if _, err := strictjson.Object([]byte(arguments)); err != nil {
		return object{"malformed": arguments}
	}
	return json.RawMessage(arguments)
}

// keptBlocks are the blocks that go back as they came.
func keptBlocks(provider string) (content []any) {
	var kept struct {
		Anthropic []json.RawMessage `json:"anthropic"`
	}
	if provider == "" || strictjson.Decode([]byte(provider), &kept, strictjson.Foreign) != nil {
		return nil
	}
	for _, raw := range kept.Anthropic {
		content = append(content, raw)
	}
	return content
}

// messagesPart is a part as Anthropic's messages have it; nil: they have none like it.
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
		return object{"type": kind, "source": object{"type": "base64", "media_type": media, "data": encoded(p)}}
	}
	if url := fetchable(p); strings.HasPrefix(url, "http") {
		return object{"type": kind, "source": object{"type": "url", "url": url}}
	}
	return nil
}
