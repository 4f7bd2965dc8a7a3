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

// object is a JSON object that is sent to an endpoint.
type object = map[string]any

// chatParameters are the pack's parameters that chat completions accept under the same names.
var chatParameters = []string{
	"temperature", "top_p", chatLimit, "seed", "stop", "frequency_penalty", "presence_penalty", "reasoning_effort", "response_format", "tool_choice",
}

// askChat calls an endpoint that has the form of chat completions.
func (e *Endpoint) askChat(ctx context.Context, req *Request, tell *streamWriter) (*reply, *pawlv1.Usage, error) {
	events, err := e.beginChat(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	defer events.close()
	take := chatAnswer{byteBudget: byteBudget{name: e.Name, limit: req.MaxAnswer}, stream: tell, usage: unreportedUsage()}
	for events.next() {
		if fault := events.at.Get("error"); fault.Type != gjson.Null {
			return nil, take.usage, e.midAnswerFailure(fault)
		}
		if err := take.chunk(events.at); err != nil {
			return nil, take.usage, err
		}
	}
	if events.err != nil {
		return nil, take.usage, events.err
	}
	// An endpoint that sends the end of the stream has sent the whole answer, even if there is no finish reason.
	if take.answer.GetFinishReason() == "" && !events.ended {
		return nil, take.usage, e.cutStreamFailure()
	}
	return take.completeReply(req), take.usage, nil
}

// beginChat sends a request. If the endpoint asks for the other name of the parameter that bounds the answer,
// beginChat sends the request again. This is safe because the endpoint does not execute a refused request.
func (e *Endpoint) beginChat(ctx context.Context, req *Request) (*eventStream, error) {
	name := e.limitName()
	events, err := e.sendChat(ctx, req, name)
	if !wantsOther(err, name) {
		return events, err
	}
	if events, err = e.sendChat(ctx, req, chatLimitOfOpenAI); err == nil && e.newer != nil {
		e.newer.Store(true)
	}
	return events, err
}

func (e *Endpoint) sendChat(ctx context.Context, req *Request, limit string) (*eventStream, error) {
	body, err := e.chatBody(req, limit)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	if e.Key != "" {
		header.Set("Authorization", "Bearer "+e.Key)
	}
	return e.ask(ctx, req, "chat/completions", header, body)
}

// chatBody returns the request in the form of chat completions. limit is the name of the parameter that bounds the answer.
func (e *Endpoint) chatBody(req *Request, limit string) ([]byte, error) {
	body := object{"model": e.Model, "stream": true, "stream_options": object{"include_usage": true}}
	for name, value := range req.Parameters {
		if !slices.Contains(chatParameters, name) {
			return nil, e.unknownParameter(name, chatParameters)
		}
		if name != chatLimit {
			body[name] = value
		}
	}
	if req.MaxTokens > 0 {
		body[limit] = req.MaxTokens
	}
	if len(req.Tools) == 0 {
		delete(body, "tool_choice")
	} else {
		body["tools"] = chatTools(req)
		if choice, ok := req.Parameters["tool_choice"]; ok {
			body["tool_choice"] = req.wireNames().choice(choice)
		}
	}
	messages := []any{}
	if req.System != "" {
		messages = append(messages, object{"role": "system", "content": req.System})
	}
	conversation, err := answerEveryCall(req.Messages)
	if err != nil {
		return nil, err
	}
	for _, m := range conversation {
		wire, err := chatMessage(m, req.wireNames())
		if err != nil {
			return nil, err
		}
		if wire != nil {
			messages = append(messages, wire)
		}
	}
	body["messages"] = messages
	return encodePlain(body), nil
}

// unknownParameter returns the error for an unknown parameter, with its name.
func (e *Endpoint) unknownParameter(name string, known []string) error {
	return &Failure{
		Code: CodeParameter, Final: true,
		Message: "model " + e.Name + ": parameters." + name + " is none that its endpoint takes: " + strings.Join(known, ", "),
	}
}

// anyObjectSchema is the schema for a tool that declares no schema.
var anyObjectSchema = json.RawMessage(`{"type":"object","properties":{}}`)

func chatTools(req *Request) (out []any) {
	for _, t := range req.Tools {
		out = append(out, object{"type": "function", "function": object{
			"name": req.wireNames().toWire(t.Name), "description": t.Description, "parameters": t.schema(),
		}})
	}
	return out
}

// schema returns the schema of the tool's parameters.
func (t *Tool) schema() json.RawMessage {
	if len(t.Parameters) == 0 {
		return anyObjectSchema
	}
	return t.Parameters
}

// chatMessage returns a message in the form of chat completions. It returns nil for an empty message, which endpoints refuse.
func chatMessage(m *pawlv1.Message, wired names) (any, error) {
	if raw := recordedMessage(Chat, m); raw != nil && m.GetRole() == "assistant" {
		return raw, nil
	}
	content, err := chatContent(m)
	if err != nil {
		return nil, err
	}
	wire := object{"role": m.GetRole(), "content": content}
	if m.GetToolCallId() != "" {
		wire["tool_call_id"] = m.GetToolCallId()
	}
	if m.GetRefusal() != "" {
		wire["refusal"] = m.GetRefusal()
	}
	calls, err := callsOf(m)
	if err != nil {
		return nil, err
	}
	if text, ok := content.(string); ok && strings.TrimSpace(text) == "" && m.GetRole() != "tool" {
		if len(calls) == 0 && m.GetRefusal() == "" {
			return nil, nil
		}
		wire["content"] = nil
	}
	var out []any
	for _, c := range calls {
		arguments, _ := normalArguments(c.Arguments)
		out = append(out, chatCallOf(c.ID, wired.toWire(c.Name), arguments))
	}
	if out != nil {
		wire["tool_calls"] = out
	}
	return wire, nil
}

func chatCallOf(id, name, arguments string) object {
	return object{"id": id, "type": "function", "function": object{"name": name, "arguments": arguments}}
}

// chatContent returns the content of a message: a text if all parts are texts, else a list.
func chatContent(m *pawlv1.Message) (any, error) {
	text, err := textsOf(m)
	if err == nil {
		return text, nil
	}
	var list []any
	for i, p := range m.GetParts() {
		part := chatPart(p)
		if part == nil || m.GetRole() != "user" && part["type"] != "text" {
			return nil, unsupported(m, i)
		}
		list = append(list, part)
	}
	return list, nil
}

// audioForms are the audio formats that chat completions accept.
var audioForms = map[string]string{"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}

// chatPart returns a part in the form of chat completions. It returns nil if this form has none.
func chatPart(p *pawlv1.Part) object {
	if text, ok := textOf(p); ok {
		return object{"type": "text", "text": text}
	}
	media, data := mediaOf(p), p.GetData()
	url := fetchable(p)
	if data != nil {
		url = "data:" + media + ";base64," + base64Data(p)
	}
	switch {
	case strings.HasPrefix(media, "image/") && url != "":
		return object{"type": "image_url", "image_url": object{"url": url}}
	case data != nil && audioForms[media] != "":
		return object{"type": "input_audio", "input_audio": object{"data": base64Data(p), "format": audioForms[media]}}
	case data != nil && media == "application/pdf":
		name := p.GetFilename()
		if name == "" {
			name = "document.pdf"
		}
		return object{"type": "file", "file": object{"filename": name, "file_data": url}}
	}
	return nil
}
