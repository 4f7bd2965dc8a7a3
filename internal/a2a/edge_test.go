package a2a_test

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

const hello = `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hello"}]}}`

// rpc wraps params as a JSON-RPC request.
func rpc(method, params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
}

// TestBadFrames: a fault that is found before a method is called is reported in the form of the binding.
func TestBadFrames(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.config.Limits.MessageBytes = 64 << 10; r.config.Limits.ArtifactBytes = 64 << 10 })
	big := `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"` + strings.Repeat("x", 70<<10) + `"}]}}`
	for name, c := range map[string]struct {
		verb, path, body string
		headers          []string
		status           int
		want             string
	}{
		"broken JSON":            {"POST", "/", `{"jsonrpc":`, nil, 200, `"code":-32700`},
		"a batch":                {"POST", "/", `[]`, nil, 200, `"code":-32600`},
		"a string":               {"POST", "/", `"x"`, nil, 200, `"code":-32600`},
		"no id":                  {"POST", "/", `{"jsonrpc":"2.0","method":"GetTask"}`, nil, 200, `"code":-32600`},
		"an id that is none":     {"POST", "/", `{"jsonrpc":"2.0","id":{},"method":"GetTask"}`, nil, 200, `"id":null`},
		"another JSON-RPC":       {"POST", "/", `{"jsonrpc":"1.0","id":1,"method":"GetTask"}`, nil, 200, `"code":-32600`},
		"no method":              {"POST", "/", `{"jsonrpc":"2.0","id":1}`, nil, 200, `"code":-32600`},
		"a method of 0.3":        {"POST", "/", rpc("message/send", hello), nil, 200, `"code":-32601`},
		"params in a row":        {"POST", "/", rpc("GetTask", `["x"]`), nil, 200, `"code":-32602`},
		"params of another type": {"POST", "/", rpc("GetTask", `{"id":7}`), nil, 200, `"code":-32602`},
		"an enum of 0.3":         {"POST", "/", rpc("SendMessage", strings.Replace(hello, "ROLE_USER", "user", 1)), nil, 200, `"code":-32602`},
		"a form":                 {"POST", "/", rpc("GetTask", `{"id":"x"}`), []string{"Content-Type", "application/x-www-form-urlencoded"}, 200, `"code":-32005`},
		"no content type":        {"POST", "/", rpc("GetTask", `{"id":"x"}`), []string{"Content-Type", ""}, 200, `"code":-32005`},
		"too much":               {"POST", "/", rpc("SendMessage", big), nil, 413, `MESSAGE_TOO_LARGE`},
		"GET":                    {"GET", "/a2a/crew/writer", "", nil, 405, `"code":-32601`},
		"no version":             {"POST", "/", rpc("SendMessage", hello), []string{"A2A-Version", ""}, 200, `"code":-32009`},
		"an old version":         {"POST", "/", rpc("SendMessage", hello), []string{"A2A-Version", "0.3"}, 200, `"reason":"VERSION_NOT_SUPPORTED"`},
		"a patch":                {"POST", "/", rpc("SendMessage", hello), []string{"A2A-Version", "1.0.7"}, 200, `TASK_STATE_COMPLETED`},
		"a foreign page":         {"POST", "/", rpc("SendMessage", hello), []string{"Origin", "https://evil.example"}, 403, `ORIGIN_NOT_ALLOWED`},

		"REST: broken JSON":        {"POST", "/message:send", `{`, nil, 400, `"reason":"INVALID_PARAMS"`},
		"REST: no body":            {"POST", "/message:send", ``, nil, 400, `INVALID_PARAMS`},
		"REST: text":               {"POST", "/message:send", hello, []string{"Content-Type", "text/plain"}, 400, `"reason":"CONTENT_TYPE_NOT_SUPPORTED"`},
		"REST: its own type":       {"POST", "/message:send", hello, []string{"Content-Type", "application/a2a+json"}, 200, `TASK_STATE_COMPLETED`},
		"REST: another charset":    {"POST", "/message:send", hello, []string{"Content-Type", "application/json; charset=latin1"}, 400, `CONTENT_TYPE_NOT_SUPPORTED`},
		"REST: too much":           {"POST", "/message:send", big, nil, 413, `"status":"RESOURCE_EXHAUSTED"`},
		"REST: no such path":       {"GET", "/a2a/crew/writer/nothing", "", nil, 404, `"status":"UNIMPLEMENTED"`},
		"REST: wrong verb":         {"DELETE", "/tasks", "", []string{"Content-Type", "application/json"}, 404, `METHOD_NOT_FOUND`},
		"REST: a page of letters":  {"GET", "/tasks?pageSize=many", "", nil, 400, `INVALID_PARAMS`},
		"REST: snake case":         {"GET", "/tasks?page_size=1&unheard=of", "", nil, 200, `"pageSize":1`},
		"REST: an unknown state":   {"GET", "/tasks?status=DONE", "", nil, 400, `INVALID_PARAMS`},
		"REST: the older name":     {"GET", "/tasks?lastUpdatedAfter=2999-01-01T00:00:00Z", "", nil, 200, `"totalSize":0`},
		"REST: the version asked":  {"GET", "/tasks?A2A-Version=1.0", "", []string{"A2A-Version", ""}, 200, `"tasks":[`},
		"REST: no version":         {"GET", "/tasks", "", []string{"A2A-Version", ""}, 400, `"status":"FAILED_PRECONDITION"`},
		"REST: a tenant":           {"GET", "/crew/writer/tasks", "", nil, 200, `"nextPageToken":""`},
		"REST: an escaped tenant":  {"GET", "/crew%2Fwriter/tasks", "", nil, 200, `"pageSize":50`},
		"REST: no such tenant":     {"GET", "/crew/nobody/tasks", "", nil, 404, `AGENT_NOT_FOUND`},
		"REST: half a path":        {"GET", "/a2a/crew", "", nil, 404, `METHOD_NOT_FOUND`},
		"REST: another task":       {"POST", "/tasks/a:cancel", `{"id":"b"}`, nil, 400, `INVALID_PARAMS`},
		"two agents":               {"POST", "/a2a/crew/writer", rpc("GetTask", `{"id":"x","tenant":"crew/painter"}`), nil, 200, `"code":-32602`},
		"the agent said twice":     {"POST", "/a2a/crew/writer", rpc("GetTask", `{"id":"x","tenant":"crew/writer"}`), nil, 200, `"code":-32001`},
		"the gateway's own path":   {"GET", "/v1/runs/01J00000000000000000000000", "", nil, 404, `RUN_NOT_FOUND`},
		"the card of nobody":       {"GET", "/a2a/crew/nobody/.well-known/agent-card.json", "", nil, 404, `AGENT_NOT_FOUND`},
		"a card cannot be written": {"POST", "/.well-known/agent-card.json", `{}`, nil, 404, `METHOD_NOT_FOUND`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := r.http(c.verb, c.path, c.body, c.headers...)
			if got.status != c.status || !strings.Contains(string(got.body), c.want) {
				t.Errorf("%s\nwant %d with %s", got, c.status, c.want)
			}
			if !json.Valid(got.body) {
				t.Errorf("the answer is no JSON: %s", got.body)
			}
		})
	}
}

// TestVersionOverGRPC: gRPC requires the version as the other bindings do, unless the operator allows
// requests without it.
func TestVersionOverGRPC(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.client.ListTasks(r.context("", "a2a-version", "2.0"), &a2apb.ListTasksRequest{})
	if err != nil {
		t.Errorf("the first version counts: %v", err)
	}
	lenient := newRig(t, func(r *rig) { r.config.A2ALenientVersion = true })
	for _, c := range []struct {
		r       *rig
		version string
		want    codes.Code
	}{
		{r, "", codes.FailedPrecondition}, {r, "0.3", codes.FailedPrecondition}, {r, "1", codes.FailedPrecondition},
		{r, "1.1", codes.FailedPrecondition}, {r, "1.0", codes.OK}, {r, "1.0.1", codes.OK},
		{lenient, "", codes.OK}, {lenient, "0.3", codes.FailedPrecondition},
	} {
		_, err := c.r.client.ListTasks(c.r.versionContext(c.version), &a2apb.ListTasksRequest{})
		if status.Code(err) != c.want {
			t.Errorf("version %q: %v, want %v", c.version, err, c.want)
		}
	}
}

// TestRequiredExtension: a caller that does not declare the required extension is refused. For a caller
// that declares it, the answer names it as activated.
func TestRequiredExtension(t *testing.T) {
	t.Parallel()
	const uri = "https://pawl.dev/a2a/idempotent-send/v1"
	r := newRig(t, func(r *rig) { r.config.A2ARequire = []string{uri} })
	got := r.http("POST", "/", rpc("SendMessage", hello), "A2A-Extensions", "https://other.example/e")
	if !strings.Contains(string(got.body), `"code":-32008`) || !strings.Contains(string(got.body), uri) {
		t.Errorf("without it: %s", got)
	}
	got = r.http("POST", "/message:send", hello, "A2A-Extensions", "https://other.example/e, "+uri)
	if got.status != 200 || got.header.Get("A2a-Extensions") != uri {
		t.Errorf("with it: %s, activated %q", got, got.header.Get("A2a-Extensions"))
	}
	_, err := r.client.SendMessage(r.context(""), message("", "hello"))
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("over gRPC without it: %v", err)
	}
	if _, err := r.client.SendMessage(r.context("", "a2a-extensions", uri), message("", "hello")); err != nil {
		t.Errorf("over gRPC with it: %v", err)
	}
	card := r.http("GET", "/.well-known/agent-card.json", "")
	if !strings.Contains(string(card.body), `"required":true`) {
		t.Errorf("the card does not say so: %s", card)
	}
}

// TestOwnership: a task belongs to its sender. For all other callers it does not exist, except for an
// operator, who sees all tasks.
func TestOwnership(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens)
	ownTask := r.send(r.context(alice), message("crew/writer", "ask whose?")).GetId()
	for name, do := range map[string]func() error{
		"get": func() error {
			_, err := r.client.GetTask(r.context(bob), &a2apb.GetTaskRequest{Tenant: "crew/writer", Id: ownTask})
			return err
		},
		"get nothing": func() error {
			_, err := r.client.GetTask(r.context(bob), &a2apb.GetTaskRequest{Tenant: "crew/writer", Id: "nothing"})
			return err
		},
		"cancel": func() error {
			_, err := r.client.CancelTask(r.context(bob), &a2apb.CancelTaskRequest{Tenant: "crew/writer", Id: ownTask})
			return err
		},
		"send": func() error {
			req := message("crew/writer", "mine")
			req.Message.TaskId = ownTask
			_, err := r.client.SendMessage(r.context(bob), req)
			return err
		},
		"subscribe": func() error {
			stream, err := r.client.SubscribeToTask(r.context(bob), &a2apb.SubscribeToTaskRequest{Tenant: "crew/writer", Id: ownTask})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
	} {
		if err := do(); status.Code(err) != codes.NotFound || status.Convert(err).Message() != "id: no such task, or not yours to see" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, want := range map[string]int{alice: 1, bob: 0, adminToken: 1} {
		list, err := r.client.ListTasks(r.context(name), &a2apb.ListTasksRequest{Tenant: "crew/writer"})
		if err != nil || len(list.GetTasks()) != want {
			t.Errorf("%s lists %v (%v), want %d", name, list, err, want)
		}
	}
	if _, err := r.client.CancelTask(r.context(adminToken), &a2apb.CancelTaskRequest{Tenant: "crew/writer", Id: ownTask}); err != nil {
		t.Errorf("an operator: %v", err)
	}
}

// TestAuthentication: a caller without a token is refused on every binding, and so is a caller whose token
// lacks the scope. Only the card is public.
func TestAuthentication(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens)
	got := r.http("POST", "/", rpc("GetTask", `{"id":"nothing"}`))
	if got.status != 401 || got.header.Get("WWW-Authenticate") == "" || !strings.Contains(string(got.body), `"TOKEN_MISSING"`) {
		t.Errorf("JSON-RPC: %s", got)
	}
	got = r.http("GET", "/tasks/nothing", "", "Authorization", "Bearer wrong-wrong-wrong")
	if got.status != 401 || !strings.Contains(string(got.body), `"status":"UNAUTHENTICATED"`) {
		t.Errorf("REST: %s", got)
	}
	got = r.http("POST", "/message:send", hello, "Authorization", "Bearer "+secretOf(hands))
	if got.status != 403 || !strings.Contains(string(got.body), `"SCOPE_MISSING"`) {
		t.Errorf("REST without the scope: %s", got)
	}
	if _, err := r.client.GetTask(r.context(""), &a2apb.GetTaskRequest{Id: "nothing"}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("gRPC: %v", err)
	}
	if got := r.http("GET", "/.well-known/agent-card.json", ""); got.status != 200 {
		t.Errorf("the card is public: %s", got)
	}
	if got := r.http("POST", "/message:send", hello, "Authorization", "Bearer "+secretOf(bob)); got.status != 200 {
		t.Errorf("with a token: %s", got)
	}
	// The server checks the right to move a run from outside before it takes the message.
	task := r.send(r.context(bob), message("crew/archive", "please"))
	req := message("crew/archive", "signed")
	req.Message.TaskId = task.GetId()
	if _, err := r.client.SendMessage(r.context(bob), req); status.Code(err) != codes.PermissionDenied {
		t.Errorf("an event without the scope: %v", err)
	}
	after, err := r.client.GetTask(r.context(bob), &a2apb.GetTaskRequest{Tenant: "crew/archive", Id: task.GetId()})
	if err != nil || len(after.GetHistory()) != len(task.GetHistory()) {
		t.Errorf("the message was taken: %v, %v", after, err)
	}
}

// TestIdempotentSend: a repeated message returns the same task if the caller asks for that. Otherwise it
// creates a new task.
func TestIdempotentSend(t *testing.T) {
	t.Parallel()
	const uri = "https://pawl.dev/a2a/idempotent-send/v1"
	r := newRig(t)
	for _, c := range []struct {
		name  string
		pairs []string
		same  bool
	}{
		{"ordinary", nil, false}, {"by extension", []string{"a2a-extensions", uri}, true},
		{"by key", []string{"idempotency-key", "k1"}, true},
		{"by delegation", []string{"a2a-extensions", "https://pawl.dev/a2a/delegation/v1"}, true},
	} {
		first := r.send(r.context("", c.pairs...), message("crew/writer", "once "+c.name))
		again := r.send(r.context("", c.pairs...), message("crew/writer", "once "+c.name))
		if (first.GetId() == again.GetId()) != c.same || first.GetContextId() == again.GetContextId() != c.same {
			t.Errorf("%s: %s and %s", c.name, first.GetId(), again.GetId())
		}
		other := message("crew/writer", "other "+c.name)
		other.Message.MessageId = "m-once " + c.name
		got, err := r.client.SendMessage(r.context("", c.pairs...), other)
		if c.same != (err != nil) || err == nil && got.GetTask().GetId() == first.GetId() {
			t.Errorf("%s: another body is answered with %v, %v", c.name, got, err)
		}
	}
	// A streamed send that is repeated returns the events of the same task, from its beginning to its end.
	same := r.send(r.context("", "idempotency-key", "k1"), message("crew/writer", "once by key")).GetId()
	for range 2 {
		stream, err := r.client.SendStreamingMessage(r.context("", "idempotency-key", "k1"), message("crew/writer", "once by key"))
		if err != nil {
			t.Fatal(err)
		}
		events := until(t, stream, isState(a2apb.TaskState_TASK_STATE_COMPLETED))
		if events[0].GetTask().GetId() != same || stateOf(events[0]) == a2apb.TaskState_TASK_STATE_UNSPECIFIED {
			t.Errorf("a stream that is sent again begins with %v", events[0])
		}
	}
	asked := r.send(r.context(""), message("crew/writer", "ask ready?"))
	answer := message("crew/writer", "ready")
	answer.Message.TaskId = asked.GetId()
	for range 3 {
		got := r.send(r.context("", "a2a-extensions", uri), answer)
		if got.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED || len(got.GetHistory()) != 3 {
			t.Errorf("an answer that is repeated: %v", got)
		}
	}
}

// TestHTTPTakesWhatTheProtocolHas: both bindings over HTTP refuse values that the protocol does not have,
// and their answers have its media type.
func TestHTTPTakesWhatTheProtocolHas(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const base = "/a2a/crew/writer"
	call := func(method, params string) answer { return r.http("POST", base, rpc(method, params)) }
	for name, got := range map[string]answer{
		"an unknown status, JSON-RPC":  call("ListTasks", `{"status":"TASK_STATE_DREAMING"}`),
		"an unknown status, REST":      r.http("GET", base+"/tasks?status=TASK_STATE_DREAMING", ""),
		"an unknown role, JSON-RPC":    call("SendMessage", `{"message":{"messageId":"m","role":"ROLE_KING","parts":[{"text":"x"}]}}`),
		"an unknown role, REST":        r.http("POST", base+"/message:send", `{"message":{"messageId":"m","role":"ROLE_KING","parts":[{"text":"x"}]}}`),
		"a page of nothing, JSON-RPC":  call("ListTasks", `{"pageSize":0}`),
		"a page of nothing, REST":      r.http("GET", base+"/tasks?pageSize=0", ""),
		"a page above the most, REST":  r.http("GET", base+"/tasks?pageSize=101", ""),
		"a page that is less than one": call("ListTasks", `{"pageSize":-1}`),
	} {
		if !strings.Contains(got.String(), "INVALID_PARAMS") {
			t.Errorf("%s: %v", name, got)
		}
	}
	for accept, want := range map[string]string{"": "application/a2a+json", "*/*": "application/a2a+json", "application/json": "application/json"} {
		if got := r.http("GET", base+"/tasks", "", "Accept", accept); got.status != 200 || got.header.Get("Content-Type") != want {
			t.Errorf("Accept %q: %d %s", accept, got.status, got.header.Get("Content-Type"))
		}
	}
}

// TestWithoutStreamsAndPush: a feature that is switched off is refused, and the card says so.
func TestWithoutStreamsAndPush(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.config.A2AStreaming, r.config.A2APush = false, false })
	card := r.http("GET", "/a2a/crew/writer/.well-known/agent-card.json", "")
	if !strings.Contains(card.String(), `"streaming":false`) || !strings.Contains(card.String(), `"pushNotifications":false`) {
		t.Errorf("the card is %v", card)
	}
	stream, err := r.client.SendStreamingMessage(r.context(""), message("crew/writer", "echo"))
	if err == nil {
		_, err = stream.Recv()
	}
	if reasonIn(err) != "UNSUPPORTED_OPERATION" {
		t.Errorf("a stream: %v", err)
	}
	task := r.send(r.context(""), message("crew/writer", "ask on?"))
	following, err := r.client.SubscribeToTask(r.context(""), &a2apb.SubscribeToTaskRequest{Tenant: "crew/writer", Id: task.GetId()})
	if err == nil {
		_, err = following.Recv()
	}
	if reasonIn(err) != "UNSUPPORTED_OPERATION" {
		t.Errorf("a subscription: %v", err)
	}
	_, err = r.client.CreateTaskPushNotificationConfig(r.context(""), &a2apb.TaskPushNotificationConfig{Tenant: "crew/writer", TaskId: task.GetId(), Url: "https://x.example/"})
	if reasonIn(err) != "PUSH_NOTIFICATION_NOT_SUPPORTED" {
		t.Errorf("a push configuration: %v", err)
	}
}

func reasonIn(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

// TestInputModes: each part must have a media type that the agent accepts, also data, unless the data are
// variables of the agent.
func TestInputModes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	text := &a2apb.Part{Content: &a2apb.Part_Text{Text: "a dog"}}
	data := func(v any, mediaType string) *a2apb.Part {
		value, err := structpb.NewValue(v)
		if err != nil {
			t.Fatal(err)
		}
		return &a2apb.Part{Content: &a2apb.Part_Data{Data: value}, MediaType: mediaType}
	}
	subject := map[string]any{"subject": "a dog"}
	for name, c := range map[string]struct {
		tenant string
		part   *a2apb.Part
		taken  bool
	}{
		"text":                         {"crew/painter", text, true},
		"variables":                    {"crew/painter", data(subject, ""), true},
		"variables that claim a type":  {"crew/painter", data(subject, "application/json"), false},
		"data that are no variables":   {"crew/painter", data([]any{1}, ""), false},
		"data of a type that is taken": {"crew/painter", data([]any{1}, "image/svg+xml"), true},
		"a file of no type":            {"crew/painter", &a2apb.Part{Content: &a2apb.Part_Raw{Raw: []byte("x")}}, true},
		"a file of another type":       {"crew/painter", &a2apb.Part{Content: &a2apb.Part_Raw{Raw: []byte("x")}, MediaType: "audio/wav"}, false},
		"any agent":                    {"crew/writer", data([]any{1}, ""), true},
	} {
		req := &a2apb.SendMessageRequest{Tenant: c.tenant, Message: &a2apb.Message{
			MessageId: name, Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{text, c.part},
		}}
		_, err := r.client.SendMessage(r.context(""), req)
		if got := status.Convert(err).Message(); c.taken != (err == nil) || !c.taken && !strings.Contains(got, "the agent takes") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
