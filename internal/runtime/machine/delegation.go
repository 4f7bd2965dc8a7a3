package machine

import "time"

// The types in this file are shared by two packages: one sends delegations, the other connects to
// agents. store.go explains why the types are in this package.

// Delegation is one step that an agent executes.
type Delegation struct {
	// Row is the outbox row of the step. Its run, step and attempt identify the delegation.
	Row OutboxRow
	// Digest and PackID identify the run's pack. Agent is the member key of the agent that is called.
	Digest string
	PackID string
	Agent  string
	// Payload is the payload of the step, as compact JSON.
	Payload []byte
	// Remote is the known state of the agent's task. It is zero if nothing is known yet.
	Remote Remote
	// Answer are the parts of the record Remote.Answer. Answerer is the principal that gave this answer. Both are empty if there is no
	// answer.
	Answer   []Part
	Answerer Answerer
	// OnUnknown is the pack's rule for a call with an unknown outcome.
	OnUnknown OnFault
	// Keyed reports whether the step has a business key. The key becomes free only if the agent
	// certainly had no effect.
	Keyed bool
	// Paused reports whether the run is paused. While it is paused, no message is sent to the agent.
	Paused bool
	// Execution is the execution of the delegating run. The agent's run in the same sidecar gets the
	// same execution.
	Execution Execution
	// Depth is the depth of the delegating run.
	Depth int
	// WallTime is the part of the run's wall time that was left when the step was requested. 0 means
	// that there is no bound. WallTime never changes, so that a repeated message is equal to the first
	// one.
	WallTime time.Duration
	// Lease is the maximum that the agent's run may consume. Zero means that there is no bound.
	Lease Amount
	// Policy restricts the tools that the agent's run may call. If it is nil, there is no restriction.
	Policy *ToolPolicy
	// Payer names the accounts that are charged for the agent's run. It is nil if there are none. A
	// delegation with a payer is sent to an agent of this store, even if the configuration has changed
	// since.
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
	// Result is the result as compact JSON, if Status is OK. Error is set otherwise.
	Result []byte
	Error  Fault
	// Final means that no further attempt is useful or allowed.
	Final bool
	// Unknown means that the agent may have done the work, or may still do it. The pack's on_unknown
	// decides what happens next.
	Unknown bool
	// Usage is the consumption of the agent's run, including its own delegations. It is zero if the
	// agent does not report usage. Metered reports whether Usage is complete. Usage can be complete and
	// zero.
	Usage   Usage
	Metered bool
}

// Figures is a set of usage figures. Each figure is one bit.
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
	// AgentAsks and AgentAsksAuth mean that the task waits for an answer from the caller.
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

// AgentFaultKind is the kind of an agent's error. It decides what happens to the delegation.
type AgentFaultKind uint8

const (
	// AgentUnreachable means that the agent could not be reached. It is not known whether the message
	// arrived. The delegation is tried again later.
	AgentUnreachable AgentFaultKind = iota + 1
	// AgentNoTask means that the agent does not know the task.
	AgentNoTask
	// AgentRefuses means that the agent or the configuration permanently refuses the delegation.
	AgentRefuses
	// AgentDenies means that the agent refuses this principal, but may accept another principal.
	AgentDenies
)

// AgentFault is the error that the code which reaches agents returns.
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
	// Asking is what the agent waits for. AwaitNothing means that it waits for nothing.
	Asking Awaiting
	// Answer is the InputReceived record that has to be sent to the agent. It is 0 if there is none.
	Answer uint64
	// Sent is what is known about the sending of the message that begins the task. It is 0 after the
	// task is known.
	Sent Sending
}

// Sending is what is known about the message that begins a task. It is committed before the message is
// sent. So the order of the message and a cancellation, a pause or the end of an approval is always
// known.
type Sending uint8

const (
	// SentOnce means that the message may have been sent, and that the agent would execute it again if
	// it arrived twice.
	SentOnce Sending = iota + 1
	// SentRepeatable means that the message may have been sent, and that the agent executes it only
	// once, even if it arrives several times.
	SentRepeatable
	// SentNot means that every attempt to send the message failed and that no message arrived.
	SentNot
)

// MayBeSent reports whether the message that begins the task may have reached the agent although the
// agent has not returned a task yet.
func (r *Remote) MayBeSent() bool {
	return r != nil && r.TaskID == "" && (r.Sent == SentOnce || r.Sent == SentRepeatable || r.Sent == 0 && r.CardURL != "")
}

// Unsent reports whether no message was sent to the agent, or none arrived.
func (r *Remote) Unsent() bool { return r == nil || r.TaskID == "" && !r.MayBeSent() }

// Announces reports whether the record says that the message is about to be sent.
func (r *Remote) Announces() bool {
	return r.TaskID == "" && (r.Sent == SentOnce || r.Sent == SentRepeatable)
}
