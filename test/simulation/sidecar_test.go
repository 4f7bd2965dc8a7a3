//go:build sim

package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/executor"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/model"
)

// current is the world whose endpoint answers over HTTP: one simulation runs at a time.
var current atomic.Pointer[world]

// ownSecret is the secret that a sidecar sends in calls of its own services.
const ownSecret = "a secret of the process"

// bearer is the token of each call: the secret of the sidecar itself, or the token of a caller.
type bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (bearer) RequireTransportSecurity() bool { return false }

// execute runs the sidecar's own executor until the process ends, as package server does.
func (n *node) execute(ctx context.Context, server *grpcapi.Server, executing *sync.WaitGroup) error {
	conn, err := server.Dial(grpc.WithPerRPCCredentials(bearer(ownSecret)))
	if err != nil {
		return err
	}
	m := &model.Endpoint{Name: modelName, URL: "http://" + n.machine().name + "/", Model: modelName, Timeout: 10 * time.Second}
	e, err := executor.New(executor.Config{Conn: conn, Namespace: n.namespace(), Models: model.NewTable([]*model.Endpoint{m}, nil), Turns: 2, Grace: time.Millisecond})
	if err != nil {
		return err
	}
	executing.Go(func() {
		_ = e.Run(ctx) // its stream ends with the process
		_ = conn.Close()
	})
	return nil
}

// overHTTP is the endpoint as the sidecar's own executor asks it.
type overHTTP struct{}

// RoundTrip implements http.RoundTripper.
func (overHTTP) RoundTrip(req *http.Request) (*http.Response, error) {
	w := current.Load()
	var asked struct {
		Messages []struct{ Role string }
		Most     int64 `json:"max_tokens"`
		Tools    []struct {
			Function struct {
				Name       string
				Parameters struct {
					Properties struct{ Event struct{ Enum []string } }
				}
			}
		}
	}
	raw, err := io.ReadAll(req.Body)
	if err == nil {
		err = json.Unmarshal(raw, &asked)
	}
	if err != nil {
		w.fail("the endpoint is asked in its form", "%v: %s", err, raw)
		return nil, err
	}
	if asked.Most <= 0 || asked.Most > maxTokens {
		w.fail("the bound that is reserved is sent", "max_tokens is %d: %s", asked.Most, raw)
	}
	o := &offer{shown: string(raw)}
	for _, tool := range asked.Tools {
		if f := &tool.Function; f.Name == "leave_state" {
			o.leave, o.events = f.Name, f.Parameters.Properties.Event.Enum
		} else {
			o.tools = append(o.tools, f.Name)
		}
	}
	for _, m := range asked.Messages {
		if o.spoke++; m.Role == "user" {
			o.spoke = 0
		}
	}
	o.spoke /= 2
	n := w.nodes[0]
	if req.URL.Host == w.nodes[1].name {
		n = w.nodes[1]
	}
	w.pass(n)
	call, err := w.endpoint.ask(req.Context(), o, nil)
	w.pass(n)
	if err != nil {
		return nil, err
	}
	return call.http(req), nil
}

// http is what came of a call as chat completions have it.
func (c *modelCall) http(req *http.Request) *http.Response {
	res := &http.Response{StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: req}
	var body bytes.Buffer
	send := func(data any) {
		raw, _ := json.Marshal(data) // of texts and numbers
		fmt.Fprintf(&body, "data: %s\n\n", raw)
	}
	usage := map[string]any{"id": c.id, "model": "scripted", "object": "chat.completion.chunk", "choices": []any{}, "usage": c.chatUsage()}
	switch {
	case c.answer != nil:
		send(c.chunk(map[string]any{"role": "assistant", "content": textOf(c.answer), "tool_calls": c.toolCalls()}, nil))
		send(c.chunk(map[string]any{}, c.answer.GetFinishReason()))
		send(usage)
		body.WriteString("data: [DONE]\n\n")
	case c.failure.GetRetryAfter() != nil:
		res.StatusCode, res.Header = http.StatusServiceUnavailable, http.Header{"Content-Type": {"application/json"}}
		res.Header.Set("Retry-After", fmt.Sprintf("%.1f", c.failure.GetRetryAfter().AsDuration().Seconds()))
		fmt.Fprintf(&body, `{"error":{"message":%q}}`, c.id)
	default:
		send(c.chunk(map[string]any{"role": "assistant", "content": "the beginning of"}, nil))
		send(usage)
	}
	res.Body = io.NopCloser(&body)
	return res
}

// chatUsage returns the usage in the form of chat completions, or nil if the endpoint reports none.
func (c *modelCall) chatUsage() any {
	if c.silence == saysNothing {
		return nil
	}
	u := map[string]any{}
	if c.silence != saysOutput {
		u["prompt_tokens"] = c.usage.GetInputTokens()
	}
	if c.silence != saysInput {
		u["completion_tokens"] = c.usage.GetOutputTokens()
	}
	return u
}

func (c *modelCall) chunk(delta map[string]any, finish any) map[string]any {
	return map[string]any{"id": c.id, "model": "scripted", "object": "chat.completion.chunk", "choices": []any{
		map[string]any{"index": 0, "delta": delta, "finish_reason": finish},
	}}
}

func (c *modelCall) toolCalls() []any {
	calls := []any{}
	for i, call := range c.answer.GetCalls() {
		calls = append(calls, map[string]any{
			"index": i, "id": call.GetId(), "type": "function", "function": map[string]any{"name": call.GetName(), "arguments": call.GetArguments()},
		})
	}
	return calls
}

func textOf(a *pawlv1.ModelAnswer) (text string) {
	for _, part := range a.GetParts() {
		text += part.GetText()
	}
	return text
}
