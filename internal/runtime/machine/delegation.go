package machine

import "time"

// Package delivery sends delegations, and package a2a/client connects to agents. Both use the types in this file. They
// are in package machine so that neither package has to import the other.

// Delegation is one step that an agent executes.
type Delegation struct {
	// Row is the outbox row of the step that is delegated. Its run, step and attempt identify the delegation.
	Row OutboxRow
	// Digest and PackID identify the run's pack. Agent is the member key of the agent that is called.
	Digest string
	PackID string
	Agent  string
	// Payload is the payload of the step, as compact JSON.
	Payload []byte
	// Remote is the known state of the agent's task. It is the zero value if nothing is known yet.
	Remote Remote
	// Answer contains the parts of an answer to the agent's question: the record with the seq Remote.Answer. Answerer
	// is the principal that gave this answer. Both are empty if there is no answer.
	Answer   []Part
	Answerer Answerer
	// OnUnknown is the pack's rule for a call with an unknown outcome.
	OnUnknown OnFault
	// Keyed reports whether the step has a business key, which all calls with the same effect share (see [Effect]). The
	// key is released only if the agent certainly had no effect.
	Keyed bool
	// Paused reports whether the run is paused. While it is paused, no message is sent to the agent.
	Paused bool
	// Execution is the execution of the delegating run. If the agent is in the same sidecar, its run gets the same
	// execution.
	Execution Execution
	// Depth is the number of delegations above the delegating run. It is 0 for a run that a caller started.
	Depth int
	// WallTime is the wall time that the run had left when it requested the step. 0 means that there is no bound.
	// WallTime never changes afterwards, so that a repeated message is equal to the first one.
	WallTime time.Duration
	// Lease is the maximum that the agent's run may consume. The zero value means that there is no bound.
	Lease Amount
	// Policy restricts the tools that the agent's run may call. If it is nil, there is no restriction.
	Policy *ToolPolicy
	// Payer names the accounts that are charged for the agent's run. It is nil if there are none. If it is set, the
	// delegation goes to an agent of this store, even if the configuration has changed since.
	Payer *Payer
	// Traceparent is the trace context of the attempt. It is the same each time the delegation is sent.
	// It is "" if the run has no trace.
	Traceparent string
}

// Answerer is the principal that answered an agent's question.
type Answerer struct {
	// Name is the principal's name. It is "" if the answer has no particular principal.
	Name string
	// Scopes are the names of the scopes that the principal had when it answered.
	Scopes []string
}

// Outcome is the result of a delegation.
type Outcome struct {
	OK bool
	// Result is the result as compact JSON, if OK is true. Otherwise Error is set.
	Result []byte
	Error  Fault
	// Final means that the step must not be tried again, because a further attempt would be useless or harmful.
	Final bool
	// Unknown means that the agent may have done the work, or may still do it. The pack's on_unknown
	// decides what happens next.
	Unknown bool
	// Usage is the consumption of the agent's run, including its own delegations. It is zero if the agent does not
	// report usage. Metered reports whether Usage is complete: a complete usage can also be zero.
	Usage   Usage
	Metered bool
}

// Figures is a set of figures of a usage (tokens, cost, tool calls), one bit each. It says for example which figures an
// agent did not report.
type Figures uint8

const (
	FigureTokens Figures = 1 << iota
	FigureCost
	FigureToolCalls
)

// AgentMessage is a message to an agent.
type AgentMessage struct {
	// ID identifies the message. It is the same each time the message is sent.
	ID string
	// TaskID and ContextID are set if the message answers a question of a task.
	TaskID    string
	ContextID string
	Parts     []Part
	// Answerer is the principal that gave the answer. It is the zero value for the message that begins
	// a task.
	Answerer Answerer
	// Variables is a compact JSON object or empty.
	Variables []byte
}

// AgentState is the state of an agent's task.
type AgentState uint8

const (
	AgentWorking AgentState = iota + 1
	// AgentAsks means that the task waits for an input of the caller, and AgentAsksAuth that it waits for an
	// authorisation.
	AgentAsks
	AgentAsksAuth
	AgentCompleted
	AgentFailed
	AgentRejected
	AgentCancelled
)

// Ended reports whether the state of the task is final.
func (s AgentState) Ended() bool { return s >= AgentCompleted }

// Asking returns what the task waits for, as the value that a run stores.
func (s AgentState) Asking() Awaiting {
	switch s {
	case AgentAsks:
		return AwaitInput
	case AgentAsksAuth:
		return AwaitAuth
	}
	return AwaitNothing
}

// AgentTask is a task as the agent reports it.
type AgentTask struct {
	ID        string
	ContextID string
	State     AgentState
	// Status and Reason are set if the agent is a run of a sidecar. They are the status and reason of that run, for example
	// "BUDGET_EXHAUSTED" and "max_visits:fix".
	Status string
	Reason string
	// Usage is the total consumption of an ended run of a sidecar. Otherwise it is zero. Metered
	// reports whether the agent reported its usage. Untold are the figures that it did not report.
	Usage   Usage
	Metered bool
	Untold  Figures
	// Message is the message that explains the state of the task: a question, or an error text.
	Message []Part
	// Output is the output of the last turn, if the agent reports it separately.
	Output    []Part
	Artifacts []AgentArtifact
}

// AgentArtifact is one artifact of a task.
type AgentArtifact struct {
	ID string
	// Name is the name of the artifact. If the artifact has no name, Name is its id.
	Name  string
	Parts []Part
}

// AgentFaultKind is the kind of an error that occurred while an agent was called. It decides what happens to the
// delegation.
type AgentFaultKind uint8

const (
	// AgentUnreachable means that the agent could not be reached, and that the message may have arrived. The delegation
	// is tried again later.
	AgentUnreachable AgentFaultKind = iota + 1
	// AgentNoTask means that the agent does not know the task.
	AgentNoTask
	// AgentRefuses means that the agent or the configuration permanently refuses the delegation.
	AgentRefuses
	// AgentDenies means that the agent refuses this principal, but may accept another principal.
	AgentDenies
)

// AgentFault is the error that a call to an agent returns.
type AgentFault struct {
	Kind AgentFaultKind
	// Code is machine-readable, for example "AGENT_UNREACHABLE".
	Code    string
	Message string
	// Unsent reports whether it is certain that the message did not arrive or was not accepted.
	Unsent bool
}

func (f *AgentFault) Error() string { return f.Code + ": " + f.Message }

// Remote is the known state of an agent's task. The delegating run stores it.
type Remote struct {
	// TaskID and ContextID are the agent's ids. They are "" while they are not known.
	TaskID    string
	ContextID string
	// CardURL is the URL of the agent's card. It is "" if the agent is a member of a pack in this
	// sidecar.
	CardURL string
	// Asking is what the agent waits for from the caller. AwaitNothing means that the agent does not wait.
	Asking Awaiting
	// Answer is the seq of the InputReceived record that still has to be sent to the agent. It is 0 if there is none.
	Answer uint64
	// Sent says what is known about sending the first message of the task. It is 0 after the agent has returned the
	// task.
	Sent Sending
}

// Sending says what is known about sending the first message of a task. It is committed before the message is sent. So
// the journal always shows whether a cancellation, a pause or the end of an approval came before the message.
type Sending uint8

const (
	// SentOnce means that the message may have been sent, and that the agent would execute it again if
	// it arrived twice.
	SentOnce Sending = iota + 1
	// SentRepeatable means that the message may have been sent, and that the agent executes it only
	// once, even if it arrives several times.
	SentRepeatable
	// SentNot means that every attempt to send the message failed and that the message never arrived.
	SentNot
)

// MayBeSent reports whether the message that begins the task may have reached the agent although the
// agent has not returned a task yet.
func (r *Remote) MayBeSent() bool {
	return r != nil && r.TaskID == "" && (r.Sent == SentOnce || r.Sent == SentRepeatable || r.Sent == 0 && r.CardURL != "")
}

// Unsent reports whether certainly no message has reached the agent.
func (r *Remote) Unsent() bool { return r == nil || r.TaskID == "" && !r.MayBeSent() }

// Announces reports whether r says that the first message is about to be sent. The sidecar commits this before it sends
// the message, so after a crash the message may or may not have been sent.
func (r *Remote) Announces() bool {
	return r.TaskID == "" && (r.Sent == SentOnce || r.Sent == SentRepeatable)
}
