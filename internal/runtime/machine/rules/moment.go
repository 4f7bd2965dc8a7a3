package rules

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Moment is the state and the status of a run after one of its records. It is computed from the records alone, so that
// a reader of records needs no replay.
type Moment struct {
	// State is the state of the workflow.
	State string
	// open reports whether a turn is open and not suspended. pausing reports whether it is in the pause before its next
	// attempt, and undoing whether effects are being undone.
	open, pausing, undoing bool
	// asking are the pending steps that wait for an approval or for an answer to the question of an agent.
	asking []uint32
	// ended is the status of a run that has ended.
	ended machine.Status
}

// Status returns the same status as [StatusOf].
func (m Moment) Status(g *machine.Graph) machine.Status {
	switch {
	case m.ended != machine.StatusUnset:
		return m.ended
	case !m.open || m.pausing || m.undoing || len(m.asking) > 0 || g.States[m.State].Orchestration == machine.External:
		return machine.Waiting
	}
	return machine.Running
}

// After returns the moment after one more record. The first record must be one that begins a visit.
func (m Moment) After(body machine.Body) Moment {
	switch b := body.(type) {
	case *machine.Transition:
		return Moment{State: b.To, open: !b.AwaitsInput}
	case *machine.Origin:
		return Moment{State: b.State.Current, open: b.State.Turn != nil}
	case *machine.TurnOpened, *machine.TurnReady:
		m.open, m.pausing = true, false
	case *machine.TurnCompleted, *machine.TurnAbandoned, *machine.TurnSuspended, *machine.Stopped:
		m.open, m.pausing = false, false
	case *machine.TurnFailed:
		m.open, m.pausing = b.Next != 0, b.NotBefore != 0
	case *machine.CompensationStarted:
		m.undoing = true
	case *machine.Ended:
		m.ended = b.Status
	default:
		m.asking = m.askingAfter(body)
		m.pausing = m.pausing && !executes(body)
	}
	return m
}

// executes reports whether an execution of the turn made the record. The record then also ends the pause before the
// attempt, because the executor has begun without waiting for the end of the pause.
func executes(body machine.Body) bool {
	switch b := body.(type) {
	case *machine.TurnAssigned, *machine.OutputWritten, *machine.StepRejected:
		return true
	case *machine.StepRequested:
		return b.About == nil
	case *machine.ModelUpdated:
		return b.Changed
	case *machine.StepResolved:
		return b.Error == executionLost
	}
	return false
}

// askingAfter returns the steps that wait for a person after one more record.
func (m Moment) askingAfter(body machine.Body) []uint32 {
	var step uint32
	asks := false
	switch b := body.(type) {
	case *machine.StepRequested:
		step, asks = b.Step, b.Hold != nil
	case *machine.StepDecided:
		step, asks = b.Step, b.Verdict == machine.Expired
	case *machine.StepDelegated:
		step, asks = b.Step, b.Remote.Asking != machine.AwaitNothing
	case *machine.InputReceived:
		step = b.Step
	case *machine.StepResolved:
		step = b.Step
	case *machine.StepCancelled:
		step = b.Step
	default:
		return m.asking
	}
	at := slices.Index(m.asking, step)
	switch {
	case asks && at < 0:
		return append(slices.Clip(m.asking), step)
	case !asks && at >= 0:
		return slices.Delete(slices.Clone(m.asking), at, at+1)
	}
	return m.asking
}
