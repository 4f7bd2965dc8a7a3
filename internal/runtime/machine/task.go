package machine

import (
	"fmt"
	"math"
)

// Task is what a run that began with a message to an agent is to whoever sent
// it: an A2A task, whose id is the run's.
type Task struct {
	// ContextID groups the tasks of one conversation.
	ContextID string
	// Owner is the principal that sent the message.
	Owner string
	// Tenant is the route that the message came by; "" = the root.
	Tenant string
}

// Envelope is what an inbound message says besides its parts.
type Envelope struct {
	// MessageID is the sender's.
	MessageID string
	ContextID string
	// References are ids of tasks that the message is about.
	References []string
	// Extensions are the URIs that the message claims.
	Extensions []string
	// Metadata is a compact JSON object or empty.
	Metadata []byte
}

// envelopeBytes is what an envelope counts against the bound of a run's messages.
func envelopeBytes(e *Envelope) int64 {
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

// Awaiting is what a WAITING run waits for from outside.
type Awaiting uint8

const (
	AwaitNothing Awaiting = iota
	// AwaitInput: parts, or an event of an external state.
	AwaitInput
	// AwaitAuth: an authorisation that is given elsewhere, then an input.
	AwaitAuth
)

// awaitingOf derives what a run waits for: the first delegation that asks, else
// what its completed turn asked for, else the outside where that moves it.
func awaitingOf(g *Graph, s *State) Awaiting {
	if s.Status.Terminal() {
		return AwaitNothing
	}
	if asking := asking(s.Steps); asking != nil {
		return asking.Remote.Asking
	}
	switch {
	case s.Turn == nil && s.Awaiting == AwaitAuth:
		return AwaitAuth
	case s.Turn == nil, g.States[s.Current].Orchestration == External:
		return AwaitInput
	}
	return AwaitNothing
}

// asking returns the first pending delegation whose agent asks, or nil.
func asking(steps []ToolStep) *ToolStep {
	for i := range steps {
		if p := &steps[i]; p.Status == StepStatusPending && p.Remote != nil && p.Remote.Asking != AwaitNothing {
			return p
		}
	}
	return nil
}

// taskIndexes are the rows by which an owner's tasks are found: newest status
// first, and by context.
func taskIndexes(s *State) []IndexChange {
	if s.Task == nil {
		return nil
	}
	return []IndexChange{
		taskRow(s, true),
		{Index: "context", Value: s.Task.Owner + "\x00" + s.Task.ContextID, Add: true},
	}
}

// taskRow sorts an owner's tasks by the time of their last status, newest first.
func taskRow(s *State, add bool) IndexChange {
	return IndexChange{Index: "task", Value: fmt.Sprintf("%s\x00%016x", s.Task.Owner, uint64(math.MaxInt64-s.StatusAt)), Add: add}
}
