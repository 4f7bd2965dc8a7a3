package model

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// FuzzStream: for any bytes that an endpoint sends, Ask returns an answer within its bound or a failure.
func FuzzStream(f *testing.F) {
	var body atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		raw, _ := body.Load().([]byte)
		_, _ = w.Write(raw)
	}))
	f.Cleanup(server.Close)
	f.Add(byte(2), []byte("data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"function_call\",\"call_id\":\"c\"}}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[]}}\n\n"))
	f.Add(byte(0), []byte("data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\",\"tool_calls\":[{\"index\":-1,\"id\":\"c\",\"function\":{\"name\":\"n\",\"arguments\":\"{\"}}]},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"))
	f.Add(byte(1), []byte("event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"redacted_thinking\",\"data\":\"x\"}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"))
	f.Fuzz(func(t *testing.T, form byte, raw []byte) {
		body.Store(raw)
		e := &Endpoint{Name: "gpt", URL: server.URL + "/", Model: "m", Timeout: time.Minute, Form: Form(form % 3)}
		answer, _, err := e.Ask(t.Context(), &Request{MaxAnswer: 1 << 10}, func(string) {})
		if err == nil && proto.Size(answer) > 16<<10 {
			t.Errorf("%d bytes", proto.Size(answer))
		}
		if _, err := proto.Marshal(answer); err != nil {
			t.Error(err)
		}
		if _, ok := err.(*Failure); err != nil && !ok {
			t.Errorf("%T: %v", err, err)
		}
	})
}

// FuzzConversation: for any conversation, the body of the request is JSON, or a failure says why there is
// none.
func FuzzConversation(f *testing.F) {
	f.Add(`[{"id":"a","name":"b","arguments":"{"}]`, `{"anthropic":[{"type":"thinking"}]}`, `"required"`, "a")
	f.Fuzz(func(t *testing.T, calls, provider, choice, id string) {
		req := &Request{
			System: provider, Tools: []Tool{{Name: id}}, Parameters: map[string]json.RawMessage{},
			Messages: []*pawlv1.Message{
				{Role: "assistant", ToolCallsJson: calls, ProviderJson: provider},
				{Role: "tool", ToolCallId: id, Parts: []*pawlv1.Part{textPart(calls)}}, user(textPart(choice)),
			},
		}
		if json.Valid([]byte(choice)) {
			req.Parameters["tool_choice"] = json.RawMessage(choice)
		}
		e := &Endpoint{Name: "gpt"}
		for _, body := range []func(*Request) ([]byte, error){func(r *Request) ([]byte, error) { return e.chatBody(r, chatLimit) }, e.messagesBody, e.responsesBody} {
			raw, err := body(req)
			if _, ok := err.(*Failure); err != nil && !ok || err == nil && !json.Valid(raw) {
				t.Errorf("%s, %v", raw, err)
			}
		}
	})
}
