package client

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// cannedAnswer is an agent that answers every request with the same body.
type cannedAnswer struct{ body, media string }

func (s cannedAnswer) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{"Content-Type": {s.media}},
		Body: io.NopCloser(strings.NewReader(s.body)), Request: r,
	}, nil
}

// FuzzCard: for any card of an agent, the client connects only to the host of that agent.
func FuzzCard(f *testing.F) {
	f.Add(`{"supportedInterfaces":[{"url":"http://agent.example/a2a","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`)
	f.Add(`{"supportedInterfaces":[null,{"url":"evil.example:1","protocolBinding":"GRPC","protocolVersion":"1.0"}],"capabilities":{"extensions":[{}]}}`)
	f.Add(`{"supportedInterfaces":[{"url":"http://agent.example@evil.example/","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"}]}`)
	base := &url.URL{Scheme: "http", Host: "agent.example"}
	f.Fuzz(func(t *testing.T, body string) {
		client := &http.Client{Transport: bounded{cannedAnswer{body, "application/json"}}}
		card, err := fetchCard(t.Context(), client, Remote{Card: base.String()})
		if err != nil {
			return
		}
		face, err := choose(card, base, nil)
		if err != nil {
			return
		}
		host, err := hostOf(face)
		if name, _, _ := strings.Cut(host, ":"); err != nil || name != base.Host {
			t.Fatalf("%q leads to %q: %v", body, host, err)
		}
		if u, err := url.Parse(face.URL); err == nil && u.Host != "" && u.Hostname() != base.Host {
			t.Fatalf("%q leads to %q", body, u.Host)
		}
	})
}

// FuzzTask: a task in the answer of an agent is read or refused.
func FuzzTask(f *testing.F) {
	f.Add([]byte(`{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED","message":{"parts":[{"text":"x"}]}},"artifacts":[{"artifactId":"a","parts":[{"data":{"x":1}}]}]}`))
	f.Add([]byte(`{"id":"t","status":{"state":"TASK_STATE_FAILED"},"metadata":{"https://pawl.dev/a2a/delegation/v1":{"tokens":-1}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		task := &a2apb.Task{}
		if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, task) != nil {
			return
		}
		out, err := taskOf(task)
		if err == nil && (out.ID == "" || out.State == 0) {
			t.Fatalf("%q is the task %+v", raw, out)
		}
	})
}

// FuzzStream: events of an agent, in either binding over HTTP, end or are refused.
func FuzzStream(f *testing.F) {
	event := `data: {"jsonrpc":"2.0","id":"1","result":{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}}` + "\n\n"
	f.Add(event + event)
	f.Add("data: {}\r\n\r\n: x\n\nevent: error\ndata: no\n\n")
	f.Add(strings.Repeat("data: x\n", 100))
	f.Fuzz(func(t *testing.T, body string) {
		client := &http.Client{Transport: exact{bounded{cannedAnswer{body, "text/event-stream"}}}}
		for _, w := range []httpWire{
			{a2aclient.NewJSONRPCTransport("http://agent.example", client)},
			{a2aclient.NewRESTTransport(&url.URL{Scheme: "http", Host: "agent.example"}, client)},
		} {
			for _, err := range w.subscribe(t.Context(), nil, &a2apb.SubscribeToTaskRequest{Id: "t"}) {
				if err != nil {
					_ = faultOf(err)
				}
			}
			if _, err := w.get(t.Context(), nil, &a2apb.GetTaskRequest{Id: "t"}); err != nil {
				_ = faultOf(err)
			}
		}
	})
}
