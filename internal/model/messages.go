package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// messagesParameters are those of a pack that Anthropic's messages take.
var messagesParameters = []string{"temperature", "top_p", "top_k", "max_tokens", "stop", "thinking", "tool_choice"}

// defaultMaxTokens is asked for where a pack does not say: the endpoint wants a number.
const defaultMaxTokens = 8192

// askMessages asks an endpoint of Anthropic's messages.
func (e *Endpoint) askMessages(ctx context.Context, req *Request, told func(string)) (*pawlv1.ModelAnswer, *pawlv1.Usage, error) {
	body, err := e.messagesBody(req)
	if err != nil {
		return nil, nil, err
	}
	opts := []option.RequestOption{
		option.WithBaseURL(e.URL), option.WithHTTPClient(e.client(req)), option.WithMaxRetries(0), option.WithRequestTimeout(e.Timeout),
	}
	if e.Key != "" {
		opts = append(opts, option.WithAPIKey(e.Key))
	}
	// The service, not the client: that one takes settings from the environment.
	service := anthropic.NewMessageService(opts...)
	stream := service.NewStreaming(ctx, param.Override[anthropic.MessageNewParams](json.RawMessage(body)))
	defer stream.Close()
	take := messagesAnswer{room: room{name: e.Name, limit: req.MaxAnswer}, told: told}
	for stream.Next() {
		if err := take.event(stream.Current()); err != nil {
			return nil, take.consumed(), err
		}
	}
	if err := stream.Err(); err != nil {
		return nil, take.consumed(), e.messagesFault(err)
	}
	if !take.stopped {
		return nil, take.consumed(), e.cut()
	}
	return take.whole(), take.consumed(), nil
}

// messagesFault is what the package's error says.
func (e *Endpoint) messagesFault(err error) error {
	status, ok := errors.AsType[*anthropic.Error](err)
	if !ok {
		return err
	}
	var said struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal([]byte(status.RawJSON()), &said) // no JSON: nothing is told
	if status.StatusCode < 400 {
		return &Failure{Code: CodeCut, Message: "model " + e.Name + ": " + e.told(said.Error.Message)}
	}
	f := e.refused(status.StatusCode, nil, said.Error.Message)
	if status.Response != nil {
		f.RetryAfter = retryAfter(status.Response.Header)
	}
	return f
}

// messagesAnswer is an answer as its pieces come in.
type messagesAnswer struct {
	room
	told    func(string)
	answer  pawlv1.ModelAnswer
	usage   pawlv1.Usage
	counted bool
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

func (a *messagesAnswer) event(ev anthropic.MessageStreamEventUnion) error {
	switch ev.Type {
	case "message_start":
		u := ev.Message.Usage
		a.counted = true
		a.usage.CachedTokens = u.CacheReadInputTokens
		a.usage.InputTokens = u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens
		a.usage.OutputTokens = u.OutputTokens
		a.answer.ResponseId, a.answer.Model = ev.Message.ID, ev.Message.Model
	case "message_delta":
		a.usage.OutputTokens = ev.Usage.OutputTokens
		a.usage.ReasoningTokens = ev.Usage.OutputTokensDetails.ThinkingTokens
		a.answer.FinishReason = finishOf(string(ev.Delta.StopReason))
	case "message_stop":
		a.stopped = true
	case "content_block_start":
		return a.begin(ev)
	case "content_block_delta":
		return a.delta(ev)
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

func (a *messagesAnswer) begin(ev anthropic.MessageStreamEventUnion) error {
	if ev.Index != int64(len(a.blocks)) || len(a.blocks) == maxBlocks {
		return errors.New("a block of content is out of order")
	}
	b := &block{kind: ev.ContentBlock.Type, id: ev.ContentBlock.ID, name: ev.ContentBlock.Name, raw: json.RawMessage(ev.ContentBlock.RawJSON())}
	b.text.WriteString(ev.ContentBlock.Text)
	if ev.ContentBlock.Text != "" {
		a.told(ev.ContentBlock.Text)
	}
	a.blocks = append(a.blocks, b)
	return a.take(ev.ContentBlock.RawJSON())
}

func (a *messagesAnswer) delta(ev anthropic.MessageStreamEventUnion) error {
	if ev.Index < 0 || ev.Index >= int64(len(a.blocks)) {
		return errors.New("a piece of content is of no block")
	}
	b, d := a.blocks[ev.Index], ev.Delta
	b.text.WriteString(d.Text)
	b.text.WriteString(d.PartialJSON)
	b.text.WriteString(d.Thinking)
	b.signature.WriteString(d.Signature)
	if d.Text != "" {
		a.told(d.Text)
	}
	return a.take(d.Text, d.PartialJSON, d.Thinking, d.Signature)
}

// consumed is what was consumed; nil: the endpoint did not say.
func (a *messagesAnswer) consumed() *pawlv1.Usage {
	if !a.counted {
		return nil
	}
	return &a.usage
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
	body := object{"model": e.Model, "max_tokens": defaultMaxTokens, "stream": true}
	for name, value := range req.Parameters {
		switch {
		case !slices.Contains(messagesParameters, name):
			return nil, e.unknownParameter(name, messagesParameters)
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
	if json.Unmarshal(value, &word) != nil {
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
	var input map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &input) != nil || input == nil {
		return object{"malformed": arguments}
	}
	return json.RawMessage(arguments)
}

// keptBlocks are the blocks that go back as they came.
func keptBlocks(provider string) (content []any) {
	var kept struct {
		Anthropic []json.RawMessage `json:"anthropic"`
	}
	if provider == "" || json.Unmarshal([]byte(provider), &kept) != nil {
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
