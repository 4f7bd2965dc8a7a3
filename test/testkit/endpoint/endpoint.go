package endpoint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Request is one request.
type Request struct {
	Path   string
	Header http.Header
	Body   map[string]any
}

// Call is a tool call of an answer.
type Call struct{ ID, Name, Arguments string }

// Answer is what the endpoint says.
type Answer struct {
	Text      string
	Reasoning string
	Calls     []Call
	// Finish is the provider's word; default by the calls.
	Finish string
	// Read and Written are the tokens that chat completions tell; default 10 and 5.
	Read, Written int
	// Status other than 200 answers with Error; RetryAfter is the header.
	Status            int
	Error, RetryAfter string
	// Body is sent as it is, of the media type Media (default an event stream), instead of
	// all that is above but Status.
	Body, Media string
	// Cut ends the stream before the answer does.
	Cut bool
	// Hang keeps the stream open without an end.
	Hang bool
}

// Server is a running endpoint.
type Server struct {
	// URL has no path.
	URL string

	mu       sync.Mutex
	requests []Request
	answer   func(n int, asked Request) Answer
	closing  chan struct{}
}

// New starts an endpoint until the test ends; answer is given the number of the request,
// from 0.
func New(tb testing.TB, answer func(n int, asked Request) Answer) *Server {
	tb.Helper()
	s := &Server{answer: answer, closing: make(chan struct{})}
	server := httptest.NewServer(s)
	s.URL = server.URL
	tb.Cleanup(func() {
		close(s.closing)
		server.Close()
	})
	return s
}

// Requests is what was asked so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked := Request{Path: r.URL.Path, Header: r.Header.Clone()}
	raw, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(raw, &asked.Body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	n := len(s.requests)
	s.requests = append(s.requests, asked)
	s.mu.Unlock()
	s.respond(w, r, s.answer(n, asked), n)
}

func (s *Server) respond(w http.ResponseWriter, r *http.Request, a Answer, n int) {
	if a.Status != 0 && a.Status != http.StatusOK {
		if a.RetryAfter != "" {
			w.Header().Set("Retry-After", a.RetryAfter)
		}
		w.Header().Set("Content-Type", cmp.Or(a.Media, "application/json"))
		w.WriteHeader(a.Status)
		if a.Body != "" {
			_, _ = io.WriteString(w, a.Body) // who does not read it has gone
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]any{"type": "scripted", "message": a.Error}})
		return
	}
	w.Header().Set("Content-Type", cmp.Or(a.Media, "text/event-stream"))
	out := &events{w: w}
	if a.Body != "" {
		_, _ = io.WriteString(w, a.Body) // who does not read it has gone
	} else if strings.HasSuffix(r.URL.Path, "/v1/messages") {
		out.messages(&a, n)
	} else if strings.HasSuffix(r.URL.Path, "/responses") {
		out.responses(&a, n)
	} else {
		out.chat(&a, n)
	}
	if a.Hang {
		select {
		case <-r.Context().Done():
		case <-s.closing:
		}
	}
}

// events writes a stream of events.
type events struct{ w http.ResponseWriter }

func (e *events) send(name string, data any) {
	raw, _ := json.Marshal(data)
	if name != "" {
		fmt.Fprintf(e.w, "event: %s\n", name)
	}
	fmt.Fprintf(e.w, "data: %s\n\n", raw)
	if f, ok := e.w.(http.Flusher); ok {
		f.Flush()
	}
}

type object = map[string]any

// pieces are a text in two.
func pieces(text string) []string {
	if len(text) < 2 {
		return []string{text}
	}
	return []string{text[:len(text)/2], text[len(text)/2:]}
}

func (e *events) chat(a *Answer, n int) {
	delta := func(d object, finish any) {
		e.send("", object{"id": fmt.Sprintf("resp-%d", n), "model": "scripted", "object": "chat.completion.chunk", "choices": []any{
			object{"index": 0, "delta": d, "finish_reason": finish},
		}})
	}
	delta(object{"role": "assistant", "content": ""}, nil)
	if a.Reasoning != "" {
		delta(object{"reasoning_content": a.Reasoning}, nil)
	}
	if a.Text != "" {
		for _, piece := range pieces(a.Text) {
			delta(object{"content": piece}, nil)
		}
	}
	for i, c := range a.Calls {
		delta(object{"tool_calls": []any{object{"index": i, "id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": ""}}}}, nil)
		for _, piece := range pieces(c.Arguments) {
			delta(object{"tool_calls": []any{object{"index": i, "function": object{"arguments": piece}}}}, nil)
		}
	}
	if a.Cut || a.Hang {
		return
	}
	finish := a.Finish
	if finish == "" {
		finish = "stop"
		if len(a.Calls) > 0 {
			finish = "tool_calls"
		}
	}
	delta(object{}, finish)
	read, written := cmp.Or(a.Read, 10), cmp.Or(a.Written, 5)
	e.send("", object{"id": fmt.Sprintf("resp-%d", n), "model": "scripted", "choices": []any{}, "usage": object{
		"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written,
		"prompt_tokens_details": object{"cached_tokens": 4}, "completion_tokens_details": object{"reasoning_tokens": 2},
	}})
	fmt.Fprint(e.w, "data: [DONE]\n\n")
}

func (e *events) messages(a *Answer, n int) {
	e.send("message_start", object{"type": "message_start", "message": object{
		"id": fmt.Sprintf("msg-%d", n), "type": "message", "role": "assistant", "model": "scripted", "content": []any{},
		"usage": object{"input_tokens": 6, "cache_read_input_tokens": 4, "output_tokens": 1},
	}})
	index := 0
	block := func(start object, deltas ...object) {
		e.send("content_block_start", object{"type": "content_block_start", "index": index, "content_block": start})
		for _, d := range deltas {
			e.send("content_block_delta", object{"type": "content_block_delta", "index": index, "delta": d})
		}
		e.send("content_block_stop", object{"type": "content_block_stop", "index": index})
		index++
	}
	if a.Reasoning != "" {
		block(object{"type": "thinking", "thinking": "", "signature": ""},
			object{"type": "thinking_delta", "thinking": a.Reasoning}, object{"type": "signature_delta", "signature": "signed"})
	}
	if a.Text != "" {
		var deltas []object
		for _, piece := range pieces(a.Text) {
			deltas = append(deltas, object{"type": "text_delta", "text": piece})
		}
		block(object{"type": "text", "text": ""}, deltas...)
	}
	for _, c := range a.Calls {
		var deltas []object
		for _, piece := range pieces(c.Arguments) {
			deltas = append(deltas, object{"type": "input_json_delta", "partial_json": piece})
		}
		block(object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": object{}}, deltas...)
	}
	if a.Cut || a.Hang {
		return
	}
	finish := a.Finish
	if finish == "" {
		finish = "end_turn"
		if len(a.Calls) > 0 {
			finish = "tool_use"
		}
	}
	e.send("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": finish}, "usage": object{"output_tokens": 5}})
	e.send("message_stop", object{"type": "message_stop"})
}

func (e *events) responses(a *Answer, n int) {
	id := fmt.Sprintf("resp-%d", n)
	send := func(kind string, more object) {
		more["type"] = kind
		e.send(kind, more)
	}
	send("response.created", object{"response": object{"id": id, "model": "scripted", "status": "in_progress"}})
	var items []any
	if a.Reasoning != "" {
		send("response.reasoning_summary_text.delta", object{"delta": a.Reasoning})
		items = append(items, object{"type": "reasoning", "id": "rs", "summary": []any{object{"type": "summary_text", "text": a.Reasoning}}, "encrypted_content": "c2VhbGVk"})
	}
	if a.Text != "" {
		for _, piece := range pieces(a.Text) {
			send("response.output_text.delta", object{"delta": piece})
		}
		items = append(items, object{"type": "message", "id": "msg", "role": "assistant", "content": []any{object{"type": "output_text", "text": a.Text}}})
	}
	for _, c := range a.Calls {
		for _, piece := range pieces(c.Arguments) {
			send("response.function_call_arguments.delta", object{"delta": piece})
		}
		items = append(items, object{"type": "function_call", "id": "fc", "call_id": c.ID, "name": c.Name, "arguments": c.Arguments})
	}
	if a.Cut || a.Hang {
		return
	}
	end, why := "response.completed", any(nil)
	switch a.Finish {
	case "":
	case "length":
		end, why = "response.incomplete", object{"reason": "max_output_tokens"}
	default:
		end, why = "response.incomplete", object{"reason": a.Finish}
	}
	read, written := cmp.Or(a.Read, 10), cmp.Or(a.Written, 5)
	send(end, object{"response": object{
		"id": id, "model": "scripted", "output": items, "incomplete_details": why,
		"usage": object{"input_tokens": read, "output_tokens": written, "input_tokens_details": object{"cached_tokens": 4}, "output_tokens_details": object{"reasoning_tokens": 2}},
	}})
}
