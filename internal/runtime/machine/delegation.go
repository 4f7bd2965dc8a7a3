package machine

import "time"

// The vocabulary between whoever sends delegations and whoever reaches agents. It
// stands here for the reason that port.go gives.

// Delegation is one step that is, or was, to be done by an agent.
type Delegation struct {
	// Row is the work; its run, step and attempt name the delegation.
	Row OutboxRow
	// Digest and PackID are the run's pack, Agent the member key that is called.
	Digest string
	PackID string
	Agent  string
	// Payload is the step's, compact JSON.
	Payload []byte
	// Remote is what is known of the other side; zero = nothing yet.
	Remote Remote
	// Answer are the parts of the record Remote.Answer, Answerer who gave it; empty
	// without one.
	Answer   []Part
	Answerer Answerer
	// OnUnknown is the pack's word on a call of which nobody knows whether it was made.
	OnUnknown OnFault
	// Keyed: the step has a business key, which is given back only if the agent did nothing.
	Keyed bool
	// Paused: the run is; nothing is sent to the agent until it goes on.
	Paused bool
	// Execution of the run that delegates: that of its agents in the same sidecar.
	Execution Execution
	// Depth of the run that delegates.
	Depth int
	// WallTime is what was left of the run's when the step was asked for; 0 = no
	// bound. It is the same at each sending, so that a message that is sent again
	// is the same message.
	WallTime time.Duration
	// Lease is what the agent's run may consume at most; zero = no bound.
	Lease Amount
	// Policy is what the agent's run may call at most; nil = no list.
	Policy *ToolPolicy
	// Payer is in whose accounts the agent's run counts itself; nil = in none of this
	// delegation. With one it goes to an agent of this store, whatever is configured by now.
	Payer *Payer
	// Traceparent is the context of the attempt, the same at each sending; "" = the
	// run is in no trace.
	Traceparent string
}

// Answerer is whose word an answer to an agent's question is.
type Answerer struct {
	// Name is the principal's; "" = nobody's in particular.
	Name string
	// Scopes are the names of the rights that it had when it answered.
	Scopes []string
}

// Outcome is what became of a delegation.
type Outcome struct {
	OK bool
	// Result is compact JSON (OK), Error the fault (not OK).
	Result []byte
	Error  Fault
	// Final: no further attempt helps, or may be made.
	Final bool
	// Unknown: nobody knows whether the agent did the work, or does it still; the
	// pack's on_unknown says what follows.
	Unknown bool
	// Usage is what the agent's run consumed, its own delegations included; zero where
	// the agent does not say. Metered: it says all, be it nothing.
	Usage   Usage
	Metered bool
}

// Figures are figures of usage, as a set.
type Figures uint8

const (
	FigureTokens Figures = 1 << iota
	FigureCost
	FigureToolCalls
)

// AgentMessage is what an agent is sent.
type AgentMessage struct {
	// ID is the same for each sending of the same message.
	ID string
	// TaskID and ContextID are set for an answer to a task that asks.
	TaskID    string
	ContextID string
	Parts     []Part
	// Answerer gave the answer; zero for the message that begins a task.
	Answerer Answerer
	// Variables is a compact JSON object or empty.
	Variables []byte
}

// AgentState is how an agent's task stands.
type AgentState uint8

const (
	AgentWorking AgentState = iota + 1
	// AgentAsks and AgentAsksAuth: the task waits for an answer.
	AgentAsks
	AgentAsksAuth
	AgentCompleted
	AgentFailed
	AgentRejected
	AgentCancelled
)

// Ended reports whether nothing changes any more.
func (s AgentState) Ended() bool { return s >= AgentCompleted }

// Asking is the state as a run keeps it.
func (s AgentState) Asking() Awaiting {
	switch s {
	case AgentAsks:
		return AwaitInput
	case AgentAsksAuth:
		return AwaitAuth
	}
	return AwaitNothing
}

// AgentTask is what an agent tells of a task.
type AgentTask struct {
	ID        string
	ContextID string
	State     AgentState
	// Status and Reason are the run's words where the agent is a run of a sidecar,
	// for example "BUDGET_EXHAUSTED" and "max_visits:fix"; else empty.
	Status string
	Reason string
	// Usage is what a run of a sidecar that has ended consumed in all; else zero. Metered:
	// the agent says so, but for the figures that are Untold.
	Usage   Usage
	Metered bool
	Untold  Figures
	// Message is what the task says of its state: a question, or what went wrong.
	Message []Part
	// Output of the last turn, where the agent tells it apart.
	Output    []Part
	Artifacts []AgentArtifact
}

// AgentArtifact is one artifact of a task.
type AgentArtifact struct {
	ID string
	// Name, else the artifact's id.
	Name  string
	Parts []Part
}

// AgentFaultKind is what a fault of an agent means for its delegation.
type AgentFaultKind uint8

const (
	// AgentUnreachable: try again later; nobody knows whether the message arrived.
	AgentUnreachable AgentFaultKind = iota + 1
	// AgentNoTask: the agent does not know the task.
	AgentNoTask
	// AgentRefuses: the agent, or the configuration, says no, and would again.
	AgentRefuses
	// AgentDenies: the agent says no to who asks; it may say yes to somebody else.
	AgentDenies
)

// AgentFault is the error of whoever reaches agents.
type AgentFault struct {
	Kind AgentFaultKind
	// Code is machine-readable, for example "AGENT_UNREACHABLE".
	Code    string
	Message string
	// Unsent: the message did certainly not arrive, or was not taken.
	Unsent bool
}

func (f *AgentFault) Error() string { return f.Code + ": " + f.Message }

// Remote is the other side of a delegation.
type Remote struct {
	// TaskID and ContextID are the agent's; "" = not known.
	TaskID    string
	ContextID string
	// CardURL is where the agent's card lives; "" = a local member.
	CardURL string
	// Asking: the agent waits for an answer.
	Asking Awaiting
	// Answer is the InputReceived record that is to be sent to it; 0 = none.
	Answer uint64
	// Sent says of the message that begins the task whether it may have been sent. Once the
	// task is known it is 0.
	Sent Sending
}

// Sending is what is known of the message that begins a task. It is committed before the message
// leaves, so that a cancellation, a pause and the end of an approval come before or behind it.
type Sending uint8

const (
	// SentOnce: it may have been sent, to an agent that would do it again.
	SentOnce Sending = iota + 1
	// SentRepeatable: it may have been sent, to an agent that takes it once however often it comes.
	SentRepeatable
	// SentNot: each try was certainly in vain: nothing arrived.
	SentNot
)

// MaySend: the message that begins the task may be with the agent, which has not told its task.
func (r *Remote) MayBeSent() bool {
	return r != nil && r.TaskID == "" && (r.Sent == SentOnce || r.Sent == SentRepeatable || r.Sent == 0 && r.CardURL != "")
}

// Unsent: nothing was ever sent to the agent, or nothing arrived.
func (r *Remote) Unsent() bool { return r == nil || r.TaskID == "" && !r.MayBeSent() }

// Announces: the message is about to be sent.
func (r *Remote) Announces() bool {
	return r.TaskID == "" && (r.Sent == SentOnce || r.Sent == SentRepeatable)
}
