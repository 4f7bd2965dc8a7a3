package a2a

import (
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// reasonRejected is the reason of runs whose work the agent refused.
const reasonRejected = "rejected"

// endState is what an ended run is to its sender.
func endState(status machine.Status, reason string) a2apb.TaskState {
	switch {
	case status == machine.Completed:
		return a2apb.TaskState_TASK_STATE_COMPLETED
	case status == machine.Cancelled:
		return a2apb.TaskState_TASK_STATE_CANCELED
	case status == machine.Failed && reason == reasonRejected:
		return a2apb.TaskState_TASK_STATE_REJECTED
	}
	return a2apb.TaskState_TASK_STATE_FAILED
}

// taskState is what a run is to its sender, as far as its journal says.
func taskState(s *machine.State) a2apb.TaskState {
	switch {
	case s.Status.Terminal():
		return endState(s.Status, s.Reason)
	case s.Awaiting != machine.AwaitNothing:
		return awaitState(s.Awaiting)
	case notStarted(s):
		return a2apb.TaskState_TASK_STATE_SUBMITTED
	}
	return a2apb.TaskState_TASK_STATE_WORKING
}

// stateOf is taskState, or what this process knows beyond the journal: a turn that was
// handed out is worked on before its first record.
func (s *Service) stateOf(state *machine.State) a2apb.TaskState {
	told := taskState(state)
	if told == a2apb.TaskState_TASK_STATE_SUBMITTED && s.cfg.Engine.IsTurnAssigned(state) {
		return a2apb.TaskState_TASK_STATE_WORKING
	}
	return told
}

func awaitState(a machine.Awaiting) a2apb.TaskState {
	if a == machine.AwaitAuth {
		return a2apb.TaskState_TASK_STATE_AUTH_REQUIRED
	}
	return a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
}

// notStarted: no record shows an execution of the first turn yet. A hand-over to a
// worker is recorded with the first thing that it does.
func notStarted(s *machine.State) bool {
	t := s.Turn
	return t != nil && s.Transitions == 1 && t.Seq == s.VisitSeq && t.Attempt == 1 &&
		t.Assigned == machine.Assignment{} && s.LastStep == 0
}

// ended reports a state that never changes.
func ended(state a2apb.TaskState) bool {
	switch state {
	case a2apb.TaskState_TASK_STATE_COMPLETED, a2apb.TaskState_TASK_STATE_FAILED,
		a2apb.TaskState_TASK_STATE_CANCELED, a2apb.TaskState_TASK_STATE_REJECTED:
		return true
	}
	return false
}

// interrupted reports a state in which the sender must act.
func interrupted(state a2apb.TaskState) bool {
	return state == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED || state == a2apb.TaskState_TASK_STATE_AUTH_REQUIRED
}

// settled: a blocking send has its answer.
func settled(state a2apb.TaskState) bool { return ended(state) || interrupted(state) }
