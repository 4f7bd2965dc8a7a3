package a2a

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// FuzzMessage: the JSON of a binding is a message or is refused. A message that was read is written with
// the same meaning.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"},{"data":{"a":[1]}}],"metadata":{"https://pawl.dev/a2a/delegation/v1":{"run":"r","step":1,"attempt":1}}}}`))
	f.Add([]byte(`{"message":{"message_id":"m","role":"nobody"}}`))
	f.Add([]byte(`{"configuration":{"taskPushNotificationConfig":{"url":"http://x"}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := &a2apb.SendMessageRequest{}
		if unmarshal(raw, in) != nil {
			return
		}
		said, err := marshal(in)
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		again := &a2apb.SendMessageRequest{}
		if err := unmarshal(said, again); err != nil || !proto.Equal(in, again) {
			t.Fatalf("%q is said again as %q: %v", raw, said, err)
		}
		_, _ = delegationOf(in.GetMessage())
	})
}

// FuzzRPC: a frame of JSON-RPC has an id that an answer can carry, or is refused.
func FuzzRPC(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{}}`)
	f.Add(`[{"jsonrpc":"2.0"}]`)
	f.Add(`{"id":{},"jsonrpc":"2.0","method":null}`)
	s := &Service{cfg: Config{MaxMessageBytes: 1 << 16}}
	f.Fuzz(func(t *testing.T, body string) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", mediaJSON)
		req, err := s.readRPC(r)
		if len(req.ID) == 0 {
			t.Fatalf("%q has no id to answer: %v", body, err)
		}
	})
}

// FuzzREST: paths and queries lead to a request or a refusal.
func FuzzREST(f *testing.F) {
	f.Add("/a2a/pack/agent/message:send", "")
	f.Add("/tasks/x:cancel", "historyLength=1&status=TASK_STATE_WORKING")
	f.Add("/tenant/one/tasks", "pageSize=-1&pageSize=x&status_timestamp_after=1")
	s := &Service{cfg: Config{MaxMessageBytes: 1 << 16}}
	f.Fuzz(func(_ *testing.T, path, query string) {
		at, ok := targetOf(path)
		if !ok {
			return
		}
		for _, verb := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			found, values, ok := routeOf(verb, at.rest)
			if !ok || methods[found.method] == nil {
				continue
			}
			r := &http.Request{Method: verb, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{}, Body: http.NoBody}
			if in, err := s.readREST(r, methods[found.method], found, values); err == nil {
				_ = setTenant(in, at.tenant)
			}
		}
	})
}

// FuzzTenant: for any request, the backend looks for the agent in the namespace by which the request was
// routed.
func FuzzTenant(f *testing.F) {
	f.Add("POST", "/", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"tenant":"red:crew/writer","id":"x"}}`)
	f.Add("POST", "/a2a/red:/message:send", `{"tenant":"red:","message":{}}`)
	f.Add("GET", "/tasks?tenant=re%ffd:crew/writer&tenant=x", "")
	f.Add("DELETE", "/red:crew%2Fwriter/tasks/x/pushNotificationConfigs/y", "{}")
	f.Add("GET", "/a2a/red:crew/writer/.well-known/agent-card.json", "")
	f.Fuzz(func(t *testing.T, verb, target, body string) {
		if !strings.HasPrefix(target, "/") || strings.ContainsFunc(verb, func(r rune) bool { return r < 'A' || r > 'Z' }) || verb == "" {
			return
		}
		checkSameNamespace(t, verb, target, body)
	})
}
