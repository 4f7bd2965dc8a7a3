package a2a_test

import (
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestTaskSaysWhatItWaitsFor: GetTask has a text for a task that works, and the text names no worker and no principal.
func TestTaskSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	task := r.immediate("crew/writer", "hold")
	said := func(want string) {
		t.Helper()
		got := r.now(t, "", "crew/writer", task.GetId())
		message := got.GetStatus().GetMessage()
		if state := got.GetStatus().GetState(); state != a2apb.TaskState_TASK_STATE_WORKING || len(message.GetParts()) != 1 {
			t.Fatalf("the task is %s with %v", state, message)
		}
		if message.GetTaskId() != task.GetId() || message.GetContextId() != task.GetContextId() || message.GetRole() != a2apb.Role_ROLE_AGENT {
			t.Errorf("the message is %v", message)
		}
		text := message.GetParts()[0].GetText()
		if !strings.HasPrefix(text, want) || strings.Contains(text, "hands") || strings.Contains(text, "anonymous") {
			t.Errorf("the text is %q, want %q and neither the worker nor a principal", text, want)
		}
	}
	r.push("one") // The worker takes a piece only while it executes the turn.
	said("A worker executes the task (since 20")
	if _, err := pawlv1.NewRunServiceClient(r.conn).PauseRun(r.context(""), &pawlv1.PauseRunRequest{RunId: task.GetId()}); err != nil {
		t.Fatal(err)
	}
	said("The task is paused (since 20")
}
