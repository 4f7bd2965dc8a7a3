package mcpserver_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/mcpserver"
)

// raw is a client that writes messages itself, because the library has no tasks.
type raw struct {
	t       *testing.T
	in      io.Writer
	answers *json.Decoder
	id      int
}

// message is a message of the server.
type message struct {
	ID     int            `json:"id"`
	Result map[string]any `json:"result"`
	Error  *jsonrpc.Error `json:"error"`
}

// connectRaw serves a client over streams.
func (d *desk) connectRaw() *raw {
	d.t.Helper()
	service, err := mcpserver.New(mcpserver.Config{Conn: d.dial("boss"), TaskWait: time.Millisecond})
	if err != nil {
		d.t.Fatal(err)
	}
	return d.serveRaw(service)
}

// serveRaw serves a client of a service over streams.
func (d *desk) serveRaw(service *mcpserver.Service) *raw {
	d.t.Helper()
	toServer, in := io.Pipe()
	out, fromServer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- service.Serve(context.Background(), "", toServer, fromServer)
	}()
	d.t.Cleanup(func() {
		_ = in.Close()
		if err := <-ended; err != nil {
			d.t.Errorf("serve: %v", err)
		}
	})
	return &raw{t: d.t, in: in, answers: json.NewDecoder(out)}
}

// request sends a request of a client with these extensions, and returns the answer.
func (r *raw) request(method string, params, extensions map[string]any) message {
	r.t.Helper()
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "raw", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{"extensions": extensions, "elicitation": map[string]any{}},
	}
	return r.exchange(map[string]any{"method": method, "params": params})
}

// exchange sends a message with a new id, and returns the answer.
func (r *raw) exchange(m map[string]any) message {
	r.t.Helper()
	r.id++
	m["jsonrpc"], m["id"] = "2.0", r.id
	line, err := json.Marshal(m)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.in.Write(append(line, '\n')); err != nil {
		r.t.Fatal(err)
	}
	for {
		var got message
		if err := r.answers.Decode(&got); err != nil {
			r.t.Fatal(err)
		}
		if got.ID == r.id {
			return got
		}
	}
}

var tasks = map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}

// result returns the result of a request, which must have one.
func (r *raw) result(method string, params map[string]any) map[string]any {
	r.t.Helper()
	got := r.request(method, params, tasks)
	if got.Error != nil {
		r.t.Fatalf("%s: %v", method, got.Error)
	}
	return got.Result
}

// await polls a task until it has a status.
func (r *raw) await(id, status string) map[string]any {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		got := r.result("tasks/get", map[string]any{"taskId": id})
		if got["status"] == status {
			return got
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("the task has the status %v, want %s", got, status)
		}
	}
}

func (r *raw) call(tool string, arguments map[string]any) map[string]any {
	r.t.Helper()
	return r.result("tools/call", map[string]any{"name": tool, "arguments": arguments})
}

// TestTasks: a call that takes longer becomes a task, whose id is that of the run. A restart of the sidecar changes nothing.
func TestTasks(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	client := d.connectRaw()
	discovered := client.result("server/discover", map[string]any{})
	if text, _ := json.Marshal(discovered["capabilities"]); !strings.Contains(string(text), `"io.modelcontextprotocol/tasks":{}`) {
		t.Errorf("capabilities: %s", text)
	}
	created := client.call("desk", map[string]any{"topic": "gate"})
	id, _ := created["taskId"].(string)
	if created["resultType"] != "task" || created["status"] != "working" || id == "" || created["createdAt"] == nil || created["pollIntervalMs"] == nil {
		t.Fatalf("%v", created)
	}
	if _, ok := created["ttlMs"]; !ok {
		t.Errorf("no ttlMs: %v", created)
	}
	run, err := d.runs.GetRun(t.Context(), &pawlv1.GetRunRequest{RunId: id})
	if err != nil || run.GetRun().GetPack().GetId() != "desk" {
		t.Fatalf("the run of the task: %v %v", run, err)
	}
	if got := client.result("tasks/get", map[string]any{"taskId": id}); got["status"] != "working" || got["resultType"] != "complete" {
		t.Errorf("%v", got)
	}
	d.stop()
	d.begin()
	d.work(d.ready.GRPC)
	close(d.gate)
	client = d.connectRaw()
	ended := client.await(id, "completed")
	text, err := json.Marshal(ended["result"])
	if err != nil || !strings.Contains(string(text), `"text":"gate 2|"`) {
		t.Errorf("%v %s", err, text)
	}
}

// TestTaskAsks: the question of a run is an input request of its task, and an answer is taken once.
func TestTaskAsks(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	client := d.connectRaw()
	created := client.call("desk", map[string]any{"topic": "ask"})
	id, _ := created["taskId"].(string)
	asking := client.await(id, "input_required")
	requests, _ := asking["inputRequests"].(map[string]any)
	if len(requests) != 1 {
		t.Fatalf("%v", asking)
	}
	for key, request := range requests {
		text, _ := json.Marshal(request)
		if !strings.Contains(string(text), `"message":"Which colour?"`) || !strings.Contains(string(text), "elicitation/create") {
			t.Errorf("%s", text)
		}
		answer := func(key, action, text string) map[string]any {
			return map[string]any{"taskId": id, "inputResponses": map[string]any{key: map[string]any{"action": action, "content": map[string]any{"answer": text}}}}
		}
		client.result("tasks/update", answer("question-1-0", "accept", "red"))
		client.result("tasks/update", answer(key, "decline", ""))
		if got := client.result("tasks/get", map[string]any{"taskId": id}); got["status"] != "input_required" {
			t.Errorf("after an answer to another question, and a declined one: %v", got)
		}
		for range 2 {
			client.result("tasks/update", answer(key, "accept", "blue"))
		}
	}
	ended := client.await(id, "completed")
	if text, _ := json.Marshal(ended["result"]); !strings.Contains(string(text), `"text":"ask 2|blue"`) {
		t.Errorf("%s", text)
	}
}

// TestTaskEnds: a run that did not complete is a completed task with an error as its result, and a cancelled one is cancelled.
func TestTaskEnds(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	client := d.connectRaw()
	created := client.call("desk", map[string]any{"topic": "gate"})
	id, _ := created["taskId"].(string)
	client.result("tasks/cancel", map[string]any{"taskId": id})
	if got := client.await(id, "cancelled"); got["result"] != nil {
		t.Errorf("%v", got)
	}
	client.result("tasks/cancel", map[string]any{"taskId": id})
	started, err := d.runs.StartRun(t.Context(), &pawlv1.StartRunRequest{Pack: "desk", VariablesJson: `{"topic":"refuse"}`, Execution: pawlv1.Execution_EXECUTION_WORKERS})
	if err != nil {
		t.Fatal(err)
	}
	failed := client.await(started.GetRun().GetRunId(), "completed")
	if text, _ := json.Marshal(failed["result"]); !strings.Contains(string(text), `"isError":true`) || !strings.Contains(string(text), "NO_PAPER") {
		t.Errorf("%s", text)
	}
}

// TestTaskFaults: faults of a client are errors with the codes of the extension.
func TestTaskFaults(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	client := d.connectRaw()
	for name, tc := range map[string]struct {
		method     string
		id         string
		extensions map[string]any
		code       int64
		says       string
	}{
		"an unknown task":           {"tasks/get", "01JZZZZZZZZZZZZZZZZZZZZZZZ", tasks, jsonrpc.CodeInvalidParams, "RUN_NOT_FOUND"},
		"no id":                     {"tasks/cancel", "", tasks, jsonrpc.CodeInvalidParams, "run_id"},
		"not an id":                 {"tasks/update", "seven", tasks, jsonrpc.CodeInvalidParams, "run_id"},
		"a client without tasks":    {"tasks/get", "01JZZZZZZZZZZZZZZZZZZZZZZZ", nil, -32021, "io.modelcontextprotocol/tasks"},
		"an update without them":    {"tasks/update", "01JZZZZZZZZZZZZZZZZZZZZZZZ", nil, -32021, "io.modelcontextprotocol/tasks"},
		"a method of older clients": {"tasks/result", "01JZZZZZZZZZZZZZZZZZZZZZZZ", tasks, jsonrpc.CodeMethodNotFound, "tasks/result"},
	} {
		got := client.request(tc.method, map[string]any{"taskId": tc.id}, tc.extensions)
		if got.Error == nil || got.Error.Code != tc.code || !strings.Contains(got.Error.Message, tc.says) {
			t.Errorf("%s: %v, want %d %s", name, got.Error, tc.code, tc.says)
		}
	}
	if got := client.request("tools/call", map[string]any{"name": "nothing"}, tasks); got.Error == nil || got.Error.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("an unknown tool: %v", got)
	}
}

// TestCallWithoutTasks: a client without tasks gets the id of a run that takes longer, and waits for it by a tool.
func TestCallWithoutTasks(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	service, err := mcpserver.New(mcpserver.Config{Conn: d.dial("boss"), Wait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	toServer, in := io.Pipe()
	out, fromServer := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- service.Serve(context.Background(), "", toServer, fromServer) }()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: out, Writer: in}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := d.call(session, "desk", map[string]any{"topic": "gate"})
	if text := textOf(t, got); got.IsError || !strings.Contains(text, "has not ended") || !strings.Contains(text, "pawl_wait_run") {
		t.Fatalf("%s", text)
	}
	id := field(got, "run_id")
	close(d.gate)
	for {
		got = d.call(session, "pawl_wait_run", map[string]any{"run_id": id})
		if field(got, "status") == "COMPLETED" {
			break
		}
	}
	if text := textOf(t, got); text != "gate 2|" {
		t.Errorf("%q", text)
	}
	if got := d.call(session, "pawl_cancel_run", map[string]any{"run_id": id}); field(got, "status") != "COMPLETED" {
		t.Errorf("a run that has ended: %v", got.StructuredContent)
	}
	if got := d.call(session, "pawl_list_runs", map[string]any{"status": "gone"}); !got.IsError || !strings.Contains(textOf(t, got), "BUDGET_EXHAUSTED") {
		t.Errorf("%s", textOf(t, got))
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
}
