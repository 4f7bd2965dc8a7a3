package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// WallTimer returns the timer of the run's wall time. Like the other functions in this file, it returns
// a zero Timer if the state needs no such timer.
func WallTimer(s *machine.State) machine.Timer {
	if s == nil || s.Deadline == 0 {
		return machine.Timer{}
	}
	return machine.Timer{Namespace: s.Namespace, Due: s.Deadline, RunID: s.RunID, Kind: machine.TimerWall}
}

// StateTimer returns the timer of the state's timeout. A paused run has no such timer, because it
// accepts no events.
func StateTimer(s *machine.State) machine.Timer {
	if s == nil || s.StateTimeoutAt == 0 || s.Paused {
		return machine.Timer{}
	}
	return machine.Timer{Namespace: s.Namespace, Due: s.StateTimeoutAt, RunID: s.RunID, Kind: machine.TimerState}
}

// RetryTimer returns the timer that starts the next attempt of a turn.
func RetryTimer(s *machine.State) machine.Timer {
	if s == nil || s.Turn == nil || s.Turn.NotBefore == 0 {
		return machine.Timer{}
	}
	return machine.Timer{Namespace: s.Namespace, Due: s.Turn.NotBefore, RunID: s.RunID, Kind: machine.TimerRetry, Turn: s.Turn.Seq}
}

// StepTimer returns the timer of a step's deadline.
func StepTimer(s *machine.State, step *machine.ToolStep) machine.Timer {
	return machine.Timer{Namespace: s.Namespace, Due: step.Deadline, RunID: s.RunID, Kind: machine.TimerStep, Step: step.Step}
}

// Timers returns exactly the durable timers that a run must have. The check of a store compares them
// with the stored timer rows. For an imported run it returns none.
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
