package model

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/ssestream"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// object is a JSON object on its way out.
type object = map[string]any

// chatParameters are those of a pack that chat completions take, by the same names.
var chatParameters = []string{
	"temperature", "top_p", "max_tokens", "seed", "stop", "frequency_penalty", "presence_penalty", "reasoning_effort", "response_format", "tool_choice",
}

// askChat asks an endpoint of chat completions.
func (e *Endpoint) askChat(ctx context.Context, req *Request, told func(string)) (*pawlv1.ModelAnswer, *pawlv1.Usage, error) {
	body, err := e.chatBody(req)
	if err != nil {
		return nil, nil, err
	}
	opts := []option.RequestOption{
		option.WithBaseURL(e.URL), option.WithHTTPClient(e.client(req)), option.WithMaxRetries(0),
	}
	if e.Key != "" {
		opts = append(opts, option.WithAPIKey(e.Key))
	}
	// The service, not the client: that one takes settings from the environment.
	service := openai.NewChatCompletionService(opts...)
	stream := service.NewStreaming(ctx, param.Override[openai.ChatCompletionNewParams](json.RawMessage(body)))
	defer stream.Close()
	take := chatAnswer{room: room{name: e.Name, limit: req.MaxAnswer}, told: told}
	for stream.Next() {
		if err := take.chunk(stream.Current()); err != nil {
			return nil, take.usage, err
		}
	}
	if err := stream.Err(); err != nil {
		return nil, take.usage, e.chatFault(err)
	}
	if take.answer.GetFinishReason() == "" {
		return nil, take.usage, e.cut()
	}
	return take.whole(), take.usage, nil
}

// cut says that a stream ended before its answer did.
func (e *Endpoint) cut() *Failure {
	return &Failure{Code: CodeCut, Message: "model " + e.Name + ": the stream ended in the midst of the answer"}
}

// chatFault is what the package's error says.
func (e *Endpoint) chatFault(err error) error {
	if status, ok := errors.AsType[*openai.Error](err); ok {
		f := e.refused(status.StatusCode, nil, status.Message)
		if status.Response != nil {
			f.RetryAfter = retryAfter(status.Response.Header)
		}
		return f
	}
	if told, ok := errors.AsType[*ssestream.StreamError](err); ok {
		return &Failure{Code: CodeCut, Message: "model " + e.Name + ": " + e.told(told.Message)}
	}
	return err
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

func (a *chatAnswer) chunk(c openai.ChatCompletionChunk) error {
	if c.JSON.Usage.Valid() {
		a.usage = &pawlv1.Usage{
			InputTokens: c.Usage.PromptTokens, OutputTokens: c.Usage.CompletionTokens,
			CachedTokens:    c.Usage.PromptTokensDetails.CachedTokens,
			ReasoningTokens: c.Usage.CompletionTokensDetails.ReasoningTokens,
		}
	}
	if c.ID != "" {
		a.answer.ResponseId, a.answer.Model = c.ID, c.Model
	}
	if len(c.Choices) == 0 {
		return nil
	}
	choice := c.Choices[0]
	if choice.FinishReason != "" {
		a.answer.FinishReason = choice.FinishReason
	}
	a.text.WriteString(choice.Delta.Content)
	a.refusal.WriteString(choice.Delta.Refusal)
	if choice.Delta.Content != "" {
		a.told(choice.Delta.Content)
	}
	for _, piece := range choice.Delta.ToolCalls {
		if err := a.call(piece); err != nil {
			return err
		}
	}
	return a.take(choice.Delta.Content, choice.Delta.Refusal)
}

// call takes a piece of a tool call. Another id under the same index is another call: some
// endpoints give all of them the index 0.
func (a *chatAnswer) call(piece openai.ChatCompletionChunkChoiceDeltaToolCall) error {
	c := a.open[piece.Index]
	if c == nil || piece.ID != "" && c.id != "" && piece.ID != c.id {
		if len(a.calls) == maxCalls {
			return &Failure{Code: CodeTooLarge, Final: true, Message: "model " + a.name + ": the answer has more than 256 tool calls"}
		}
		c = &chatCall{index: piece.Index}
		if a.open == nil {
			a.open = make(map[int64]*chatCall)
		}
		a.open[piece.Index] = c
		a.calls = append(a.calls, c)
	}
	if piece.ID != "" {
		c.id = piece.ID
	}
	c.name += piece.Function.Name
	c.arguments.WriteString(piece.Function.Arguments)
	return a.take(piece.Function.Arguments, piece.Function.Name)
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

// chatBody is the request as chat completions have it.
func (e *Endpoint) chatBody(req *Request) ([]byte, error) {
	body := object{"model": e.Model, "stream": true, "stream_options": object{"include_usage": true}}
	for name, value := range req.Parameters {
		if !slices.Contains(chatParameters, name) {
			return nil, e.unknownParameter(name, chatParameters)
		}
		body[name] = value
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
