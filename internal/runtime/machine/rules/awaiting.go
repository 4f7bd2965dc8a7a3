package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// envelopeBytes is what an envelope counts against the bound of a run's messages.
func envelopeBytes(e *machine.Envelope) int64 {
	if e == nil {
		return 0
	}
	n := len(e.MessageID) + len(e.ContextID) + len(e.Metadata)
	for _, s := range e.References {
		n += len(s)
	}
	for _, s := range e.Extensions {
		n += len(s)
	}
	return int64(n)
}

// awaitingOf derives what a run waits for: the first delegation that asks, else a person
// where a call is held, else
// what its completed turn asked for, else the outside where that moves it.
func awaitingOf(g *machine.Graph, s *machine.State) machine.Awaiting {
	if s.Status.Terminal() {
		return machine.AwaitNothing
	}
	if asking := asking(s.Steps); asking != nil {
		return asking.Remote.Asking
	}
	switch {
	case s.Undo != nil:
		return machine.AwaitNothing
	case held(s.Steps) != nil:
		return machine.AwaitInput
	case s.Turn == nil && s.Awaiting == machine.AwaitAuth:
		return machine.AwaitAuth
	case s.Turn == nil, g.States[s.Current].Orchestration == machine.External:
		return machine.AwaitInput
	}
	return machine.AwaitNothing
}

// asking returns the first pending delegation whose agent asks, or nil.
func asking(steps []machine.ToolStep) *machine.ToolStep {
	for i := range steps {
		if p := &steps[i]; p.Status == machine.StepStatusPending && p.Remote != nil && p.Remote.Asking != machine.AwaitNothing {
			return p
		}
	}
	return nil
}
