package mcpserver_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/mcpserver"
)

// post sends a body to /mcp of a desk and returns the status and the answer.
func (d *desk) post(ctx context.Context, body string, headers ...string) (*http.Response, string) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.ready.HTTP+"/mcp", strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", "Bearer "+secret("boss"))
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		d.t.Fatal(err)
	}
	return resp, string(text)
}

// TestBadRequests: what a client must not send is answered as an error, and the sidecar goes on.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for name, tc := range map[string]struct {
		body string
		code int
		says string
	}{
		"tasks/get without params":    {`{"jsonrpc":"2.0","id":1,"method":"tasks/get"}`, 200, "params are required"},
		"tasks/get with null":         {`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":null}`, 200, "params are required"},
		"tasks/update without params": {`{"jsonrpc":"2.0","id":1,"method":"tasks/update"}`, 200, "params are required"},
		"tasks/cancel without params": {`{"jsonrpc":"2.0","id":1,"method":"tasks/cancel"}`, 200, "params are required"},
		"a call without params":       {`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, 400, "params"},
		"a batch":                     {" \n[" + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"tools/list"},`, 3) + `{"jsonrpc":"2.0","id":1,"method":"tools/list"}]`, 400, "no batches"},
		"a subscription": {`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, 200, "subscriptions/listen"},
	} {
		var headers []string
		if name == "a subscription" {
			headers = []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen"}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		resp, text := d.post(ctx, tc.body, headers...)
		cancel()
		if name == "a subscription" {
			resp.StatusCode = tc.code // the library maps an unknown method to 404
		}
		if resp.StatusCode != tc.code || !strings.Contains(text, tc.says) {
			t.Errorf("%s: %d %s, want %d %s", name, resp.StatusCode, text, tc.code, tc.says)
		}
	}
	client := d.connectRaw()
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		if got := client.exchange(map[string]any{"method": method}); got.Error == nil {
			t.Errorf("%s without params: %v", method, got)
		}
	}
	if got := textOf(t, d.call(d.connect("boss", "", nil), "desk", map[string]any{"topic": "stars"})); got != "stars 2|" {
		t.Errorf("afterwards: %q", got)
	}
}

// TestRepeatedCallAfterDeployment: a repeated call gets its run, also if the pack has another default version by then.
func TestRepeatedCallAfterDeployment(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	call := func() string {
		got, err := d.connect("boss", "", nil).CallTool(t.Context(), &sdk.CallToolParams{
			Meta: sdk.Meta{"dev.pawl/idempotency-key": "order-17"}, Name: "desk", Arguments: map[string]any{"topic": "stars"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return field(got, "run_id")
	}
	first := call()
	packs := pawlv1.NewPackServiceClient(d.dial("boss"))
	if _, err := packs.RegisterPack(t.Context(), &pawlv1.RegisterPackRequest{Content: []byte(strings.Replace(deskPack, "version: 1.0.0", "version: 2.0.0", 1)), MakeDefault: new(true)}); err != nil {
		t.Fatal(err)
	}
	if second := call(); first == "" || second != first {
		t.Errorf("runs %s and %s, want one", first, second)
	}
}

// unreadable is a connection over which runs can be started, but not read.
type unreadable struct{ grpc.ClientConnInterface }

func (u unreadable) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	for _, read := range []string{"/WaitRun", "/GetRun", "/ListTransitions"} {
		if strings.HasSuffix(method, read) {
			return status.Error(codes.ResourceExhausted, "RATE_LIMITED: too many requests")
		}
	}
	return u.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

// TestStartedRunIsNamed: if a run has started, but cannot be read, the result names it, so that the client starts no second
// one. The answer to a poll of a task is an error then, not an end of the task.
func TestStartedRunIsNamed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	service, err := mcpserver.New(mcpserver.Config{Conn: unreadable{d.dial("boss")}})
	if err != nil {
		t.Fatal(err)
	}
	client := d.serveRaw(service)
	called := client.request("tools/call", map[string]any{"name": "desk", "arguments": map[string]any{"topic": "stars"}}, nil)
	content, _ := called.Result["structuredContent"].(map[string]any)
	id, _ := content["run_id"].(string)
	if run, err := d.runs.GetRun(t.Context(), &pawlv1.GetRunRequest{RunId: id}); err != nil || run.GetRun().GetPack().GetId() != "desk" || called.Result["isError"] == true {
		t.Fatalf("%v, %v", called, err)
	}
	if got := client.request("tasks/get", map[string]any{"taskId": id}, tasks); got.Error == nil || !strings.Contains(got.Error.Message, "RATE_LIMITED") {
		t.Errorf("a poll: %v", got)
	}
}

// TestStopWithOpenCall: a sidecar that stops answers the calls that wait, with the id of the run.
func TestStopWithOpenCall(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	session := d.connect("boss", "", nil)
	ended := make(chan *sdk.CallToolResult, 1)
	go func() {
		got, err := session.CallTool(context.Background(), &sdk.CallToolParams{Name: "desk", Arguments: map[string]any{"topic": "gate"}})
		if err != nil {
			t.Errorf("the open call: %v", err)
		}
		ended <- got
	}()
	for {
		listed, err := d.runs.ListRuns(t.Context(), &pawlv1.ListRunsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if len(listed.GetRuns()) > 0 {
			break
		}
	}
	// The turn ends with the stop, because its worker loses the sidecar. The desk allows a minute for the stop.
	d.stop()
	if got := <-ended; got != nil && (field(got, "run_id") == "" || got.IsError) {
		t.Errorf("%v", got.StructuredContent)
	}
}

// TestListChanged: a client over streams gets a notification about a new pack without a request.
func TestListChanged(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	service, err := mcpserver.New(mcpserver.Config{Conn: d.dial("boss"), Refresh: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	toServer, in := io.Pipe()
	out, fromServer := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- service.Serve(context.Background(), "", toServer, fromServer) }()
	changed := make(chan struct{}, 100)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} },
	})
	session, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: out, Writer: in}, nil)
	if err != nil {
		t.Fatal(err)
	}
	packs := pawlv1.NewPackServiceClient(d.dial("boss"))
	if _, err := packs.RegisterPack(t.Context(), &pawlv1.RegisterPackRequest{Content: []byte(strings.Replace(deskPack, "id: desk", "id: second", 1))}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Error("no notification")
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	<-ended // its error depends on which end of the streams is closed first
}

// TestForeignRequestState: the state of a call is a run of the same agent.
func TestForeignRequestState(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := field(d.call(d.connect("boss", "", nil), "desk", map[string]any{"topic": "stars"}), "run_id")
	got := d.connectRaw().request("tools/call", map[string]any{"name": "desk__echo", "arguments": map[string]any{"message": "x"}, "requestState": run}, nil)
	if got.Error == nil || !strings.Contains(got.Error.Message, "requestState") {
		t.Errorf("%v", got)
	}
}
