package model

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// responsesParameters are the pack's parameters that OpenAI's Responses accept.
var responsesParameters = []string{"temperature", "top_p", "max_tokens", "reasoning_effort", "response_format", "tool_choice"}

// askResponses calls an endpoint that has the form of OpenAI's Responses.
func (e *Endpoint) askResponses(ctx context.Context, req *Request, tell *streamWriter) (*reply, *pawlv1.Usage, error) {
	body, err := e.responsesBody(req)
	if err != nil {
		return nil, nil, err
	}
	header := http.Header{}
	if e.Key != "" {
		header.Set("Authorization", "Bearer "+e.Key)
	}
	events, err := e.ask(ctx, req, "responses", header, body)
	if err != nil {
		return nil, nil, err
	}
	defer events.close()
	take := responsesAnswer{byteBudget: byteBudget{name: e.Name, limit: req.MaxAnswer}, stream: tell, usage: unreportedUsage()}
	for !take.completed && events.next() {
		if fault, ok := take.event(events.at); ok {
			return nil, take.usage, e.midAnswerFailure(fault)
		}
		// The method event has counted the bytes, so take gets no texts and only checks the limit.
		if err := take.take(); err != nil {
			return nil, take.usage, err
		}
	}
	if events.err != nil {
		return nil, take.usage, events.err
	}
	if !take.completed {
		return nil, take.usage, e.cutStreamFailure()
	}
	return take.whole(req), take.usage, nil
}

// responsesAnswer collects an answer of Responses from its events.
type responsesAnswer struct {
	byteBudget
	stream    *streamWriter
	answer    pawlv1.ModelAnswer
	usage     *pawlv1.Usage
	items     []gjson.Result
	completed bool
}

// event applies one event. If the event contains an error, it returns the error and true.
func (a *responsesAnswer) event(ev gjson.Result) (fault gjson.Result, failed bool) {
	response := ev.Get("response")
	switch textAt(ev, "type") {
	case "error":
		if inner := ev.Get("error"); inner.IsObject() {
			return inner, true
		}
		return ev, true
	case "response.created":
		a.answer.ResponseId, a.answer.Model = textAt(response, "id"), textAt(response, "model")
	case "response.output_text.delta", "response.refusal.delta":
		a.stream.writeText(textAt(ev, "delta"))
		a.used += int64(len(ev.Get("delta").Raw))
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		a.stream.writeThought(textAt(ev, "delta"))
		a.used += int64(len(ev.Get("delta").Raw))
	case "response.function_call_arguments.delta":
		a.used += int64(len(ev.Get("delta").Raw))
	case "response.output_item.done":
		a.items = append(a.items, ev.Get("item"))
	case "response.failed":
		a.counted(response)
		return response.Get("error"), true
	case "response.completed", "response.incomplete":
		a.end(response)
	}
	return gjson.Result{}, false
}

func (a *responsesAnswer) counted(response gjson.Result) {
	u := response.Get("usage")
	if !u.IsObject() {
		return
	}
	tokens := u.Get("output_tokens")
	a.usage = &pawlv1.Usage{
		InputTokens: u.Get("input_tokens").Int(), OutputTokens: tokens.Int(), Estimated: tokens.Type == gjson.Null,
		CachedTokens:    u.Get("input_tokens_details.cached_tokens").Int(),
		ReasoningTokens: u.Get("output_tokens_details.reasoning_tokens").Int(),
	}
}

// end applies the final response.
func (a *responsesAnswer) end(response gjson.Result) {
	a.completed = true
	a.counted(response)
	if id := textAt(response, "id"); id != "" {
		a.answer.ResponseId, a.answer.Model = id, textAt(response, "model")
	}
	if items := response.Get("output").Array(); len(items) > 0 {
		a.items = items
	}
	a.used = max(a.used, int64(len(response.Get("output").Raw)))
	switch reason := textAt(response, "incomplete_details.reason"); reason {
	case "":
		a.answer.FinishReason = "stop"
	case "max_output_tokens":
		a.answer.FinishReason = "length"
	default:
		a.answer.FinishReason = reason
	}
}

// whole returns the complete answer.
func (a *responsesAnswer) whole(req *Request) *reply {
	out := &reply{answer: &a.answer, seal: a.seal}
	for _, item := range a.items {
		switch textAt(item, "type") {
		case "message":
			for _, part := range item.Get("content").Array() {
				out.texts = append(out.texts, textAt(part, "text"))
				out.refusal += textAt(part, "refusal")
			}
		case "function_call":
			arguments := item.Get("arguments")
			written := textIn(arguments)
			if arguments.IsObject() || arguments.IsArray() {
				written = arguments.Raw
			}
			out.calls = append(out.calls, rawCall{id: textAt(item, "call_id"), name: req.wireNames().fromWire(textAt(item, "name")), arguments: written})
		}
	}
	if a.answer.GetFinishReason() == "stop" && len(out.calls) > 0 {
		a.answer.FinishReason = "tool_calls"
	}
	return out
}

// seal returns the answer as the list of items that is sent back. The provider stores no data, so items cannot be
// referenced by id. Reasoning is sent back with its encrypted content; reasoning without that content, and items of other
// types, are left out.
func (a *responsesAnswer) seal(_ []string, calls []*pawlv1.ModelCall, wired names) any {
	items := []any{}
	n := 0
	for _, item := range a.items {
		switch textAt(item, "type") {
		case "message":
			if content := messageContent(item, len(calls) > 0); content != nil {
				items = append(items, object{"type": "message", "role": "assistant", "content": content})
			}
		case "function_call":
			items = append(items, functionCall(calls[n].GetId(), wired.toWire(calls[n].GetName()), calls[n].GetArguments()))
			n++
		case "reasoning":
			if textAt(item, "encrypted_content") != "" {
				items = append(items, json.RawMessage(item.Raw))
			}
		}
	}
	return items
}

// messageContent returns the content of a message in the form in which it is sent back. It returns nil if the content is empty.
func messageContent(item gjson.Result, calls bool) (content []any) {
	for _, part := range item.Get("content").Array() {
		if text := wellFormed(textAt(part, "text")); keepsText(text, calls) {
			content = append(content, object{"type": "output_text", "text": text})
		}
		if refusal := wellFormed(textAt(part, "refusal")); refusal != "" {
			content = append(content, object{"type": "refusal", "refusal": refusal})
		}
	}
	return content
}

func functionCall(id, name, arguments string) object {
	return object{"type": "function_call", "call_id": wireID(id), "name": name, "arguments": arguments}
}

// responsesBody returns the request in the form of Responses.
func (e *Endpoint) responsesBody(req *Request) ([]byte, error) {
	body := object{"model": e.Model, "stream": true, "store": false, "include": []string{"reasoning.encrypted_content"}}
	for name, value := range req.Parameters {
		if !slices.Contains(responsesParameters, name) {
			return nil, e.unknownParameter(name, responsesParameters)
		}
		switch name {
		case "reasoning_effort":
			body["reasoning"] = object{"effort": value}
		case "response_format":
			body["text"] = object{"format": flatFormat(value)}
		case "temperature", "top_p":
			body[name] = value
		}
	}
	if req.MaxTokens > 0 {
		body["max_output_tokens"] = req.MaxTokens
	}
	if len(req.Tools) > 0 {
		body["tools"] = responsesTools(req)
		if choice, ok := req.Parameters["tool_choice"]; ok {
			body["tool_choice"] = flatChoice(req.wireNames().choice(choice))
		}
	}
	if strings.TrimSpace(req.System) != "" {
		body["instructions"] = req.System
	}
	conversation, err := answerEveryCall(req.Messages)
	if err != nil {
		return nil, err
	}
	input := []any{}
	for _, m := range conversation {
		items, err := responsesItems(m, req.wireNames())
		if err != nil {
			return nil, err
		}
		input = append(input, items...)
	}
	body["input"] = input
	return encodePlain(body), nil
}

// flatFormat converts a response_format of chat completions to the form of Responses.
func flatFormat(value json.RawMessage) any {
	format := parseUnambiguous(value)
	schema := format.Get("json_schema")
	if !schema.IsObject() {
		return value
	}
	out := object{"type": "json_schema"}
	schema.ForEach(func(key, v gjson.Result) bool {
		out[key.Str] = json.RawMessage(v.Raw)
		return true
	})
	return out
}

// flatChoice converts a tool_choice of chat completions to the form of Responses.
func flatChoice(value json.RawMessage) any {
	if name := textAt(parseUnambiguous(value), "function.name"); name != "" {
		return object{"type": "function", "name": name}
	}
	return value
}

func responsesTools(req *Request) (out []any) {
	for _, t := range req.Tools {
		out = append(out, object{
			"type": "function", "name": req.wireNames().toWire(t.Name), "description": t.Description, "parameters": t.schema(), "strict": false,
		})
	}
	return out
}

// responsesItems returns a message as items of the input. A recorded message is sent unchanged.
func responsesItems(m *pawlv1.Message, wired names) (items []any, err error) {
	switch m.GetRole() {
	case "tool":
		text, err := textsOf(m)
		return []any{object{"type": "function_call_output", "call_id": wireID(m.GetToolCallId()), "output": text}}, err
	case "assistant":
		if raw := recordedMessage(Responses, m); raw != nil {
			for _, item := range parseUnambiguous(raw).Array() {
				items = append(items, json.RawMessage(item.Raw))
			}
			return items, nil
		}
	}
	content, err := responsesContent(m)
	if err != nil {
		return nil, err
	}
	if len(content) > 0 {
		items = append(items, object{"type": "message", "role": m.GetRole(), "content": content})
	}
	calls, err := callsOf(m)
	for _, c := range calls {
		arguments, _ := normalArguments(c.Arguments)
		items = append(items, functionCall(c.ID, wired.toWire(c.Name), arguments))
	}
	return items, err
}

// responsesContent returns the parts of a message as content of OpenAI's Responses.
func responsesContent(m *pawlv1.Message) (content []any, err error) {
	kind := "input_text"
	if m.GetRole() == "assistant" {
		kind = "output_text"
	}
	for i, p := range m.GetParts() {
		if text, ok := textOf(p); ok {
			if strings.TrimSpace(text) != "" {
				content = append(content, object{"type": kind, "text": text})
			}
			continue
		}
		part := responsesPart(p)
		if part == nil || m.GetRole() != "user" {
			return nil, unsupported(m, i)
		}
		content = append(content, part)
	}
	if m.GetRefusal() != "" {
		content = append(content, object{"type": "refusal", "refusal": m.GetRefusal()})
	}
	return content, nil
}

// responsesPart returns a part that is not a text in the form of Responses. It returns nil if this form has none.
func responsesPart(p *pawlv1.Part) object {
	part := chatPart(p)
	switch part["type"] {
	case "image_url":
		image, _ := part["image_url"].(object)
		return object{"type": "input_image", "image_url": image["url"]}
	case "file":
		file, _ := part["file"].(object)
		return object{"type": "input_file", "filename": file["filename"], "file_data": file["file_data"]}
	}
	return nil
}
