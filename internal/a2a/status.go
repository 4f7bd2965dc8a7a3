package a2a

import (
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// reasonRejected is the reason of a run whose work the agent refused.
const reasonRejected = "rejected"

// endState returns the task state of a run that has ended.
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

// taskState returns the task state of a run, computed from the run's journal.
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

// stateOf returns the same as taskState, with one exception: if this process knows that a worker
// executes the first turn, the task is working. The journal has a record of that only later.
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

// notStarted reports whether no record shows an execution of the first turn yet. The assignment to a worker is recorded
// together with the worker's first action.
func notStarted(s *machine.State) bool {
	t := s.Turn
	return t != nil && s.Transitions == 1 && t.Seq == s.VisitSeq && t.Attempt == 1 &&
		t.Assigned == machine.Assignment{} && s.LastStep == 0
}

// ended reports whether the state never changes again.
func ended(state a2apb.TaskState) bool {
	switch state {
	case a2apb.TaskState_TASK_STATE_COMPLETED, a2apb.TaskState_TASK_STATE_FAILED,
		a2apb.TaskState_TASK_STATE_CANCELED, a2apb.TaskState_TASK_STATE_REJECTED:
		return true
	}
	return false
}

// interrupted reports whether the sender must act before the task continues.
func interrupted(state a2apb.TaskState) bool {
	return state == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED || state == a2apb.TaskState_TASK_STATE_AUTH_REQUIRED
}

// endsBlockingSend reports whether a blocking SendMessage returns in this state.
func endsBlockingSend(state a2apb.TaskState) bool { return ended(state) || interrupted(state) }
