package model

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// object is a JSON object on its way out.
type object = map[string]any

// chatParameters are those of a pack that chat completions take, by the same names.
var chatParameters = []string{
	"temperature", "top_p", chatLimit, "seed", "stop", "frequency_penalty", "presence_penalty", "reasoning_effort", "response_format", "tool_choice",
}

// askChat asks an endpoint of chat completions.
func (e *Endpoint) askChat(ctx context.Context, req *Request, told func(string)) (*pawlv1.ModelAnswer, *pawlv1.Usage, error) {
	events, err := e.beginChat(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	defer events.close()
	take := chatAnswer{room: room{name: e.Name, limit: req.MaxAnswer}, told: told, usage: unheard()}
	for events.next() {
		if fault := events.at.Get("error"); fault.Type != gjson.Null {
			return nil, take.usage, e.broken(fault)
		}
		if err := take.chunk(events.at); err != nil {
			return nil, take.usage, err
		}
	}
	if events.err != nil {
		return nil, take.usage, events.err
	}
	if take.answer.GetFinishReason() == "" {
		return nil, take.usage, e.cut()
	}
	return take.whole(), take.usage, nil
}

// beginChat sends a request, and sends it again where the endpoint asks for the bound of the
// answer by its other name: what it refuses it does not make.
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

// cut says that a stream ended before its answer did.
func (e *Endpoint) cut() *Failure {
	return &Failure{Code: CodeCut, Message: "model " + e.Name + ": the stream ended in the midst of the answer"}
}

// broken is a fault that an endpoint tells of in the midst of its answer.
func (e *Endpoint) broken(fault gjson.Result) *Failure {
	said := textAt(fault, "message")
	if said == "" {
		said = fault.String()
	}
	return &Failure{Code: CodeCut, Message: "model " + e.Name + ": the endpoint broke off its answer: " + e.told(said)}
}

// chatAnswer is an answer as its pieces come in.
type chatAnswer struct {
	room
	told    func(string)
	answer  pawlv1.ModelAnswer
	usage   *pawlv1.Usage
	text    strings.Builder
	refusal strings.Builder
	// open are the calls that pieces are of, by their index; calls are all of them.
	open  map[int64]*chatCall
	calls []*chatCall
}

type chatCall struct {
	index     int64
	id, name  string
	arguments strings.Builder
}

func (a *chatAnswer) chunk(c gjson.Result) error {
	if u := c.Get("usage"); u.IsObject() {
		said := u.Get("completion_tokens")
		a.usage = &pawlv1.Usage{
			InputTokens: u.Get("prompt_tokens").Int(), OutputTokens: said.Int(), Estimated: said.Type == gjson.Null,
			CachedTokens:    u.Get("prompt_tokens_details.cached_tokens").Int(),
			ReasoningTokens: u.Get("completion_tokens_details.reasoning_tokens").Int(),
		}
	}
	if id := textAt(c, "id"); id != "" {
		a.answer.ResponseId, a.answer.Model = id, textAt(c, "model")
	}
	choice := c.Get("choices.0")
	if reason := textAt(choice, "finish_reason"); reason != "" {
		a.answer.FinishReason = reason
	}
	text, refusal := textAt(choice, "delta.content"), textAt(choice, "delta.refusal")
	a.text.WriteString(text)
	a.refusal.WriteString(refusal)
	if text != "" {
		a.told(text)
	}
	if pieces := choice.Get("delta.tool_calls"); pieces.IsArray() {
		for _, piece := range pieces.Array() {
			if err := a.call(piece); err != nil {
				return err
			}
		}
	}
	return a.take(text, refusal)
}

// call takes a piece of a tool call. Another id under the same index is another call: some
// endpoints give all of them the index 0.
func (a *chatAnswer) call(piece gjson.Result) error {
	index, id := piece.Get("index").Int(), textAt(piece, "id")
	c := a.open[index]
	if c == nil || id != "" && c.id != "" && id != c.id {
		if len(a.calls) == maxCalls {
			return &Failure{Code: CodeTooLarge, Final: true, Message: "model " + a.name + ": the answer has more than 256 tool calls"}
		}
		c = &chatCall{index: index}
		if a.open == nil {
			a.open = make(map[int64]*chatCall)
		}
		a.open[index] = c
		a.calls = append(a.calls, c)
	}
	if id != "" {
		c.id = id
	}
	name, arguments := textAt(piece, "function.name"), textAt(piece, "function.arguments")
	c.name += name
	c.arguments.WriteString(arguments)
	return a.take(arguments, name)
}

// maxName bounds names and ids, as the contract does.
const maxName = 256

// whole is the answer once it is over.
func (a *chatAnswer) whole() *pawlv1.ModelAnswer {
	out := &a.answer
	out.Refusal = a.refusal.String()
	if a.text.Len() > 0 {
		out.Parts = []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: a.text.String()}}}
	}
	slices.SortStableFunc(a.calls, func(x, y *chatCall) int { return cmp.Compare(x.index, y.index) })
	for _, c := range a.calls {
		out.Calls = append(out.Calls, &pawlv1.ModelCall{Id: c.id, Name: c.name, Arguments: c.arguments.String()})
	}
	return out
}

// chatBody is the request as chat completions have it; limit is the name of the answer's bound.
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
		body["tools"] = chatTools(req.Tools)
	}
	messages := []any{}
	if req.System != "" {
		messages = append(messages, object{"role": "system", "content": req.System})
	}
	conversation, err := whole(req.Messages)
	if err != nil {
		return nil, err
	}
	for _, m := range conversation {
		wire, err := chatMessage(m)
		if err != nil {
			return nil, err
		}
		messages = append(messages, wire)
	}
	body["messages"] = messages
	return json.Marshal(body)
}

// unknownParameter refuses a parameter by its name.
func (e *Endpoint) unknownParameter(name string, known []string) error {
	return &Failure{
		Code: CodeParameter, Final: true,
		Message: "model " + e.Name + ": parameters." + name + " is none that its endpoint takes: " + strings.Join(known, ", "),
	}
}

// anything is the schema of a tool that declares none.
var anything = json.RawMessage(`{"type":"object","properties":{}}`)

func chatTools(tools []Tool) (out []any) {
	for _, t := range tools {
		schema := t.Parameters
		if len(schema) == 0 {
			schema = anything
		}
		out = append(out, object{"type": "function", "function": object{"name": t.Name, "description": t.Description, "parameters": schema}})
	}
	return out
}

// chatMessage is a message as chat completions have it.
func chatMessage(m *pawlv1.Message) (object, error) {
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
	if len(calls) == 0 {
		return wire, err
	}
	if content == "" {
		wire["content"] = nil
	}
	var out []any
	for _, c := range calls {
		out = append(out, object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": c.Arguments}})
	}
	wire["tool_calls"] = out
	return wire, nil
}

// chatContent is a text where all parts are, else a list.
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

// audioForms are the audio that chat completions take.
var audioForms = map[string]string{"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}

// chatPart is a part as chat completions have it; nil: they have none like it.
func chatPart(p *pawlv1.Part) object {
	if text, ok := textOf(p); ok {
		return object{"type": "text", "text": text}
	}
	media, data := mediaOf(p), p.GetData()
	url := fetchable(p)
	if data != nil {
		url = "data:" + media + ";base64," + encoded(p)
	}
	switch {
	case strings.HasPrefix(media, "image/") && url != "":
		return object{"type": "image_url", "image_url": object{"url": url}}
	case data != nil && audioForms[media] != "":
		return object{"type": "input_audio", "input_audio": object{"data": encoded(p), "format": audioForms[media]}}
	case data != nil && media == "application/pdf":
		name := p.GetFilename()
		if name == "" {
			name = "document.pdf"
		}
		return object{"type": "file", "file": object{"filename": name, "file_data": url}}
	}
	return nil
}
