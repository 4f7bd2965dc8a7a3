package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// WallTimer, stateTimer and retryTimer are the timers that a state implies; a
// zero Timer is none.
func WallTimer(s *machine.State) machine.Timer {
	if s == nil || s.Deadline == 0 {
		return machine.Timer{}
	}
	return machine.Timer{Namespace: s.Namespace, Due: s.Deadline, RunID: s.RunID, Kind: machine.TimerWall}
}

// StateTimer is off while the run is paused: a paused run takes no events.
func StateTimer(s *machine.State) machine.Timer {
	if s == nil || s.StateTimeoutAt == 0 || s.Paused {
		return machine.Timer{}
	}
	return machine.Timer{Namespace: s.Namespace, Due: s.StateTimeoutAt, RunID: s.RunID, Kind: machine.TimerState}
}

// RetryTimer begins the next attempt of a turn.
func RetryTimer(s *machine.State) machine.Timer {
	if s == nil || s.Turn == nil || s.Turn.NotBefore == 0 {
		return machine.Timer{}
	}
	return machine.Timer{Namespace: s.Namespace, Due: s.Turn.NotBefore, RunID: s.RunID, Kind: machine.TimerRetry, Turn: s.Turn.Seq}
}

// StepTimer is the deadline of a step.
func StepTimer(s *machine.State, step *machine.ToolStep) machine.Timer {
	return machine.Timer{Namespace: s.Namespace, Due: step.Deadline, RunID: s.RunID, Kind: machine.TimerStep, Step: step.Step}
}

// Timers lists the durable timers that a run must have, no more and no less;
// the store's check compares them with its rows.
// An imported run has none, no outbox rows and no turn to offer.
func Timers(s *machine.State) []machine.Timer {
	if s.Imported {
		return nil
	}
	var timers []machine.Timer
	for _, timer := range [...]machine.Timer{WallTimer(s), RetryTimer(s), StateTimer(s)} {
		if timer.Kind != 0 {
			timers = append(timers, timer)
		}
	}
	for i := range s.Steps {
		if s.Steps[i].AwaitingAnswer() {
			timers = append(timers, StepTimer(s, &s.Steps[i]))
		}
	}
	return timers
}
