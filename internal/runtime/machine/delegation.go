package machine

import "time"

// The types shared by the code that sends delegations and the code that reaches agents. They are in this
// package for the reason given in store.go.

// Delegation is one step that an agent has to do, or had to do.
type Delegation struct {
	// Row is the outbox row; its run, step and attempt identify the delegation.
	Row OutboxRow
	// Digest and PackID are the run's pack, Agent the member key that is called.
	Digest string
	PackID string
	Agent  string
	// Payload is the step's payload, compact JSON.
	Payload []byte
	// Remote is what is known about the agent's task; zero = not known yet.
	Remote Remote
	// Answer are the parts of the record Remote.Answer, Answerer is the principal that gave the answer; empty
	// without an answer.
	Answer   []Part
	Answerer Answerer
	// OnUnknown is the pack's rule for a call with an unknown outcome.
	OnUnknown OnFault
	// Keyed reports whether the step has a business key. The key is released only if the agent had no effect.
	Keyed bool
	// Paused reports whether the run is paused; no message is sent to the agent until it is resumed.
	Paused bool
	// Execution is the execution of the delegating run; it is also that of its agents in the same sidecar.
	Execution Execution
	// Depth is the depth of the delegating run.
	Depth int
	// WallTime is what was left of the run's wall time when the step was requested; 0 = no bound. It is the
	// same each time, so that a message that is sent again is the same message.
	WallTime time.Duration
	// Lease is what the agent's run may consume at most; zero = no bound.
	Lease Amount
	// Policy is what the agent's run may call at most; nil = no list.
	Policy *ToolPolicy
	// Payer names the accounts that are charged for the agent's run; nil = none for this delegation. A
	// delegation with a payer goes to an agent of this store, even if the configuration has changed since.
	Payer *Payer
	// Traceparent is the trace context of the attempt, the same each time it is sent; "" = the run has no
	// trace.
	Traceparent string
}

// Answerer is the principal that answered an agent's question.
type Answerer struct {
	// Name is the principal's name; "" = no particular principal.
	Name string
	// Scopes are the names of the scopes that the principal had when it answered.
	Scopes []string
}

// Outcome is the result of a delegation.
type Outcome struct {
	OK bool
	// Result is compact JSON (OK), Error the error (not OK).
	Result []byte
	Error  Fault
	// Final means that no further attempt helps, or is allowed.
	Final bool
	// Unknown means that the agent may have done the work, or may still do it. The pack's on_unknown says
	// what follows.
	Unknown bool
	// Usage is what the agent's run consumed, its own delegations included; zero if the agent does not report
	// it. Metered reports whether Usage is complete, even if it is zero.
	Usage   Usage
	Metered bool
}

// Figures is a set of usage figures.
type Figures uint8

const (
	FigureTokens Figures = 1 << iota
	FigureCost
	FigureToolCalls
)

// AgentMessage is a message to an agent.
type AgentMessage struct {
	// ID is the same each time the message is sent.
	ID string
	// TaskID and ContextID are set for an answer to a task that asks a question.
	TaskID    string
	ContextID string
	Parts     []Part
	// Answerer gave the answer; zero for the message that begins a task.
	Answerer Answerer
	// Variables is a compact JSON object or empty.
	Variables []byte
}

// AgentState is the state of an agent's task.
type AgentState uint8

const (
	AgentWorking AgentState = iota + 1
	// AgentAsks and AgentAsksAuth mean that the task waits for an answer.
	AgentAsks
	AgentAsksAuth
	AgentCompleted
	AgentFailed
	AgentRejected
	AgentCancelled
)

// Ended reports whether the task will not change any more.
func (s AgentState) Ended() bool { return s >= AgentCompleted }

// Asking returns the state in the form that a run stores.
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
	// Status and Reason are those of the run if the agent is a run of a sidecar, for example
	// "BUDGET_EXHAUSTED" and "max_visits:fix"; otherwise empty.
	Status string
	Reason string
	// Usage is the total consumption of an ended run of a sidecar; otherwise zero. Metered reports whether
	// the agent reported it, except for the figures in Untold.
	Usage   Usage
	Metered bool
	Untold  Figures
	// Message is the task's message about its state: a question, or an error text.
	Message []Part
	// Output is that of the last turn, if the agent reports it separately.
	Output    []Part
	Artifacts []AgentArtifact
}

// AgentArtifact is one artifact of a task.
type AgentArtifact struct {
	ID string
	// Name is the artifact's name, or its id if it has none.
	Name  string
	Parts []Part
}

// AgentFaultKind is the consequence of an agent's error for its delegation.
type AgentFaultKind uint8

const (
	// AgentUnreachable: try again later; it is not known whether the message arrived.
	AgentUnreachable AgentFaultKind = iota + 1
	// AgentNoTask: the agent does not know the task.
	AgentNoTask
	// AgentRefuses: the agent or the configuration refuses, and would refuse again.
	AgentRefuses
	// AgentDenies: the agent refuses this principal; it may accept another one.
	AgentDenies
)

// AgentFault is the error of the code that reaches agents.
type AgentFault struct {
	Kind AgentFaultKind
	// Code is machine-readable, for example "AGENT_UNREACHABLE".
	Code    string
	Message string
	// Unsent reports whether the message certainly did not arrive or was not accepted.
	Unsent bool
}

func (f *AgentFault) Error() string { return f.Code + ": " + f.Message }

// Remote is the agent's side of a delegation.
type Remote struct {
	// TaskID and ContextID are the agent's ids; "" = not known.
	TaskID    string
	ContextID string
	// CardURL is the URL of the agent's card; "" = a local member.
	CardURL string
	// Asking is what the agent waits for; AwaitNothing = it does not wait for an answer.
	Asking Awaiting
	// Answer is the InputReceived record to send to the agent; 0 = none.
	Answer uint64
	// Sent reports whether the message that begins the task may have been sent. Once the task is known it is
	// 0.
	Sent Sending
}

// Sending is what is known about the message that begins a task. It is committed before the message is sent,
// so that a cancellation, a pause or the end of an approval is clearly before or after it.
type Sending uint8

const (
	// SentOnce: the message may have been sent, to an agent that would execute it again if it came twice.
	SentOnce Sending = iota + 1
	// SentRepeatable: the message may have been sent, to an agent that executes it once even if it comes
	// several times.
	SentRepeatable
	// SentNot: every attempt to send certainly failed, and no message arrived.
	SentNot
)

// MayBeSent reports whether the message that begins the task may have reached the agent, which has not yet
// returned a task.
func (r *Remote) MayBeSent() bool {
	return r != nil && r.TaskID == "" && (r.Sent == SentOnce || r.Sent == SentRepeatable || r.Sent == 0 && r.CardURL != "")
}

// Unsent reports whether no message was sent to the agent, or none arrived.
func (r *Remote) Unsent() bool { return r == nil || r.TaskID == "" && !r.MayBeSent() }

// Announces reports whether the message is about to be sent.
func (r *Remote) Announces() bool {
	return r.TaskID == "" && (r.Sent == SentOnce || r.Sent == SentRepeatable)
}
