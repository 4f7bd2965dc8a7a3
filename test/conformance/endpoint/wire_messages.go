package endpoint

import (
	"cmp"
	"encoding/json"
)

const (
	startedMessage = `{"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", ` +
		`"content": [], "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 50, "output_tokens": 1}}}`
	usualMessagesUsage = `{"input_tokens": 50, "output_tokens": 5}`
)

// messages writes a round as Anthropic's messages.
func (r *Round) messages(s *stream) {
	for _, event := range r.Stream {
		typed(s, event)
	}
	if len(r.Stream) > 0 {
		return
	}
	typed(s, startedMessage)
	index := 0
	for _, p := range r.Parts {
		if p.Event != "" {
			typed(s, p.Event)
			continue
		}
		block(s, p, index)
		index++
	}
	if r.Error != "" {
		typed(s, r.Error)
		return
	}
	if r.Cut || r.Unended {
		return
	}
	finish := text(cmp.Or(r.Finish, r.usualFinish("end_turn", "tool_use")))
	typed(s, `{"type": "message_delta", "delta": {"stop_reason": `+finish+`, "stop_sequence": null}, "usage": `+cmp.Or(r.Usage, usualMessagesUsage)+`}`)
	typed(s, `{"type": "message_stop"}`)
}

// typed sends an event by the name that its own type is.
func typed(s *stream, event string) {
	var of struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal([]byte(event), &of) // no JSON has no type
	s.send(of.Type, event)
}

// block writes one content block.
func block(s *stream, p Part, index int) {
	start, deltas := blockOf(p)
	typed(s, text(object{"type": "content_block_start", "index": index, "content_block": start}))
	for _, delta := range deltas {
		typed(s, text(object{"type": "content_block_delta", "index": index, "delta": delta}))
	}
	typed(s, text(object{"type": "content_block_stop", "index": index}))
}

func blockOf(p Part) (start any, deltas []object) {
	switch {
	case p.Text != nil:
		if *p.Text != "" {
			deltas = append(deltas, object{"type": "text_delta", "text": *p.Text})
		}
		return object{"type": "text", "text": ""}, deltas
	case p.Reasoning != nil:
		return object{"type": "thinking", "thinking": "", "signature": ""}, []object{
			{"type": "thinking_delta", "thinking": *p.Reasoning}, {"type": "signature_delta", "signature": p.Signature},
		}
	case p.Redacted != "":
		return object{"type": "redacted_thinking", "data": p.Redacted}, nil
	case p.Block != "":
		return raw(p.Block), nil
	}
	// Anthropic begins with a piece that is empty.
	deltas = []object{{"type": "input_json_delta", "partial_json": ""}}
	if p.Arguments != nil {
		for _, piece := range inSmall(*p.Arguments) {
			deltas = append(deltas, object{"type": "input_json_delta", "partial_json": piece})
		}
	}
	return object{"type": "tool_use", "id": p.ID, "name": p.Call, "input": object{}}, deltas
}

// inSmall are the pieces of a call's input: a few letters, of a long one many.
func inSmall(text string) []string {
	size := max(7, len(text)/100)
	var all []string
	for len(text) > size {
		all = append(all, text[:size])
		text = text[size:]
	}
	return append(all, text)
}
