package model

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// reply is a complete answer of an endpoint.
type reply struct {
	rawAnswer
	answer *pawlv1.ModelAnswer
	// seal returns the answer as a message for later requests, in the endpoint's form. It uses the normalized texts
	// and calls.
	seal func(texts []string, calls []*pawlv1.ModelCall, wired names) any
}

// chatAnswer collects an answer of chat completions from its pieces.
type chatAnswer struct {
	byteBudget
	stream  *streamWriter
	answer  pawlv1.ModelAnswer
	usage   *pawlv1.Usage
	content []*contentPart
	// listed reports whether the content arrived as a list of parts.
	listed  bool
	refusal strings.Builder
	// keptFields are further fields of the message that the endpoint needs in the next request.
	keptFields map[string]*keptField
	// open are the calls that further pieces may belong to, by their index. calls are all calls.
	open  map[int64]*chatCall
	calls []*chatCall
}

// contentPart is a text, or a piece of the model's reasoning.
type contentPart struct {
	thinking bool
	text     strings.Builder
}

// chatCall is a tool call that is collected from its pieces.
type chatCall struct {
	index     int64
	id, name  string
	arguments strings.Builder
	extra     map[string]json.RawMessage
}

// keptFields are the message fields that endpoints need in the next request. Other fields must not be sent back: OpenAI, for example,
// refuses its own annotations.
var keptFields = []string{"reasoning_content", "reasoning", "reasoning_details", "extra_content", "thinking_blocks", "provider_specific_fields", "thought_signature", "reasoning_opaque"}

// reasoningFields are the fields that contain the model's reasoning as text.
var reasoningFields = []string{"reasoning_content", "reasoning"}

// keptField collects one of the keptFields from its pieces. Texts and lists are joined. For other values the last piece is the value.
type keptField struct {
	text strings.Builder
	list []json.RawMessage
	raw  json.RawMessage
}

// take adds a piece to the field.
func (k *keptField) take(v gjson.Result) {
	switch {
	case v.Type == gjson.String:
		k.text.WriteString(unquoteJSON(v.Raw))
	case v.IsArray():
		for _, item := range v.Array() {
			k.list = append(k.list, json.RawMessage(item.Raw))
		}
	default:
		k.raw = json.RawMessage(v.Raw)
	}
}

// value returns the complete value of the field.
func (k *keptField) value() any {
	switch {
	case k.raw != nil:
		return k.raw
	case k.list != nil:
		return k.list
	}
	return wellFormed(k.text.String())
}

// chunk adds one event of the stream: usage, id, finish reason, and the pieces of the message.
func (a *chatAnswer) chunk(c gjson.Result) error {
	if u := c.Get("usage"); u.IsObject() {
		tokens := u.Get("completion_tokens")
		a.usage = &pawlv1.Usage{
			InputTokens: u.Get("prompt_tokens").Int(), OutputTokens: tokens.Int(), Estimated: tokens.Type == gjson.Null,
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
	delta := choice.Get("delta")
	if err := a.collectFields(delta); err != nil {
		return err
	}
	refusal := textAt(delta, "refusal")
	a.refusal.WriteString(refusal)
	if err := a.take(refusal); err != nil {
		return err
	}
	if err := a.contents(delta.Get("content")); err != nil {
		return err
	}
	if pieces := delta.Get("tool_calls"); pieces.IsArray() {
		for _, piece := range pieces.Array() {
			if err := a.call(piece); err != nil {
				return err
			}
		}
	}
	return nil
}

// collectFields collects the keptFields of a piece. Some endpoints send the same reasoning under two names.
func (a *chatAnswer) collectFields(delta gjson.Result) error {
	thought := false
	for _, name := range keptFields {
		v := delta.Get(name)
		if v.Type == gjson.Null || v.Type == gjson.String && v.Str == "" {
			continue
		}
		if a.keptFields == nil {
			a.keptFields = map[string]*keptField{}
		}
		if a.keptFields[name] == nil {
			a.keptFields[name] = &keptField{}
		}
		a.keptFields[name].take(v)
		if v.Type == gjson.String && !thought && slices.Contains(reasoningFields, name) {
			thought = true
			a.stream.writeThought(unquoteJSON(v.Raw))
		}
		if err := a.take(v.Raw); err != nil {
			return err
		}
	}
	return nil
}

// contents adds the content of a piece, which is a text or a list of parts. Parts that are neither text nor reasoning are
// dropped.
func (a *chatAnswer) contents(v gjson.Result) error {
	if !v.IsArray() {
		return a.text(textIn(v), false)
	}
	a.listed = true
	for _, part := range v.Array() {
		var err error
		switch textAt(part, "type") {
		case "text":
			err = a.text(textAt(part, "text"), false)
		case "thinking":
			err = a.text(textsIn(part.Get("thinking")), true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// textsIn returns the text of a value. The value is a text, or a list of parts with texts.
func textsIn(v gjson.Result) string {
	if !v.IsArray() {
		return textIn(v)
	}
	var out strings.Builder
	for _, part := range v.Array() {
		out.WriteString(textAt(part, "text"))
	}
	return out.String()
}

// text adds a piece of text, or of reasoning if thinking is set, and streams it.
func (a *chatAnswer) text(s string, thinking bool) error {
	if s == "" {
		return nil
	}
	if n := len(a.content); n == 0 || a.content[n-1].thinking != thinking {
		a.content = append(a.content, &contentPart{thinking: thinking})
	}
	a.content[len(a.content)-1].text.WriteString(s)
	if thinking {
		a.stream.writeThought(s)
	} else {
		a.stream.writeText(s)
	}
	return a.take(s)
}

// call adds a piece of a tool call.
func (a *chatAnswer) call(piece gjson.Result) error {
	c, err := a.callOf(piece)
	if err != nil {
		return err
	}
	c.id = cmp.Or(c.id, textAt(piece, "id"))
	name, arguments := textAt(piece, "function.name"), piece.Get("function.arguments")
	written := textIn(arguments)
	if arguments.IsObject() || arguments.IsArray() {
		written = arguments.Raw // some endpoints send arguments as an object
	}
	c.name += name
	c.arguments.WriteString(written)
	extra := 0
	piece.ForEach(func(key, value gjson.Result) bool {
		if !slices.Contains([]string{"index", "id", "type", "function"}, key.Str) && value.Type != gjson.Null {
			if c.extra == nil {
				c.extra = map[string]json.RawMessage{}
			}
			c.extra[key.Str] = json.RawMessage(value.Raw)
			extra += len(value.Raw)
		}
		return true
	})
	a.used += int64(extra)
	return a.take(written, name)
}

// callOf returns the call that a piece belongs to. A different id under the same index is a different call, because some endpoints give
// all calls the index 0 and some give none. Without an index and an id, a name begins the next call.
func (a *chatAnswer) callOf(piece gjson.Result) (*chatCall, error) {
	at := piece.Get("index")
	index, id := at.Int(), textAt(piece, "id")
	c := a.open[index]
	begins := c == nil || id != "" && c.id != "" && id != c.id
	if at.Type == gjson.Null && id == "" && c != nil && textAt(piece, "function.name") != "" {
		begins = true
	}
	if !begins {
		return c, nil
	}
	if len(a.calls) == maxCalls {
		return nil, tooManyCalls(a.name)
	}
	c = &chatCall{index: index}
	if a.open == nil {
		a.open = make(map[int64]*chatCall)
	}
	a.open[index] = c
	a.calls = append(a.calls, c)
	return c, nil
}

// completeReply returns the complete answer.
func (a *chatAnswer) completeReply(req *Request) *reply {
	out := &reply{answer: &a.answer, seal: a.toRequestForm}
	out.refusal = a.refusal.String()
	for _, part := range a.content {
		if !part.thinking {
			out.texts = append(out.texts, part.text.String())
		}
	}
	slices.SortStableFunc(a.calls, func(x, y *chatCall) int { return cmp.Compare(x.index, y.index) })
	for _, c := range a.calls {
		out.calls = append(out.calls, rawCall{id: c.id, name: req.wireNames().fromWire(c.name), arguments: c.arguments.String()})
	}
	return out
}

// toRequestForm returns the answer as a message for later requests, in the form of chat completions.
func (a *chatAnswer) toRequestForm(texts []string, calls []*pawlv1.ModelCall, wired names) any {
	wire := object{"role": "assistant", "content": nil}
	switch {
	case a.listed:
		wire["content"] = a.list(len(calls) > 0)
	case len(texts) > 0:
		wire["content"] = strings.Join(texts, "")
	}
	if refusal := wellFormed(a.refusal.String()); refusal != "" {
		wire["refusal"] = refusal
	}
	for name, field := range a.keptFields {
		wire[name] = field.value()
	}
	var out []any
	for i, c := range calls {
		call := chatCallOf(c.GetId(), wired.toWire(c.GetName()), c.GetArguments())
		for _, name := range slices.Sorted(maps.Keys(a.calls[i].extra)) {
			call[name] = a.calls[i].extra[name]
		}
		out = append(out, call)
	}
	if out != nil {
		wire["tool_calls"] = out
	}
	return wire
}

// list returns the content of the answer as a list of parts, for an endpoint that sent it as such a list.
func (a *chatAnswer) list(calls bool) any {
	var out []any
	for _, part := range a.content {
		text := wellFormed(part.text.String())
		switch {
		case part.thinking:
			out = append(out, object{"type": "thinking", "thinking": []any{object{"type": "text", "text": text}}})
		case keepsText(text, calls):
			out = append(out, object{"type": "text", "text": text})
		}
	}
	if out == nil {
		return nil
	}
	return out
}
