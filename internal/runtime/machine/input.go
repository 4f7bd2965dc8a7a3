package machine

import "time"

// Input is one input of a run. It contains all external data that the machine needs. It is stored
// unchanged, and a replay applies it again.
type Input struct {
	// At is the time of the input, in Unix nanoseconds. If the state has a later time, Step raises At
	// to that time, so that time never goes back within a run.
	At        int64
	Principal string
	// ID is the caller's idempotency id (event_id, write_id, message_id, request_id and so on). It is
	// "" if there is none. It is unique for a run and a kind of command.
	ID string
	// BodyHash is the hash of the data that must be equal when an input is repeated. This data includes
	// the event and the canonical artifacts, but not expected_seq or the token.
	BodyHash [32]byte
	// Semantics is the version of the rules that apply to the input. The engine stamps it with
	// [Current]. 0 means [SemanticsFirst].
	Semantics Semantics
	// Billed are the operator's accounts in which the input is counted, ordered by name. It is empty if the input consumes no tokens or
	// cost.
	Billed  []Bill
	Command Command
	// Fills are the payloads of steps that the sidecar itself requests because of this input.
	Fills []Fill
}

// Command is the command of an Input with its fields. It is one of the types below.
type Command interface{ command() CommandKind }

// KindOf returns the kind of a command.
func KindOf(c Command) CommandKind { return c.command() }

// CommandKind is the number of a kind of command. The numbers are stored, so they must never change.
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
	// Start begins a run. The state before it must be nil.
	Start struct {
		Namespace     uint32
		RunID         string
		EntryOverride bool
		Execution     Execution
		// Variables is one compact JSON object. It already contains the default values.
		Variables []byte
		// Input is the first message of the entry visit. It is empty if there is none.
		Input  []Part
		Labels []Label
		Limits Limits
		Parent *Parent
		Depth  int
		// Task and Envelope are set if the run began with a message to an agent.
		Task     *Task
		Envelope *Envelope
		// MaxWallTime lowers the wall time of the pack. It is used for delegations. 0 means that the
		// wall time of the pack applies.
		MaxWallTime time.Duration
		// MaxSteps lowers max_steps of the pack (context.max_steps of RFC-103). 0 means that the bound
		// of the pack applies.
		MaxSteps int
		// Lease is the maximum that the run may consume according to the delegating step. Zero means
		// that there is no lease.
		Lease Amount
		// Policy restricts the tools of the run. The delegating step sets it. If it is nil, only the
		// run's own pack restricts the tools.
		Policy *ToolPolicy
		// Payer names the accounts that are charged for the run, if a step with Local started it. Only the sidecar itself sets it.
		Payer *Payer
	}
	// EmitEvent requests a transition by an event. The graph, not the caller, chooses the next state.
	EmitEvent struct {
		Event     string
		Artifacts []ArtifactWrite
		// ExpectedSeq must equal the run's VisitSeq. 0 means that it is not checked.
		ExpectedSeq uint64
		// Outside reports whether the event comes from a principal with the scope events:external, and not from the holder of the turn.
		Outside bool
		// Assigned is the delivery that executed the turn. It is nil for a run with the execution
		// CALLER.
		Assigned *Assignment
		// Violation is the validator that the ended turn violates, stamped by the engine; nil = none.
		Violation *Violation
	}
	// SendInput adds parts to the input of the next turn of the visit.
	SendInput struct {
		Parts []Part
		// ExpectedSeq must equal the run's VisitSeq. 0 means that it is not checked.
		ExpectedSeq uint64
		Envelope    *Envelope
		// Step is the pending delegation whose agent asked for the parts and receives them. If it is 0,
		// the parts are for the next turn.
		Step uint32
		// Scopes are the names of the sender's scopes. They are set only if Step is set. They are
		// stored because the sender is no longer connected when the answer is sent to the agent.
		Scopes []string
	}
	// SetArtifacts writes artifacts without a transition.
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
		// Event is the event that moves the run to another state. It is "" if there is none.
		Event       string
		Artifacts   []ArtifactWrite
		ExpectedSeq uint64
		// Outside reports whether a principal with the scope events:external completes the turn, in a state with orchestration external. Then
		// the completion has no event.
		Outside  bool
		Assigned *Assignment
		// Await makes the run wait for an input. It is possible in any state, including terminal
		// states, but not together with an Event.
		Await Awaiting
		// Reply sends the output to the requesting agent as a message, not as a task.
		Reply bool
		// ConversationThroughStep is a MODEL step. The messages of the turn up to this step are added
		// to the conversation, before Messages. 0 means that there is no such step.
		ConversationThroughStep uint32
		// Violation is the validator that the turn violates, stamped by the engine; nil = none.
		Violation *Violation
	}
	// FailTurn reports a failed execution of the open turn.
	FailTurn struct {
		TurnSeq   uint64
		Attempt   int
		Error     Fault
		Retryable bool
		Usage     Usage
		Assigned  *Assignment
		// Reject means that the agent refuses the work. The run ends as FAILED with the reason "rejected". It is not allowed together with
		// Retryable.
		Reject bool
		// Rejected is the MODEL step of the turn whose answer the executor rejects. It is 0 if no
		// answer is rejected.
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
		// First is the ordinal of Requests[0] among the requests of this execution (one token, one
		// delivery), counted from 1. The engine counts all requests, including replayed and refused
		// ones, so that a repeated execution finds its steps under the same default keys. 0 means that
		// the count continues from Turn.Requests.
		First int
		// Assigned is the delivery under which the execution requests the steps. A new delivery is a
		// new execution, so its default keys count from 1 again. In a run with the execution CALLER it
		// is nil, or {Delivery: n} for the n-th token. If Worker is empty, no TurnAssigned is recorded.
		Assigned *Assignment
	}
	// ResolveStep answers a step. The rights of the caller were checked before.
	ResolveStep struct {
		Step    uint32
		Tool    string
		Attempt int
		OK      bool
		// Result is the result as compact JSON, if Status is OK. Error is set otherwise.
		Result []byte
		Error  Fault
		// Worker is the worker that executed the step. It is "" if a caller answered the step with
		// ResolveStep.
		Worker string
		// Final means that no further attempt follows an error, even if the tool allows more attempts.
		Final bool
		// RetryAfter is the pause before the next attempt that the reported failure requests.
		RetryAfter time.Duration
		// Usage is the consumption of a delegation's run, including its own delegations. It is zero for all other steps.
		Usage Usage
		// Unknown means that the tool may have been called. on_unknown decides what happens then.
		Unknown bool
		// Metered reports whether Usage is the complete consumption. Usage can be complete and zero. If
		// Metered is false, the maximum consumption of the step is counted.
		Metered bool
	}
	// FireTimer reports that a durable timer is due.
	FireTimer struct {
		Kind TimerKind
		// Step is set if the timer belongs to a step. Turn is set for retry timers. It is the seq of
		// the turn.
		Step uint32
		Turn uint64
		// Due is the time for which the timer was set. If the timer was replaced in the meantime, the
		// command is ignored.
		Due int64
	}
	// Pause sets the paused flag.
	Pause struct{ Note string }
	// Resume clears the paused flag.
	Resume struct{ Note string }
	// Cancel ends the run CANCELLED.
	Cancel struct{ Note string }
	// LoseTurn reports that the executor of the open turn is lost. With LeaseExpired it counts as a
	// failed attempt. With Undeliverable, after ten lost connections, the run ends.
	LoseTurn struct {
		TurnSeq       uint64
		Attempt       int
		LeaseExpired  bool
		Undeliverable bool
		Assigned      *Assignment
	}
	// LoseStep reports that the executor of a pending step is lost, so that the outcome of the step is
	// unknown.
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
	// NoteDelegation records the current state of an active delegation.
	NoteDelegation struct {
		Step    uint32
		Attempt int
		Remote  Remote
		// Question is the question of the agent if Remote.Asking is set. Otherwise it is empty.
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
	// Form and Type are the form and the media type that the caller specified. They are zero if the
	// caller specified none. They must match the declaration. They are neither stored nor hashed.
	Form Form
	Type string
}

// StepRequest is one tool call that a turn requests.
type StepRequest struct {
	// Key identifies the step in the visit. If it is "", the ordinal of the request in the attempt is
	// used.
	Key  string
	Tool string
	// Payload is compact JSON.
	Payload []byte
	// PayloadHash is the SHA-256 of the canonical payload. The engine stamps it.
	PayloadHash [32]byte
	// Reframe reports whether the request counts against max_reframes.
	Reframe bool
	// Call is the call in a model's answer that this request executes. The key of the step is derived
	// from it. It is nil if the request does not come from a model.
	Call *CallRef
	// ByCaller means that the requesting caller makes the call itself, in all attempts, and that no
	// worker receives it. The engine clears ByCaller in requests under a lease and in requests for
	// agents.
	ByCaller bool
	// Holding is the result of the tool's approval condition (x_pawl.tools.NAME.approve). The engine
	// stamps it.
	Holding Holding
	// Denied is the refusal by the engine, because of the operator's allowlist or the JSON Schema of
	// the parameters. It is nil if the engine does not refuse the request. It is stamped because it
	// depends on more than the pack.
	Denied *Denial
	// Effect is the business key of the call (x_pawl.tools.dedupe). The engine stamps it. All calls
	// that would have the same effect have the same key. Zero means that the call has no key.
	Effect [32]byte
	// Policy is the operator's allowlist, which is sent with a delegation. The engine stamps it only
	// for calls of agents. It is nil if every tool is allowed and the list does not name the agent.
	Policy *ToolPolicy
	// Local reports whether the called agent is in this store. The engine stamps it. The run of a local
	// agent is counted separately in the operator's accounts.
	Local bool
}

// Denial is the reason why a requested step was refused before it got a number.
type Denial struct{ Code, Message string }

// Codes of denials by the tool policy.
const (
	// ToolNotAllowed means that the allowlist of the operator, or of an ancestor run, does not contain the tool.
	ToolNotAllowed = "TOOL_NOT_ALLOWED"
	// ToolBlocked means that the blocklist of the prompt, or of an ancestor run, contains the tool.
	ToolBlocked = "TOOL_BLOCKED"
	// MaxRounds means that the turn has used up tool_policy.max_rounds of its prompt.
	MaxRounds = "MAX_ROUNDS"
)

// Violation names the validator of a prompt that a turn violates.
type Violation struct {
	// ID is the id of the validator in the pack, or its type if it has no id.
	ID, Type string
	// Place is the text with the fault, for example "output, characters 4 to 9"; "" = the turn as a whole.
	Place string
	// Reason is a sentence for the model. Faults of a JSON value repeat parts of what the model wrote.
	Reason string
}

// Fault is an error that is stored as data. Trace is the stack trace of the code that reported the
// error, for debugging. Trace is "" if there is none.
type Fault struct{ Code, Message, Trace string }

// Usage is an amount that was consumed outside the sidecar, for example by a turn or a step.
type Usage struct {
	InputTokens, OutputTokens int64
	// CostMicro is the cost in micro-dollars. In a command it is the cost that the executor reports. In
	// a record it is the settled cost.
	CostMicro int64
	// ToolCalls is the number of tool calls that were made outside the sidecar.
	ToolCalls int
	// CachedTokens is the part of InputTokens that was read from a cache. ReasoningTokens is the part of OutputTokens that is not in the
	// answer.
	CachedTokens, ReasoningTokens int64
	// Estimated means that the usage was not reported completely. In a record, the bound of the call
	// replaces the missing part. In a command, Estimated is set for a failed call.
	Estimated bool
	// CountedBefore means that the usage of the call was already reported with another attempt. So it
	// is not missing in this attempt.
	CountedBefore bool
	// Model is the model that consumed the tokens. It is "" if it was not reported. The price of the
	// model is in the pack or in the operator's table.
	Model string
	// Price is the operator's price of Model. The engine stamps it if the pack has no price, so that a
	// replay uses the same price. It is nil if the operator has no price or if none is needed.
	Price *Price
}

// Assignment is one delivery of a turn to a worker.
type Assignment struct {
	Worker   string
	Delivery int
	// At is the time of the delivery, in Unix nanoseconds.
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
	// Text is set for PartText and PartURI. Data is set for PartJSON (compact JSON) and PartData.
	Text      string
	Data      []byte
	MediaType string
	Filename  string
	// Metadata is a compact JSON object, or empty.
	Metadata []byte
}

// Message is one entry of a conversation.
type Message struct {
	// Role is "user", "assistant", "tool" or "system".
	Role  string
	Parts []Part
	// ToolCalls are the tool calls of a model, in the format of the provider. ToolCallID is the id of
	// the call that the message answers.
	ToolCalls  []byte
	ToolCallID string
	// Provider is JSON that the model's provider needs in the next request. Refusal is the text in which the model refuses to answer.
	Provider []byte
	Refusal  string
	// Envelope is the envelope of an input that arrived as a message to an agent. It is nil for other
	// inputs.
	Envelope *Envelope
}

// commandNames are the names of the commands. A command of a caller has the name of its RPC. A command
// of the engine has a descriptive name.
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
