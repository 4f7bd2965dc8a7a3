package endpoint

import (
	"cmp"
	"fmt"
	"maps"
)

const usualResponsesUsage = `{"input_tokens": 50, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 55}`

// writer numbers the events of a response.
type writer struct {
	s      *stream
	number int
}

// event sends one with its number.
func (w *writer) event(kind string, fields object) {
	w.number++
	fields["type"], fields["sequence_number"] = kind, w.number
	w.s.send(kind, text(fields))
}

// responses writes a round as OpenAI's responses.
func (r *Round) responses(s *stream) {
	for _, event := range r.Stream {
		typed(s, event)
	}
	if len(r.Stream) > 0 {
		return
	}
	w := &writer{s: s}
	w.event("response.created", object{"response": response("in_progress", []any{}, nil, nil)})
	if r.Fail != "" {
		w.event("response.failed", object{"response": response("failed", []any{}, raw(r.Fail), nil)})
		return
	}
	output := []any{}
	for i, p := range r.Parts {
		if p.Event != "" {
			typed(s, p.Event)
			continue
		}
		output = append(output, w.item(p, i))
	}
	if r.Error != "" {
		typed(s, r.Error)
		return
	}
	if r.Cut || r.Unended {
		return
	}
	w.event("response.completed", object{"response": response("completed", output, nil, raw(cmp.Or(r.Usage, usualResponsesUsage)))})
}

// response is the whole as its events have it.
func response(status string, output []any, fault, usage any) object {
	return object{
		"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "m", "output": output,
		"parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{}, "error": fault, "incomplete_details": nil,
		"instructions": nil, "metadata": object{}, "temperature": 1, "top_p": 1, "usage": usage,
	}
}

// item writes one item of the output, and is it.
func (w *writer) item(p Part, i int) any {
	begin := func(item object) { w.event("response.output_item.added", object{"output_index": i, "item": item}) }
	end := func(item object) any {
		w.event("response.output_item.done", object{"output_index": i, "item": item})
		return item
	}
	switch {
	case p.Text != nil:
		id := fmt.Sprintf("msg_%d", i)
		message := func(content []any, status string) object {
			return object{"type": "message", "id": id, "role": "assistant", "status": status, "content": content}
		}
		begin(message([]any{}, "in_progress"))
		at := object{"output_index": i, "content_index": 0, "item_id": id}
		w.event("response.content_part.added", withField(at, "part", object{"type": "output_text", "text": "", "annotations": []any{}}))
		for _, piece := range splitText(*p.Text) {
			w.event("response.output_text.delta", withField(withField(at, "delta", piece), "logprobs", []any{}))
		}
		part := object{"type": "output_text", "text": *p.Text, "annotations": []any{}, "logprobs": []any{}}
		w.event("response.output_text.done", withField(withField(at, "text", *p.Text), "logprobs", []any{}))
		w.event("response.content_part.done", withField(at, "part", part))
		return end(message([]any{part}, "completed"))
	case p.Reasoning != nil:
		item := object{"type": "reasoning", "id": cmp.Or(p.ID, "rs_1"), "summary": []any{}, "encrypted_content": nil}
		if p.Signature != "" {
			item["encrypted_content"] = p.Signature
		}
		begin(item)
		return end(item)
	}
	return w.call(p, i, begin, end)
}

// call writes the item of a function call.
func (w *writer) call(p Part, i int, begin func(object), end func(object) any) any {
	arguments := ""
	if p.Arguments != nil {
		arguments = *p.Arguments
	}
	item := func(arguments, status string) object {
		return object{"type": "function_call", "id": "fc_" + p.ID, "call_id": p.ID, "name": p.Call, "arguments": arguments, "status": status}
	}
	begin(item("", "in_progress"))
	at := object{"output_index": i, "item_id": "fc_" + p.ID}
	for _, piece := range splitText(arguments) {
		w.event("response.function_call_arguments.delta", withField(at, "delta", piece))
	}
	w.event("response.function_call_arguments.done", withField(withField(at, "arguments", arguments), "name", p.Call))
	return end(item(arguments, "completed"))
}

// withField is an object with one field more.
func withField(fields object, name string, value any) object {
	more := object{name: value}
	maps.Copy(more, fields)
	return more
}
