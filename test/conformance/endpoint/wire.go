package endpoint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
)

type object = map[string]any

// stream collects the events of a response.
type stream struct {
	out      bytes.Buffer
	oddLines bool
}

// send adds an event; name "" is none.
func (s *stream) send(name, data string) {
	if name != "" {
		s.line("event:", name)
	}
	s.line("data:", data)
	s.end()
}

func (s *stream) line(field, value string) {
	s.out.WriteString(field)
	if !s.oddLines {
		s.out.WriteByte(' ')
	}
	s.out.WriteString(value)
	s.newline()
}

// end ends an event; an odd stream has a comment behind it, as of proxies that keep a connection open.
func (s *stream) end() {
	s.newline()
	if s.oddLines {
		s.out.WriteString(": PROCESSING")
		s.newline()
		s.newline()
	}
}

func (s *stream) newline() {
	if s.oddLines {
		s.out.WriteByte('\r')
	}
	s.out.WriteByte('\n')
}

// text is a value as JSON, with no letter escaped that need not be.
func text(v any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v) // of values that were read from JSON or are texts
	return strings.TrimSuffix(out.String(), "\n")
}

// raw is JSON as it is in a value.
func raw(text string) json.RawMessage { return json.RawMessage(text) }

// body is the response of a round.
func (r *Round) body(form Form) []byte {
	if r.Raw != "" {
		return []byte(r.Raw)
	}
	s := &stream{oddLines: r.Odd}
	if r.Odd {
		s.out.WriteString("\ufeff: warming up")
		s.newline()
		s.newline()
	}
	switch form {
	case Chat:
		r.chat(s)
	case Messages:
		r.messages(s)
	case Responses:
		r.responses(s)
	}
	return s.out.Bytes()
}

// splitText are a text as it streams.
func splitText(text string) []string {
	var all []string
	for len(text) > pieceBytes {
		all = append(all, text[:pieceBytes])
		text = text[pieceBytes:]
	}
	return append(all, text)
}

// chunk is one of chat completions, around a choice without its braces' first.
func chunk(rest string) string {
	return `{"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "m", ` + rest + `}`
}

func choice(delta, finish string) string {
	return chunk(`"choices": [{"index": 0, "delta": ` + delta + `, "finish_reason": ` + finish + `}]`)
}

const usualChatUsage = `{"prompt_tokens": 50, "completion_tokens": 5, "total_tokens": 55}`

// chat writes a round as chat completions.
func (r *Round) chat(s *stream) {
	for _, event := range r.Stream {
		s.send("", chatEvent(event))
	}
	if len(r.Stream) == 0 {
		s.send("", choice(`{"role": "assistant", "content": null}`, "null"))
		r.chatParts(s)
	}
	if r.Error != "" {
		s.send("", r.Error)
		return
	}
	if r.Cut || r.Unended {
		return
	}
	if len(r.Stream) == 0 {
		if r.Finish != none {
			s.send("", choice("{}", text(cmp.Or(r.Finish, r.usualFinish("stop", "tool_calls")))))
		}
		if r.Usage != none {
			s.send("", chunk(`"choices": [], "usage": `+cmp.Or(r.Usage, usualChatUsage)))
		}
	}
	s.send("", "[DONE]")
}

// usualFinish is the word for an answer without and with calls.
func (r *Round) usualFinish(without, with string) string {
	if len(r.called()) > 0 {
		return with
	}
	return without
}

// chatEvent is an event of a case, in full.
func chatEvent(event string) string {
	var short struct {
		Delta  json.RawMessage `json:"delta"`
		Finish json.RawMessage `json:"finish_reason"`
		Usage  json.RawMessage `json:"usage"`
		Full   json.RawMessage `json:"choices"`
	}
	if json.Unmarshal([]byte(event), &short) != nil || short.Full != nil {
		return event
	}
	usage := ""
	if short.Usage != nil {
		usage = `, "usage": ` + string(short.Usage)
	}
	switch {
	case short.Delta != nil:
		finish := string(short.Finish)
		return chunk(`"choices": [{"index": 0, "delta": ` + string(short.Delta) + `, "finish_reason": ` + cmp.Or(finish, "null") + `}]` + usage)
	case short.Usage != nil:
		return chunk(`"choices": []` + usage)
	}
	return event
}

func (r *Round) chatParts(s *stream) {
	calls := 0
	for _, p := range r.Parts {
		switch {
		case p.Text != nil:
			for _, piece := range splitText(*p.Text) {
				s.send("", choice(text(object{"content": piece}), "null"))
			}
		case p.Reasoning != nil:
			s.send("", choice(text(object{"reasoning_content": *p.Reasoning}), "null"))
		case p.Call != "":
			chatCall(s, p, calls)
			calls++
		case p.Event != "":
			s.send("", chatEvent(p.Event))
		}
	}
}

// chatCall writes a call, a long one in pieces.
func chatCall(s *stream, p Part, index int) {
	call := object{"index": index, "type": "function"}
	function := object{"name": p.Call}
	var rest []string
	if p.Arguments != nil {
		all := splitText(*p.Arguments)
		function["arguments"], rest = all[0], all[1:]
	}
	call["function"] = function
	if p.ID != "" {
		call["id"] = p.ID
	}
	if p.Extra != "" {
		var extra map[string]json.RawMessage
		_ = json.Unmarshal([]byte(p.Extra), &extra) // checked when it was read
		for name, value := range extra {
			call[name] = value
		}
	}
	s.send("", choice(text(object{"tool_calls": []any{call}}), "null"))
	for _, piece := range rest {
		s.send("", choice(text(object{"tool_calls": []any{object{"index": index, "function": object{"arguments": piece}}}}), "null"))
	}
}
