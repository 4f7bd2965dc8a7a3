package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// StatusOf returns the status of a run that has not ended (semantics §2). It is RUNNING while its turn is ready or being executed. It is
// WAITING while only an input, an outside event, a step's answer or a timer can change it. Whether the run is paused is a separate flag.
func StatusOf(g *machine.Graph, s *machine.State) machine.Status {
	if s.Status.Terminal() {
		return s.Status
	}
	t := s.Turn
	if s.Undo != nil || t == nil || t.Suspended || t.NotBefore != 0 || Asking(s.Steps) != nil || FirstHeld(s.Steps) != nil || g.States[s.Current].Orchestration == machine.External {
		return machine.Waiting
	}
	return machine.Running
}

// ReadyOf reports whether the run's turn must be offered to workers.
func ReadyOf(g *machine.Graph, s *machine.State) bool {
	return s.Execution.Leased() && ExecutableOf(g, s)
}

// ExecutableOf reports whether the run's turn can be executed now.
func ExecutableOf(g *machine.Graph, s *machine.State) bool {
	return !s.Paused && StatusOf(g, s) == machine.Running
}

// RestsOf reports whether no turn can be executed until an input or event arrives from outside. A run whose turn waits for steps does not
// rest. A run whose effects are being undone does not rest either.
func RestsOf(g *machine.Graph, s *machine.State) bool {
	return s.Status.Terminal() || s.Undo == nil && (s.Turn == nil || g.States[s.Current].Orchestration == machine.External)
}

// AwaitingOf returns what a run waits for. If it waits for several things, the first of this list is
// returned: an answer to an agent's question; a person's decision about a held call; what its completed
// turn requested to wait for; an input or event from outside, if that can change the run.
func AwaitingOf(g *machine.Graph, s *machine.State) machine.Awaiting {
	if s.Status.Terminal() {
		return machine.AwaitNothing
	}
	if asking := Asking(s.Steps); asking != nil {
		return asking.Remote.Asking
	}
	switch {
	case s.Undo != nil:
		return machine.AwaitNothing
	case FirstHeld(s.Steps) != nil:
		return machine.AwaitInput
	case s.Turn == nil && s.Awaiting == machine.AwaitAuth:
		return machine.AwaitAuth
	case s.Turn == nil, g.States[s.Current].Orchestration == machine.External:
		return machine.AwaitInput
	}
	return machine.AwaitNothing
}

// TurnAwaitingOf returns what the last turn of a run requested to wait for, even if the run now waits
// for something different. An agent's question is not a request of the turn.
func TurnAwaitingOf(s *machine.State) machine.Awaiting {
	switch {
	case s.Status.Terminal() || s.Turn != nil:
		return machine.AwaitNothing
	case Covered(s):
		return s.TurnAwaiting
	}
	return s.Awaiting
}

// Covered reports whether the run now waits for something different from what its last turn requested
// to wait for.
func Covered(s *machine.State) bool {
	return s.Undo != nil || Asking(s.Steps) != nil || FirstHeld(s.Steps) != nil
}

// Asking returns the first pending delegation whose agent asks a question, or nil.
func Asking(steps []machine.ToolStep) *machine.ToolStep {
	for i := range steps {
		if p := &steps[i]; p.Status == machine.StepStatusPending && p.Remote != nil && p.Remote.Asking != machine.AwaitNothing {
			return p
		}
	}
	return nil
}

// FirstHeld returns the first call that waits for a decision, or nil.
func FirstHeld(steps []machine.ToolStep) *machine.ToolStep {
	for i := range steps {
		if steps[i].HeldForApproval() {
			return &steps[i]
		}
	}
	return nil
}

// OutcomeAt returns the status and reason of a run that completes in this terminal state.
func OutcomeAt(n *machine.Node) (machine.Status, string) {
	if n.Outcome == machine.Failed {
		return machine.Failed, "outcome:" + n.Name
	}
	return machine.Completed, "completed"
}
