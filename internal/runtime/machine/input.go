package machine

import (
	"strconv"
	"time"
)

// Input is one input of a run: a command with all external data that the machine needs. The journal stores it
// unchanged, so that a replay can apply it again.
type Input struct {
	// At is the time of the input, in Unix nanoseconds. If the state of the run has a later time, rules.Step raises At
	// to that time, so that time never goes back within a run.
	At        int64
	Principal string
	// ID is the caller's idempotency id (event_id, write_id, message_id, request_id and so on). It is unique for one
	// run and one kind of command. It is "" if there is none.
	ID string
	// BodyHash is the hash of the data that must be equal when an input is repeated with the same id. This data
	// includes the event and the canonical artifacts, but not expected_seq or the token.
	BodyHash [32]byte
	// Semantics is the version of the rules that apply to the input. The engine sets it to [Current] in new inputs. 0
	// means [SemanticsFirst].
	Semantics Semantics
	// Billed are the operator's accounts (budgets over many runs) in which the input is counted, first those of the operator's table in
	// its order. It is empty if the input consumes no tokens or cost.
	Billed  []Bill
	Command Command
	// Fills are the payloads of steps that the sidecar itself requests as a result of this input.
	Fills []Fill
	// Evals are the results of the evals (checks that the pack declares) that this input completes. The machine only
	// records them and makes no decision from them.
	Evals []EvalResult
}

// Command is the command of an Input with its fields. It is one of the command types of this package.
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
		// Conversation means that a user holds a conversation with the run. A state that declares no control then waits
		// for the user, as with control: user (RFC 0014).
		Conversation bool
		// Variables is one compact JSON object. It already contains the default values.
		Variables []byte
		// Input is the first message to the entry state. It is empty if there is none.
		Input  []Part
		Labels []Label
		Limits Limits
		Parent *Parent
		Depth  int
		// Task and Envelope are set if the run began with a message to an agent.
		Task     *Task
		Envelope *Envelope
		// MaxWallTime lowers the wall time that the pack allows. It is used for delegations. 0 means that the pack's
		// bound applies.
		MaxWallTime time.Duration
		// MaxSteps lowers max_steps of the pack (context.max_steps of RFC-103). 0 means that the bound
		// of the pack applies.
		MaxSteps int
		// Lease is the maximum that the run may consume according to the delegating step. Zero means
		// that there is no lease.
		Lease Amount
		// Policy restricts the tools of the run. It comes from the run that delegated to this run. If it is nil, only
		// the run's own pack restricts the tools.
		Policy *ToolPolicy
		// Payer names the accounts that are charged for the run, if a step of another run in this store started it.
		// Only the sidecar itself sets it.
		Payer *Payer
	}
	// EmitEvent requests a transition by an event. The graph, not the caller, chooses the next state.
	EmitEvent struct {
		Event     string
		Artifacts []ArtifactWrite
		// ExpectedSeq must equal the run's VisitSeq. 0 means that it is not checked.
		ExpectedSeq uint64
		// Outside reports whether the event comes from a principal with the scope events:external, and not from the
		// executor of the turn.
		Outside bool
		// Assigned is the assignment of the turn to the worker that emits the event. It is nil for a run with the execution
		// CALLER.
		Assigned *Assignment
		// Violation is the first validator of the prompt that the ended turn violates. The engine runs the validators
		// and sets it. It is nil if there is none.
		Violation *Violation
	}
	// SendInput adds parts to the input of the next turn of the visit.
	SendInput struct {
		Parts []Part
		// ExpectedSeq must equal the run's VisitSeq. 0 means that it is not checked.
		ExpectedSeq uint64
		Envelope    *Envelope
		// Step is the number of a pending delegation. The parts answer a question that its agent asked. If Step is 0, the
		// parts are for the next turn.
		Step uint32
		// Scopes are the names of the sender's scopes. They are set only if Step is set. They are stored because the
		// sender may no longer be connected when its answer is sent to the agent.
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
		// Await makes the run wait for an input after the turn. It is possible in any state, including terminal states,
		// but not together with an Event.
		Await Awaiting
		// Reply means that the output is sent to the requesting agent as a plain A2A message, and not as the result of
		// a task.
		Reply bool
		// ConversationThroughStep is a MODEL step. The messages of the turn up to this step are added
		// to the conversation, before Messages. 0 means that there is none.
		ConversationThroughStep uint32
		// Violation is the first validator of the prompt that the turn violates. The engine runs the validators and
		// sets it. It is nil if there is none.
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
	// SuspendTurn releases the open turn until its pending steps are answered, so that no worker is occupied in the
	// meantime.
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
		// First is the number of Requests[0] among all step requests of this execution of the turn, counted from 1. Default
		// step keys are made from these numbers. Replayed and refused requests are counted too, so that a repeated execution
		// finds its steps under the same keys. 0 means that the count continues from Turn.Requests.
		First int
		// Assigned is the delivery (one assignment of the turn to an executor) under which the steps are requested. The
		// default step keys of each delivery count from 1. In a run with the execution CALLER it is nil, or {Delivery: n} for
		// the n-th token. If Worker is empty, no TurnAssigned is recorded.
		Assigned *Assignment
	}
	// ResolveStep records the result or the error of a step, sent by a worker or a caller. The engine has checked that
	// the sender may answer the step.
	ResolveStep struct {
		Step    uint32
		Tool    string
		Attempt int
		OK      bool
		// Result is the result as compact JSON, if OK is true. Otherwise Error is set.
		Result []byte
		Error  Fault
		// Worker is the worker that executed the step. It is "" if a caller called the RPC ResolveStep.
		Worker string
		// Final means that no further attempt follows an error, even if the tool allows more attempts.
		Final bool
		// RetryAfter is the pause before the next attempt that the executor of the step requests. 0 means none.
		RetryAfter time.Duration
		// Usage is the consumption of a delegation's run, including its own delegations. It is zero for all other steps.
		Usage Usage
		// Unknown means that the outcome of the attempt is unknown: the tool may have been called. The pack's
		// on_unknown decides what happens next.
		Unknown bool
		// Metered reports whether Usage is the complete consumption. Usage can be complete and zero. If
		// Metered is false, the maximum consumption of the step is counted.
		Metered bool
	}
	// FireTimer reports that a durable timer is due.
	FireTimer struct {
		Kind TimerKind
		// Step is set if the timer belongs to a step. Turn is set for a retry timer: it is the seq of the turn.
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
	// LoseTurn reports that the executor of the open turn is lost. With LeaseExpired the loss counts as a failed
	// attempt. With Undeliverable, which is set after ten lost connections, the run ends.
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
	// Form and Type are the form and the media type that the caller specified. They are zero if the caller specified
	// none. They must match the pack's declaration of the artifact. They are neither stored nor hashed.
	Form Form
	Type string
}

// StepRequest is one tool call that a turn requests.
type StepRequest struct {
	// Key identifies the step among the steps of the visit. If it is "", the key is made from the ordinal of the
	// request.
	Key  string
	Tool string
	// Payload is compact JSON.
	Payload []byte
	// PayloadHash is the SHA-256 of the canonical payload. The engine sets it.
	PayloadHash [32]byte
	// Reframe reports whether the request counts against max_reframes.
	Reframe bool
	// Call is the tool call in a model's answer that this request executes. The key of the step is derived from it. It
	// is nil if no model requested the call.
	Call *CallRef
	// ByCaller means that the requesting caller makes the call itself, in all attempts, and that no worker receives it.
	// The engine clears ByCaller if the requester is a worker with a lease, or if the tool is an agent.
	ByCaller bool
	// Holding is the result of the tool's approval condition (x_pawl.tools.NAME.approve). The engine evaluates the
	// condition and sets it.
	Holding Holding
	// Denied is the engine's refusal of the request, for example because of the operator's allowlist, the JSON Schema of the parameters or
	// a business key that another step has. It is nil if the engine does not refuse the request. It is part of the input because a replay
	// cannot compute it from the pack alone.
	Denied *Denial
	// Effect is the business key of the call (x_pawl.tools.dedupe), computed by the engine. All calls that would have
	// the same effect have the same key. The zero value means that the call has no business key.
	Effect [32]byte
	// Policy is the operator's allowlist, which is sent with a delegation. The engine sets it only for calls of agents.
	// It is nil if the operator allows every tool and does not name the agent.
	Policy *ToolPolicy
	// Local reports whether the called agent is in this store. The engine sets it. The run of a local agent is counted
	// separately in the operator's accounts.
	Local bool
	// Repeatable reports whether the operator trusts the server of the tool, the server says that a second call does no
	// harm, and the pack sets no on_unknown. The engine sets it.
	Repeatable bool
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
	// Reason is a sentence that tells the model what is wrong. If the output is JSON, the sentence can repeat parts of it.
	Reason string
}

// Fault is an error that is stored as data. Trace is the stack trace of the code that reported the error, for
// debugging. It is "" if there is none.
type Fault struct{ Code, Message, Trace string }

// Usage is an amount that was consumed outside the sidecar, for example by a turn or a step.
type Usage struct {
	InputTokens, OutputTokens int64
	// CostMicro is the cost in micro-dollars. In a command it is the cost that the executor reports. In a record it is
	// the cost that was counted.
	CostMicro int64
	// ToolCalls is the number of tool calls that were made outside the sidecar.
	ToolCalls int
	// CachedTokens is the part of InputTokens that was read from a cache. ReasoningTokens is the part of OutputTokens that is not in the
	// answer.
	CachedTokens, ReasoningTokens int64
	// Estimated means that the usage was not reported completely. In a record, the missing part was replaced by the
	// maximum that was reserved for the call. In a command it means that the executor knows the usage at most in part,
	// for example after a failed call.
	Estimated bool
	// CountedBefore means that the usage of the call was already reported with another attempt, so it must not be
	// replaced by an estimate.
	CountedBefore bool
	// Model is the model that consumed the tokens. It is "" if it was not reported. The price of the
	// model is in the pack or in the operator's table.
	Model string
	// Price is the operator's price of Model. The engine sets it if the pack has no price, so that a replay uses the
	// same price. It is nil if the operator has no price either, or if none is needed.
	Price *Price
}

// Assignment is one delivery of a turn: its assignment to a worker.
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
	// Text is set for PartText and PartURI. Data is set for PartJSON, as compact JSON, and for PartData.
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
	// ToolCalls are the tool calls that the model requested, in the format of the provider. ToolCallID is the id of the
	// call whose result the message contains.
	ToolCalls  []byte
	ToolCallID string
	// Provider is JSON that the model's provider needs in the next request. Refusal is the text with which the model
	// refused to answer.
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

// IdempotencyKey returns the key that a step has in all its attempts, "RUN/STEP". A tool sends it to
// the system that it changes, so that a repeated attempt has no second effect. The key does not contain
// the number of the attempt, because it must be the same in every attempt.
func IdempotencyKey(run string, step uint32) string {
	return run + "/" + strconv.FormatUint(uint64(step), 10)
}
