package machine

import "time"

// Input is one thing that happens to a run, with all external data stamped into it. It is stored unchanged;
// replay gives it to Step again.
type Input struct {
	// At is Unix nanoseconds; Step raises it to the state's At, so that time
	// never goes back within a run.
	At        int64
	Principal string
	// ID is the caller's idempotency id (event_id, write_id, message_id, request_id, ...); "" = none. Unique
	// per run and kind of command.
	ID string
	// BodyHash covers the data that must be equal in a repeat: event and canonical artifacts, but not
	// expected_seq or token.
	BodyHash [32]byte
	// Semantics is the version of the rules that applies to the input, stamped by the host ([Current]); 0 =
	// [SemanticsFirst].
	Semantics Semantics
	// Billed are the operator's accounts in which the input is counted, by name; none for inputs that consume
	// no tokens or cost.
	Billed  []Bill
	Command Command
	// Fills are the payloads of steps that the sidecar itself requests by this input.
	Fills []Fill
}

// Command is the kind of an Input and its fields; one of the types below.
type Command interface{ command() CommandKind }

// KindOf returns the kind of a command.
func KindOf(c Command) CommandKind { return c.command() }

// CommandKind numbers the commands; the numbers are stored, never renumber.
type CommandKind uint8

const (
	CmdStart CommandKind = iota + 1
	CmdEmitEvent
	CmdSendInput
	CmdSetArtifacts
	CmdCompleteTurn
	CmdFailTurn
	CmdSuspendTurn
	CmdRequestSteps
	CmdResolveStep
	CmdFireTimer
	CmdPause
	CmdResume
	CmdCancel
	CmdLoseTurn
	CmdLoseStep
)

// Commands of agents are numbered from 30.
const (
	CmdWriteOutput CommandKind = iota + 30
	CmdNoteDelegation
)

type (
	// Start begins a run; State must be nil.
	Start struct {
		Namespace     uint32
		RunID         string
		EntryOverride bool
		Execution     Execution
		// Variables is one compact JSON object, defaults already applied.
		Variables []byte
		// Input is the first message of the entry visit; empty = none.
		Input  []Part
		Labels []Label
		Limits Limits
		Parent *Parent
		Depth  int
		// Task and Envelope are set for runs that began with a message to an agent.
		Task     *Task
		Envelope *Envelope
		// MaxWallTime lowers the pack's budget (delegations); 0 = the pack's.
		MaxWallTime time.Duration
		// MaxSteps lowers the pack's max_steps (RFC-103 context.max_steps); 0 = the pack's.
		MaxSteps int
		// Lease is the maximum that the delegating step lets the run consume; zero = no lease.
		Lease Amount
		// Policy restricts the tools of the run, set by the delegating step; nil = only the run's own pack
		// applies.
		Policy *ToolPolicy
		// Payer names the accounts that are charged for the run if a step with Local starts it. Only the
		// sidecar itself sets it.
		Payer *Payer
	}
	// EmitEvent requests a transition. The caller never names the successor.
	EmitEvent struct {
		Event     string
		Artifacts []ArtifactWrite
		// ExpectedSeq must equal the run's VisitSeq; 0 = not checked.
		ExpectedSeq uint64
		// Outside reports whether the event comes from a principal with events:external and not from the
		// turn's holder.
		Outside bool
		// Assigned is the delivery that executed the turn; nil for CALLER.
		Assigned *Assignment
	}
	// SendInput gives parts to the next turn of the visit.
	SendInput struct {
		Parts []Part
		// ExpectedSeq must equal the run's VisitSeq; 0 = not checked.
		ExpectedSeq uint64
		Envelope    *Envelope
		// Step sends the parts to the agent of a pending delegation that asks for them; 0 = to the turn.
		Step uint32
		// Scopes are the names of the sender's scopes if Step is set. They are stored because the sender is
		// no longer connected when the answer is sent on.
		Scopes []string
	}
	// SetArtifacts writes without a transition.
	SetArtifacts struct {
		Artifacts   []ArtifactWrite
		ExpectedSeq uint64
	}
	// CompleteTurn ends the open turn with an output and optionally an event.
	CompleteTurn struct {
		TurnSeq  uint64
		Attempt  int
		Output   []Part
		Messages []Message
		Usage    Usage
		// Event moves the run; "" = none.
		Event       string
		Artifacts   []ArtifactWrite
		ExpectedSeq uint64
		// Outside reports whether a principal with events:external completes the turn in a state of
		// orchestration external; then the completion carries no event.
		Outside  bool
		Assigned *Assignment
		// Await makes the run wait for an input in any state, terminal ones included; not allowed with an
		// Event.
		Await Awaiting
		// Reply sends the output to the requesting agent as a message, not as a task.
		Reply bool
		// ConversationThroughStep is the MODEL step up to which the messages of the turn join the
		// conversation, before Messages; 0 = none.
		ConversationThroughStep uint32
	}
	// FailTurn reports a failed execution.
	FailTurn struct {
		TurnSeq   uint64
		Attempt   int
		Error     Fault
		Retryable bool
		Usage     Usage
		Assigned  *Assignment
		// Reject means that the agent refuses the work; the run ends FAILED(rejected). Not allowed with
		// Retryable.
		Reject bool
		// Rejected is the MODEL step of the turn that has the answer that the executor rejects; 0 = none.
		Rejected uint32
	}
	// SuspendTurn releases a turn until its pending steps are answered.
	SuspendTurn struct {
		TurnSeq  uint64
		Attempt  int
		Assigned *Assignment
	}
	// RequestSteps requests tool calls of the open turn, in order.
	RequestSteps struct {
		TurnSeq  uint64
		Attempt  int
		Requests []StepRequest
		// First is the ordinal, from 1, of Requests[0] among the requests of this execution (one token, one
		// delivery). The host counts them, replayed and refused ones included, so that a repeated execution
		// finds its steps under the same default keys. 0 = continue from Turn.Requests.
		First int
		// Assigned is the delivery; a new one is a new execution, and its default keys count from 1. For
		// CALLER it is nil, or {Delivery: n} for the n-th token; without a Worker no TurnAssigned is
		// recorded.
		Assigned *Assignment
	}
	// ResolveStep answers a step. The authority was checked before.
	ResolveStep struct {
		Step    uint32
		Tool    string
		Attempt int
		OK      bool
		// Result is compact JSON (OK), Error the error (not OK).
		Result []byte
		Error  Fault
		// Worker executed it; "" = ResolveStep by a caller.
		Worker string
		// Final means that no attempt follows an error, even if the tool allows more.
		Final bool
		// RetryAfter is the pause before the next attempt, requested with the failure.
		RetryAfter time.Duration
		// Usage is what the run of a delegation consumed, its own delegations included; zero for all other
		// steps.
		Usage Usage
		// Unknown means that the tool may have run; on_unknown says what follows.
		Unknown bool
		// Metered reports whether Usage is the complete consumption, even if zero. Otherwise the maximum
		// consumption of the step is counted.
		Metered bool
	}
	// FireTimer is a durable timer that came due.
	FireTimer struct {
		Kind TimerKind
		// Step is set for step timers; Turn, the turn's seq, for retry timers.
		Step uint32
		Turn uint64
		// Due is the timer's own time. The command is ignored if the timer was replaced.
		Due int64
	}
	// Pause sets the paused flag.
	Pause struct{ Note string }
	// Resume clears the paused flag.
	Resume struct{ Note string }
	// Cancel ends the run CANCELLED.
	Cancel struct{ Note string }
	// LoseTurn reports that the executor of the open turn is gone. LeaseExpired counts an attempt;
	// Undeliverable (ten disconnects) ends the run.
	LoseTurn struct {
		TurnSeq       uint64
		Attempt       int
		LeaseExpired  bool
		Undeliverable bool
		Assigned      *Assignment
	}
	// LoseStep reports that the executor of a pending step is gone; the step's outcome is unknown.
	LoseStep struct {
		Step    uint32
		Attempt int
		Worker  string
	}
	// WriteOutput stores a piece of the output of the open turn.
	WriteOutput struct {
		TurnSeq  uint64
		Attempt  int
		Piece    OutputPiece
		Assigned *Assignment
	}
	// NoteDelegation records the known state of a delegation that is under way.
	NoteDelegation struct {
		Step    uint32
		Attempt int
		Remote  Remote
		// Question is what the agent asks if Remote.Asking is set; else empty.
		Question []Part
	}
)

func (Start) command() CommandKind        { return CmdStart }
func (EmitEvent) command() CommandKind    { return CmdEmitEvent }
func (SendInput) command() CommandKind    { return CmdSendInput }
func (SetArtifacts) command() CommandKind { return CmdSetArtifacts }
func (CompleteTurn) command() CommandKind { return CmdCompleteTurn }
func (FailTurn) command() CommandKind     { return CmdFailTurn }
func (SuspendTurn) command() CommandKind  { return CmdSuspendTurn }
func (RequestSteps) command() CommandKind { return CmdRequestSteps }
func (ResolveStep) command() CommandKind  { return CmdResolveStep }
func (FireTimer) command() CommandKind    { return CmdFireTimer }
func (Pause) command() CommandKind        { return CmdPause }
func (Resume) command() CommandKind       { return CmdResume }
func (Cancel) command() CommandKind       { return CmdCancel }
func (LoseTurn) command() CommandKind     { return CmdLoseTurn }
func (LoseStep) command() CommandKind     { return CmdLoseStep }
func (WriteOutput) command() CommandKind  { return CmdWriteOutput }

func (NoteDelegation) command() CommandKind { return CmdNoteDelegation }

// ArtifactWrite is one value for one artifact. JSON values are compact.
type ArtifactWrite struct {
	Name  string
	Value []byte
	// Form and Type are what the caller says about the value; zero = not given. They must agree with the
	// declaration and are neither stored nor hashed.
	Form Form
	Type string
}

// StepRequest is one tool call that a turn requests.
type StepRequest struct {
	// Key is unique in the visit; "" = the request's ordinal in the attempt.
	Key  string
	Tool string
	// Payload is compact JSON.
	Payload []byte
	// PayloadHash is SHA-256 of the canonical payload, stamped by the host.
	PayloadHash [32]byte
	// Reframe counts one against max_reframes.
	Reframe bool
	// Call is the call in a model's answer that this request makes; the key is derived from it. nil = none.
	Call *CallRef
	// ByCaller means that the requesting caller makes the call itself, in all attempts, and no worker gets
	// it. The host clears it in requests made under a lease and in requests for agents.
	ByCaller bool
	// Holding is the host's result for the tool's approval condition (x_pawl.tools.NAME.approve).
	Holding Holding
	// Denied is the host's refusal (operator's allowlist, JSON Schema of the parameters); nil = none. It is
	// stamped because it depends on more than the pack.
	Denied *Denial
	// Effect is the business key of the call (x_pawl.tools.dedupe), stamped by the host: equal for all calls
	// that would have the same effect. Zero = none.
	Effect [32]byte
	// Policy is the operator's allowlist, stamped by the host for calls of agents only: it is sent with the
	// delegation. nil = every tool is allowed, and the agent is not named in the list.
	Policy *ToolPolicy
	// Local reports whether the called agent is in this store, stamped by the host. The run of a local agent
	// is counted separately in the operator's accounts.
	Local bool
}

// Denial is the reason for refusing a step before it got a number.
type Denial struct{ Code, Message string }

// Codes of denials by the tool policy.
const (
	// ToolNotAllowed: the allowlist of the operator, or of a run above, does not name the tool.
	ToolNotAllowed = "TOOL_NOT_ALLOWED"
	// ToolBlocked: the blocklist of the prompt, or of a run above, names the tool.
	ToolBlocked = "TOOL_BLOCKED"
)

// Fault is an error as data. Trace is the stack trace in the reporter's code, for debugging; "" = not given.
type Fault struct{ Code, Message, Trace string }

// Usage is what an execution consumed outside the sidecar.
type Usage struct {
	InputTokens, OutputTokens int64
	// CostMicro is the executor's own figure in a command, and the settled cost in a record.
	CostMicro int64
	// ToolCalls are those made outside the sidecar.
	ToolCalls int
	// CachedTokens are the part of InputTokens read from a cache, ReasoningTokens the part of OutputTokens
	// that is not in the answer.
	CachedTokens, ReasoningTokens int64
	// Estimated reports whether the usage was not reported completely. In a record, the missing part comes
	// from the call's bound; in a command, the flag belongs to a failed call.
	Estimated bool
	// CountedBefore means that the usage of the call was reported with another attempt, so it is not missing.
	CountedBefore bool
	// Model is the model that consumed the tokens; "" = not given. The pack or the operator has its price.
	Model string
	// Price is the operator's price of Model, stamped by the host if the pack has none, so that a replay uses
	// the same price; nil = the operator has none either, or none is needed.
	Price *Price
}

// Assignment is one delivery of a turn to a worker.
type Assignment struct {
	Worker   string
	Delivery int
	// At is Unix nanoseconds.
	At int64
}

// PartKind is the form of a Part.
type PartKind uint8

const (
	PartText PartKind = iota + 1
	PartJSON
	PartData
	PartURI
)

// Part is one piece of a message.
type Part struct {
	Kind PartKind
	// Text is for PartText and PartURI; Data for PartJSON (compact) and PartData.
	Text      string
	Data      []byte
	MediaType string
	Filename  string
	// Metadata is a compact JSON object or empty.
	Metadata []byte
}

// Message is one entry of a conversation.
type Message struct {
	// Role is "user", "assistant", "tool" or "system".
	Role  string
	Parts []Part
	// ToolCalls and ToolCallID carry a model's own tool exchange as compact JSON.
	ToolCalls  []byte
	ToolCallID string
	// Provider is JSON that the model's provider needs back in the next request. Refusal is the model's
	// reason for not answering.
	Provider []byte
	Refusal  string
	// Envelope is that of an input that came as a message to an agent; nil = none.
	Envelope *Envelope
}

// commandNames are the RPC names of the commands; commands of the engine have descriptive names.
var commandNames = map[CommandKind]string{
	CmdStart: "StartRun", CmdFork: "ForkRun", CmdEmitEvent: "EmitEvent", CmdSendInput: "SendInput",
	CmdSetArtifacts: "SetArtifacts", CmdCompleteTurn: "CompleteTurn", CmdFailTurn: "FailTurn",
	CmdSuspendTurn: "SuspendTurn", CmdRequestSteps: "RequestStep", CmdResolveStep: "ResolveStep",
	CmdPause: "PauseRun", CmdResume: "ResumeRun", CmdCancel: "CancelRun", CmdWriteOutput: "WriteOutput",
	CmdSteer: "SteerRun", CmdStop: "StopRun",
	CmdRequestModel: "RequestModel", CmdAnswerModel: "AnswerModel", CmdUpdateModelCall: "UpdateModelCall",
	CmdRaiseBudget: "RaiseBudget", CmdDecideStep: "DecideStep",
	CmdFireTimer: "timer", CmdLoseTurn: "lost turn", CmdLoseStep: "lost step", CmdNoteDelegation: "delegation",
}

// String returns the RPC name of the command, for example "PauseRun".
func (k CommandKind) String() string {
	if name := commandNames[k]; name != "" {
		return name
	}
	return "unknown"
}
