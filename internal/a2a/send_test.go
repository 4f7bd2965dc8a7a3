package a2a_test

import (
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// TestSend is the thinnest way through everything: a message over gRPC, a run, a
// worker's turn, a completed task.
func TestSend(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	task := r.send(r.context(""), message("crew/writer", "hello"))
	if task.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Fatalf("the task is %v", task)
	}
	if got := task.GetArtifacts()[0].GetParts()[0].GetText(); got != "hello" {
		t.Errorf("the artifact is %q", got)
	}
	t.Log(task)
}
