package a2a_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// generationOf is the generation of an event.
func generationOf(e *a2apb.StreamResponse) int {
	meta := e.GetTask().GetMetadata()
	switch {
	case e.GetStatusUpdate() != nil:
		meta = e.GetStatusUpdate().GetMetadata()
	case e.GetArtifactUpdate() != nil:
		meta = e.GetArtifactUpdate().GetMetadata()
	}
	return int(meta.GetFields()["pawl.dev/generation"].GetNumberValue())
}

// stateOf returns the state in an event, or 0 if there is none.
func stateOf(e *a2apb.StreamResponse) a2apb.TaskState {
	if e.GetTask() != nil {
		return e.GetTask().GetStatus().GetState()
	}
	return e.GetStatusUpdate().GetStatus().GetState()
}

// until reads a stream up to the first event that matches.
func until(t *testing.T, stream grpc.ServerStreamingClient[a2apb.StreamResponse], want func(*a2apb.StreamResponse) bool) []*a2apb.StreamResponse {
	t.Helper()
	var got []*a2apb.StreamResponse
	for {
		e, err := stream.Recv()
		if err != nil {
			t.Fatalf("after %d events: %v", len(got), err)
		}
		if got = append(got, e); want(e) {
			return got
		}
	}
}

func isState(want a2apb.TaskState) func(*a2apb.StreamResponse) bool {
	return func(e *a2apb.StreamResponse) bool { return stateOf(e) == want }
}

// push sends one piece of output to a turn that waits for it.
func (r *rig) push(piece string) {
	r.t.Helper()
	select {
	case r.workers.push <- piece:
	case <-time.After(patience):
		r.t.Fatal("nobody holds")
	}
}

// immediate sends a message and returns the task at once.
func (r *rig) immediate(tenant, words string) *a2apb.Task {
	r.t.Helper()
	req := message(tenant, words)
	req.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
	return r.send(r.context(""), req)
}

// TestSubscribe: a subscriber receives the current task and then every event until the end of the task,
// also after waits. A subscriber that leaves changes nothing for the task or for other subscribers.
func TestSubscribe(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	task := r.immediate("crew/writer", "hold")
	subscribe := func(ctx context.Context) grpc.ServerStreamingClient[a2apb.StreamResponse] {
		stream, err := r.client.SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{Tenant: "crew/writer", Id: task.GetId()})
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	leaving, leave := context.WithCancel(r.context(""))
	quitter, stayer := subscribe(leaving), subscribe(r.context(""))
	for _, stream := range []grpc.ServerStreamingClient[a2apb.StreamResponse]{quitter, stayer} {
		if first := until(t, stream, func(*a2apb.StreamResponse) bool { return true })[0]; first.GetTask().GetId() != task.GetId() {
			t.Fatalf("the first event is %v", first)
		}
	}
	r.push("one")
	isPiece := func(e *a2apb.StreamResponse) bool { return e.GetArtifactUpdate() != nil }
	until(t, quitter, isPiece)
	leave()
	until(t, stayer, isPiece)
	r.push("two")
	second := until(t, stayer, isPiece)
	if got := second[len(second)-1].GetArtifactUpdate(); !got.GetAppend() || got.GetArtifact().GetParts()[0].GetText() != "two" {
		t.Errorf("the second piece is %v", got)
	}
	late := subscribe(r.context(""))
	first := until(t, late, func(*a2apb.StreamResponse) bool { return true })[0]
	if parts := first.GetTask().GetArtifacts()[0].GetParts(); len(parts) != 2 || stateOf(first) != a2apb.TaskState_TASK_STATE_WORKING {
		t.Errorf("a late subscriber begins with %v", first)
	}
	r.workers.letGo()
	for _, stream := range []grpc.ServerStreamingClient[a2apb.StreamResponse]{stayer, late} {
		until(t, stream, isState(a2apb.TaskState_TASK_STATE_COMPLETED))
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("behind the end: %v", err)
		}
	}
}

// TestSubscribeOverWaits: a subscription to a task that waits for its sender stays open and receives the
// events after the answer. A streamed send ends at the question.
func TestSubscribeOverWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range []struct {
		word string
		wait a2apb.TaskState
	}{{"ask", a2apb.TaskState_TASK_STATE_INPUT_REQUIRED}, {"auth", a2apb.TaskState_TASK_STATE_AUTH_REQUIRED}} {
		sent, err := r.client.SendStreamingMessage(r.context(""), message("crew/writer", c.word+" now?"))
		if err != nil {
			t.Fatal(err)
		}
		got := until(t, sent, isState(c.wait))
		id := got[0].GetTask().GetId()
		stream, err := r.client.SubscribeToTask(r.context(""), &a2apb.SubscribeToTaskRequest{Tenant: "crew/writer", Id: id})
		if err != nil {
			t.Fatal(err)
		}
		until(t, stream, isState(c.wait))
		answer := message("crew/writer", "yes")
		answer.Message.TaskId = id
		r.send(r.context(""), answer)
		if c.wait == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
			if _, err := sent.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("%s: the stream of the send goes on: %v", c.word, err)
			}
		} else {
			until(t, sent, isState(a2apb.TaskState_TASK_STATE_COMPLETED))
		}
		until(t, stream, isState(a2apb.TaskState_TASK_STATE_WORKING))
		until(t, stream, isState(a2apb.TaskState_TASK_STATE_COMPLETED))
	}
}

// frame is one server-sent event.
type frame struct {
	id, event, data string
}

// frames reads server-sent events until want is true or the stream ends.
func frames(t *testing.T, body io.Reader, want func(frame) bool) []frame {
	t.Helper()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	var out []frame
	var now frame
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch key {
		case "id":
			now.id = value
		case "event":
			now.event = value
		case "data":
			now.data = value
		}
		if lines.Text() != "" || now.data == "" {
			continue
		}
		out = append(out, now)
		if want(now) {
			return out
		}
		now = frame{}
	}
	return out
}

// events subscribes over HTTP and reads until want is true or the stream ends.
func (r *rig) events(verb, id, last string, want func(frame) bool) []frame {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, verb, "http://"+r.ready.HTTP+"/a2a/crew/writer/tasks/"+id+":subscribe", http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("A2a-Version", "1.0")
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		content, _ := io.ReadAll(res.Body)
		return []frame{{event: res.Status, data: string(content)}}
	}
	t, ok := r.t.(*testing.T)
	if !ok {
		r.t.Fatal("not in a bench")
	}
	return frames(t, res.Body, want)
}

// TestLastEventID: a reader that comes back with the id of its last event receives the task as of that
// event and all later events, including the end of the task.
func TestLastEventID(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	task := r.immediate("crew/writer", "hold")
	r.push("a")
	seen := r.events(http.MethodPost, task.GetId(), "", func(f frame) bool { return strings.Contains(f.data, `"WORKING"`) || strings.Contains(f.data, `"log"`) })
	r.push("b")
	r.push("c")
	all := r.events(http.MethodGet, task.GetId(), "1", func(f frame) bool { return strings.Contains(f.data, `"c"`) })
	r.workers.letGo()
	r.send(r.context(""), message("crew/writer", "behind"))
	frames := r.events(http.MethodGet, task.GetId(), "1", func(frame) bool { return false })
	if len(frames) != len(all)+2 || !slices.Equal(frames[1:len(all)], all[1:]) {
		t.Fatalf("read in two goes:\n%v\nin one:\n%v", all, frames)
	}
	for i := range frames[1:] {
		last := frames[i+1]
		if last.id == "" {
			t.Fatalf("event %d has no id: %v", i+1, last)
		}
		rest := r.events(http.MethodPost, task.GetId(), last.id, func(frame) bool { return false })
		if !slices.Equal(rest[1:], frames[i+2:]) {
			t.Errorf("behind %s:\n%v\nwant\n%v", last.id, rest[1:], frames[i+2:])
		}
		var first a2apb.StreamResponse
		if err := protojson.Unmarshal([]byte(rest[0].data), &first); err != nil || first.GetTask() == nil {
			t.Errorf("the first event is %v (%v)", rest[0], err)
		}
	}
	if len(seen) == 0 || !strings.Contains(seen[0].data, `"task"`) {
		t.Errorf("a new subscriber saw %v", seen)
	}
	for last, want := range map[string]string{"x": "INVALID_PARAMS", "-1": "INVALID_PARAMS", "999": "INVALID_PARAMS", "": "UNSUPPORTED_OPERATION"} {
		got := r.events(http.MethodGet, task.GetId(), last, func(frame) bool { return false })
		if len(got) != 1 || !strings.Contains(got[0].data, want) {
			t.Errorf("Last-Event-ID %q: %v, want %s", last, got, want)
		}
	}
}

// TestSlowSubscribers: two readers that do not read do not slow down the run or another reader. In the end
// they receive the same events in the same order.
func TestSlowSubscribers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	task := r.immediate("crew/writer", "hold")
	var streams []grpc.ServerStreamingClient[a2apb.StreamResponse]
	for range 3 {
		stream, err := r.client.SubscribeToTask(r.context(""), &a2apb.SubscribeToTaskRequest{Tenant: "crew/writer", Id: task.GetId()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Header(); err != nil {
			t.Fatal(err)
		}
		streams = append(streams, stream)
	}
	// This is more than the windows of a connection hold.
	piece := strings.Repeat("x", 32<<10)
	told := make(chan []*a2apb.StreamResponse, 1)
	go func() {
		var events []*a2apb.StreamResponse
		for {
			e, err := streams[0].Recv()
			if err != nil {
				told <- events
				return
			}
			events = append(events, e)
		}
	}()
	for range 64 {
		r.push(piece)
	}
	r.workers.letGo()
	var fast []*a2apb.StreamResponse
	select {
	case fast = <-told:
	case <-time.After(patience):
		t.Fatal("the fast reader was held up")
	}
	got, err := r.client.GetTask(r.context(""), &a2apb.GetTaskRequest{Tenant: "crew/writer", Id: task.GetId()})
	if err != nil || got.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Fatalf("the run was held up: %v, %v", got.GetStatus(), err)
	}
	for _, slow := range streams[1:] {
		events := until(t, slow, isState(a2apb.TaskState_TASK_STATE_COMPLETED))
		if a, b := tailOf(t, fast), tailOf(t, events); !slices.Equal(a, b) {
			t.Errorf("a slow reader saw %d events, the fast one %d", len(b), len(a))
		}
	}
	if n := len(got.GetArtifacts()[0].GetParts()); n != 64 {
		t.Errorf("the artifact has %d parts", n)
	}
}

// tailOf returns the events after the first one.
func tailOf(t *testing.T, events []*a2apb.StreamResponse) []string {
	t.Helper()
	var out []string
	last := 0
	for _, e := range events[1:] {
		if n := generationOf(e); n < last {
			t.Errorf("generation %d comes behind %d", n, last)
		} else {
			last = n
		}
		out = append(out, string(toJSON(t, e)))
	}
	return out
}

// TestReplyStream: if an executor answers with a message, the stream consists of that message. Otherwise
// the stream begins with the task.
func TestReplyStream(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stream, err := r.client.SendStreamingMessage(r.context(""), message("crew/writer", "hold"))
	if err != nil {
		t.Fatal(err)
	}
	// The stream sends the task although nothing happens.
	first := until(t, stream, func(*a2apb.StreamResponse) bool { return true })[0]
	if first.GetTask() == nil {
		t.Errorf("the first event is %v", first)
	}
	r.workers.letGo()
	until(t, stream, isState(a2apb.TaskState_TASK_STATE_COMPLETED))
}

// TestHandedOut: a task is WORKING for every reader as soon as a worker has its turn, before any record of
// its execution.
func TestHandedOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	task := r.immediate("crew/writer", "hold")
	stream, err := r.client.SubscribeToTask(r.context(""), &a2apb.SubscribeToTaskRequest{Tenant: "crew/writer", Id: task.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	working := isState(a2apb.TaskState_TASK_STATE_WORKING)
	until(t, stream, working)
	got, err := r.client.GetTask(r.context(""), &a2apb.GetTaskRequest{Tenant: "crew/writer", Id: task.GetId()})
	if err != nil || got.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_WORKING {
		t.Errorf("GetTask says %v, %v", got.GetStatus(), err)
	}
	for state, want := range map[a2apb.TaskState]int{a2apb.TaskState_TASK_STATE_WORKING: 1, a2apb.TaskState_TASK_STATE_SUBMITTED: 0} {
		list, err := r.client.ListTasks(r.context(""), &a2apb.ListTasksRequest{Tenant: "crew/writer", Status: state})
		if err != nil || len(list.GetTasks()) != want || want == 1 && list.GetTasks()[0].GetStatus().GetState() != state {
			t.Errorf("%v: %v, %v", state, list, err)
		}
	}
	r.push("a")
	r.workers.letGo()
	for _, e := range until(t, stream, isState(a2apb.TaskState_TASK_STATE_COMPLETED)) {
		if working(e) {
			t.Errorf("WORKING is told again: %v", e)
		}
	}
}

// TestSlowReply: an executor may answer with a message after a long time. A blocking send returns it
// whenever it comes. A stream that has already begun with the task ends with it.
func TestSlowReply(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	type answer struct {
		*a2apb.SendMessageResponse
		error
	}
	blocked := make(chan answer, 1)
	go func() {
		got, err := r.client.SendMessage(r.context(""), message("crew/writer", "slow blocking"))
		blocked <- answer{got, err}
	}()
	stream, err := r.client.SendStreamingMessage(r.context(""), message("crew/writer", "slow stream"))
	if err != nil {
		t.Fatal(err)
	}
	// The stream begins only after the time for a reply instead of the task is over.
	if first := until(t, stream, func(*a2apb.StreamResponse) bool { return true })[0]; first.GetTask() == nil {
		t.Errorf("the first event is %v", first)
	}
	r.workers.letGo()
	got := <-blocked
	if got.error != nil || len(got.GetMessage().GetParts()) != 1 || got.GetMessage().GetParts()[0].GetText() != "blocking" {
		t.Errorf("the blocking send is answered %v", got)
	}
	all := until(t, stream, isState(a2apb.TaskState_TASK_STATE_COMPLETED))
	if parts := all[len(all)-1].GetStatusUpdate().GetStatus().GetMessage().GetParts(); len(parts) != 1 || parts[0].GetText() != "stream" {
		t.Errorf("the stream ends with %v", all[len(all)-1])
	}
}

// TestDisconnect: a task continues after its caller has disconnected.
func TestDisconnect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(r.context(""))
	req := message("crew/writer", "hold")
	req.Message.ContextId = "left"
	ended := make(chan error, 1)
	go func() {
		_, err := r.client.SendMessage(ctx, req)
		ended <- err
	}()
	r.push("begun")
	cancel()
	if err := <-ended; status.Code(err) != codes.Canceled {
		t.Errorf("the call ended with %v", err)
	}
	list, err := r.client.ListTasks(r.context(""), &a2apb.ListTasksRequest{Tenant: "crew/writer", ContextId: "left"})
	if err != nil || len(list.GetTasks()) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	stream, err := r.client.SubscribeToTask(r.context(""), &a2apb.SubscribeToTaskRequest{Tenant: "crew/writer", Id: list.GetTasks()[0].GetId()})
	if err != nil {
		t.Fatal(err)
	}
	// After its header, the stream follows the task.
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	r.workers.letGo()
	until(t, stream, isState(a2apb.TaskState_TASK_STATE_COMPLETED))
}

// TestRPCStream: the frames of JSON-RPC have the id of the request.
func TestRPCStream(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	got := r.http("POST", "/", `{"jsonrpc":"2.0","id":"seven","method":"SendStreamingMessage","params":`+strings.Replace(hello, "hello", "write a b", 1)+`}`)
	if got.header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(got)
	}
	all := frames(t, strings.NewReader(string(got.body)), func(frame) bool { return false })
	for _, f := range all {
		var res struct {
			ID     string
			Result json.RawMessage
		}
		if err := json.Unmarshal([]byte(f.data), &res); err != nil || res.ID != "seven" || len(res.Result) == 0 || f.id == "" {
			t.Errorf("frame %v (%v)", f, err)
		}
	}
	if len(all) != 6 {
		t.Errorf("%d frames", len(all))
	}
}
