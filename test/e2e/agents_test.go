package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// agents is a sidecar that serves an agent, and a worker for it that outlives it.
type agents struct {
	*sidecar
	ctx    context.Context
	client a2apb.A2AServiceClient
	// chunks are written by turns that must write pieces.
	chunks chan string
	// executed counts the executions of turns.
	executed atomic.Int64
}

func newAgents(t *testing.T) *agents {
	t.Helper()
	a := &agents{sidecar: newSidecar(t, "--pack", "testdata/agents.pack.yaml"), chunks: make(chan string)}
	a.start()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	a.ctx = metadata.AppendToOutgoingContext(ctx, "a2a-version", "1.0")
	a.client = a2apb.NewA2AServiceClient(a.dial())
	return a
}

// restart kills the sidecar and starts it again on its data.
func (a *agents) restart() {
	a.t.Helper()
	a.kill()
	a.start()
}

// work runs a worker until the test ends.
func (a *agents) work() {
	a.t.Helper()
	w, err := pawl.NewWorker(pawl.WorkerConfig{
		Conn: a.dial(), ID: "writer", Turns: 4, Retry: 10 * time.Millisecond, Grace: time.Second,
		Prompts: map[string]pawl.TurnFunc{"writer": a.turn},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	a.t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				a.t.Errorf("worker: %v", err)
			}
		case <-time.After(patience):
			a.t.Error("the worker did not end")
		}
	})
}

// turn asks a question, writes pieces until it gets an empty one, or repeats the message that it
// received.
func (a *agents) turn(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
	a.executed.Add(1)
	messages := t.Assignment.GetTurn().GetMessages()
	words := messages[len(messages)-1].GetParts()[0].GetText()
	say := func(s string) []*pawlv1.Part { return []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: s}}} }
	switch words {
	case "ask":
		return pawl.Completion{Await: pawlv1.Awaiting_AWAITING_INPUT, Output: say("which one?")}, nil
	case "write":
		for n := 0; ; n++ {
			select {
			case piece := <-a.chunks:
				if piece == "" {
					return pawl.Completion{Output: say("written")}, nil
				}
				if err := t.Write(ctx, &pawlv1.OutputPiece{Id: "log", Parts: say(piece), Append: n > 0}); err != nil {
					return pawl.Completion{}, err
				}
			case <-ctx.Done():
				return pawl.Completion{}, ctx.Err()
			}
		}
	}
	return pawl.Completion{Output: say("done " + words)}, nil
}

// send sends words, to a task unless it is "", and returns the task.
func (a *agents) send(words, task string, immediately bool) *a2apb.Task {
	a.t.Helper()
	got, err := a.client.SendMessage(a.ctx, &a2apb.SendMessageRequest{
		Tenant: "crew/writer", Configuration: &a2apb.SendMessageConfiguration{ReturnImmediately: immediately},
		Message: &a2apb.Message{MessageId: words, TaskId: task, Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: words}}}},
	})
	if err != nil || got.GetTask() == nil {
		a.t.Fatalf("send %q: %v, %v", words, got, err)
	}
	return got.GetTask()
}

func (a *agents) get(id string) *a2apb.Task {
	a.t.Helper()
	got, err := a.client.GetTask(a.ctx, &a2apb.GetTaskRequest{Tenant: "crew/writer", Id: id})
	if err != nil {
		a.t.Fatal(err)
	}
	return got
}

func (a *agents) subscribe(id string, pairs ...string) grpc.ServerStreamingClient[a2apb.StreamResponse] {
	a.t.Helper()
	stream, err := a.client.SubscribeToTask(metadata.AppendToOutgoingContext(a.ctx, pairs...), &a2apb.SubscribeToTaskRequest{Tenant: "crew/writer", Id: id})
	if err != nil {
		a.t.Fatal(err)
	}
	return stream
}

func (a *agents) push(piece string) {
	a.t.Helper()
	select {
	case a.chunks <- piece:
	case <-a.ctx.Done():
		a.t.Fatal("no turn takes pieces")
	}
}

// until reads up to the event that ok is true for and returns all of them.
func (a *agents) until(stream grpc.ServerStreamingClient[a2apb.StreamResponse], ok func(*a2apb.StreamResponse) bool) []*a2apb.StreamResponse {
	a.t.Helper()
	var got []*a2apb.StreamResponse
	for {
		e, err := stream.Recv()
		if err != nil {
			a.t.Fatalf("behind %v: %v", got, err)
		}
		if got = append(got, e); ok(e) {
			return got
		}
	}
}

func inState(want a2apb.TaskState) func(*a2apb.StreamResponse) bool {
	return func(e *a2apb.StreamResponse) bool {
		return e.GetTask().GetStatus().GetState() == want || e.GetStatusUpdate().GetStatus().GetState() == want
	}
}

func isArtifactUpdate(e *a2apb.StreamResponse) bool { return e.GetArtifactUpdate() != nil }

const (
	submitted     = a2apb.TaskState_TASK_STATE_SUBMITTED
	completed     = a2apb.TaskState_TASK_STATE_COMPLETED
	inputRequired = a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
)

// TestKillAfterSubmitted checks a task that was accepted and that no worker executes yet. It is
// done after the restart, once, under the same id.
func TestKillAfterSubmitted(t *testing.T) {
	t.Parallel()
	a := newAgents(t)
	task := a.send("hello", "", true)
	if task.GetStatus().GetState() != submitted {
		t.Fatalf("the task is %v", task.GetStatus())
	}
	a.restart()
	got := a.get(task.GetId())
	if text := got.GetStatus().GetMessage().GetParts(); len(text) != 1 || !strings.HasPrefix(text[0].GetText(), "The task waits for a worker") {
		t.Errorf("the status has the text %v", text)
	}
	got.Status.Message = nil // Only GetTask has the text.
	if !proto.Equal(got, task) {
		t.Errorf("behind the restart the task is\n%v\nbefore\n%v", got, task)
	}
	stream := a.subscribe(task.GetId())
	a.until(stream, inState(submitted))
	a.work()
	a.until(stream, inState(completed))
	if got := a.get(task.GetId()); got.GetArtifacts()[0].GetParts()[0].GetText() != "done hello" || a.executed.Load() != 1 {
		t.Errorf("executed %d times: %v", a.executed.Load(), got)
	}
	a.kill()
	a.check()
}

// TestKillInAnArtifact checks a kill of the sidecar between two pieces of an artifact. The pieces
// that were sent are there, and the worker continues. A subscriber that reconnects with its last
// position misses nothing and sees nothing twice.
func TestKillInAnArtifact(t *testing.T) {
	t.Parallel()
	a := newAgents(t)
	a.work()
	task := a.send("write", "", true)
	stream := a.subscribe(task.GetId())
	a.push("a")
	a.push("b")
	var last float64
	for range 2 {
		e := a.until(stream, isArtifactUpdate)
		last = e[len(e)-1].GetArtifactUpdate().GetMetadata().GetFields()["pawl.dev/generation"].GetNumberValue()
	}
	a.restart()
	again := a.subscribe(task.GetId(), "last-event-id", strconv.Itoa(int(last)))
	first := a.until(again, func(*a2apb.StreamResponse) bool { return true })[0].GetTask()
	if parts := first.GetArtifacts()[0].GetParts(); len(parts) != 2 {
		t.Errorf("behind the restart the task begins with %v", first)
	}
	a.push("c")
	news := a.until(again, isArtifactUpdate)
	if u := news[len(news)-1].GetArtifactUpdate(); !u.GetAppend() || u.GetArtifact().GetParts()[0].GetText() != "c" {
		t.Errorf("the next piece is %v", u)
	}
	a.push("")
	a.until(again, inState(completed))
	var chunks []string
	for _, p := range a.get(task.GetId()).GetArtifacts()[0].GetParts() {
		chunks = append(chunks, p.GetText())
	}
	if strings.Join(chunks, "") != "abc" || a.executed.Load() != 1 {
		t.Errorf("executed %d times, the artifact is %v", a.executed.Load(), chunks)
	}
	a.kill()
	a.check()
}

// TestKillAtInputRequired: a task that waits for its sender waits after the
// restart, can be subscribed to, and goes on with the answer.
func TestKillAtInputRequired(t *testing.T) {
	t.Parallel()
	a := newAgents(t)
	a.work()
	task := a.send("ask", "", false)
	if task.GetStatus().GetState() != inputRequired {
		t.Fatalf("the task is %v", task.GetStatus())
	}
	a.restart()
	if got := a.get(task.GetId()); !proto.Equal(got, task) {
		t.Errorf("behind the restart the task is\n%v\nbefore\n%v", got, task)
	}
	stream := a.subscribe(task.GetId())
	a.until(stream, inState(inputRequired))
	answered := a.send("this", task.GetId(), false)
	if answered.GetId() != task.GetId() || answered.GetStatus().GetState() != completed || len(answered.GetHistory()) != 3 {
		t.Errorf("answered: %v", answered)
	}
	a.until(stream, inState(completed))
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("behind the end: %v", err)
	}
	a.kill()
	a.check()
}

// TestDrainEndsSubscriptions checks that a sidecar that must stop does not wait for its
// subscribers, but makes them reconnect. A caller that waits for the task of a message gets the
// current task.
func TestDrainEndsSubscriptions(t *testing.T) {
	t.Parallel()
	a := newAgents(t)
	task := a.send("hello", "", true)
	stream := a.subscribe(task.GetId())
	a.until(stream, inState(submitted))
	waiting := make(chan error, 1)
	go func() {
		got, err := a.client.SendMessage(a.ctx, &a2apb.SendMessageRequest{Tenant: "crew/writer", Message: &a2apb.Message{
			MessageId: "m", TaskId: task.GetId(), Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "more"}}},
		}})
		if err == nil && got.GetTask().GetId() != task.GetId() {
			err = fmt.Errorf("it is answered with %v", got)
		}
		waiting <- err
	}()
	eventually(t, "the second message is taken", func() bool { return len(a.get(task.GetId()).GetHistory()) == 2 })
	if code := a.stop(); code != 0 {
		t.Errorf("it ended with code %d", code)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the subscription ended with %v", err)
	}
	select {
	case err := <-waiting:
		if err != nil {
			t.Errorf("the blocking send ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("the blocking send goes on")
	}
	a.check()
}

// TestKillAfterTheEnd checks that an ended task is the same after the restart, and that a reader
// that saw only its beginning gets the rest.
func TestKillAfterTheEnd(t *testing.T) {
	t.Parallel()
	a := newAgents(t)
	a.work()
	task := a.send("hello", "", false)
	a.restart()
	if got := a.get(task.GetId()); !proto.Equal(got, task) {
		t.Errorf("behind the restart the task is\n%v\nbefore\n%v", got, task)
	}
	rest := a.until(a.subscribe(task.GetId(), "last-event-id", "2"), inState(completed))
	if rest[0].GetTask().GetStatus().GetState() != submitted || len(rest) != 4 {
		t.Errorf("the rest is %v", rest)
	}
	if _, err := a.subscribe(task.GetId()).Recv(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a new subscription: %v", err)
	}
	list, err := a.client.ListTasks(a.ctx, &a2apb.ListTasksRequest{Tenant: "crew/writer"})
	if err != nil || len(list.GetTasks()) != 1 || list.GetTotalSize() != 1 {
		t.Errorf("%v, %v", list, err)
	}
	a.kill()
	a.check()
}
