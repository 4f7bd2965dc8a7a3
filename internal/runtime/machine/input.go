package machine

import "time"

// Input is one thing that happens to a run, with everything from outside
// stamped into it. It is stored as it is; replay feeds it to Step again.
type Input struct {
	// At is Unix nanoseconds; Step raises it to the state's At, so that time
	// never goes back within a run.
	At        int64
	Principal string
	// ID is the caller's idempotency id (event_id, write_id, message_id,
	// request_id, ...); "" = none. Unique per run and Command kind.
	ID string
	// BodyHash covers what must be equal for a repeat to be a repeat: event and
	// canonical artifacts, never expected_seq or token.
	BodyHash [32]byte
	// Semantics is the version of the rules that the input is taken by, stamped by the
	// host ([Current]); 0 = [SemanticsFirst].
	Semantics Semantics
	// Billed are the operator's accounts that the input is counted in, by name; none for
	// inputs that move no money.
	Billed  []Bill
	Command Command
	// Fills are the payloads of steps that the sidecar itself asks for by this input.
	Fills []Fill
}

// Command is the kind of an Input and its fields; one of the types below.
type Command interface{ command() CommandKind }

// KindOf names a command's kind.
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
		// Lease is what the step that starts the run lets it spend; zero = no lease.
		Lease Amount
		// Policy is what that step lets the run call at most; nil = whatever its pack does.
		Policy *ToolPolicy
		// Payer is in whose accounts the run counts itself, where a step that is Local starts
		// it. Only the sidecar itself says it.
		Payer *Payer
	}
	// EmitEvent asks for a transition. The caller never names the successor.
	EmitEvent struct {
		Event     string
		Artifacts []ArtifactWrite
		// ExpectedSeq must equal the run's VisitSeq; 0 = not asked.
		ExpectedSeq uint64
		// Outside: by a principal with events:external, not by the turn's holder.
		Outside bool
		// Assigned is the delivery that executed the turn; nil for CALLER.
		Assigned *Assignment
	}
	// SendInput gives parts to the next turn of the visit.
	SendInput struct {
		Parts []Part
		// ExpectedSeq must equal the run's VisitSeq; 0 = not asked.
		ExpectedSeq uint64
		Envelope    *Envelope
		// Step gives the parts to the agent of a pending delegation that asks for
		// them, instead of the turn; 0 = the turn.
		Step uint32
		// Scopes are the names of the rights that the sender had, where Step is set: who
		// answers is not there any more when the answer is sent on.
		Scopes []string
	}
	// SetArtifacts writes without a transition.
	SetArtifacts struct {
		Artifacts   []ArtifactWrite
		ExpectedSeq uint64
	}
	// CompleteTurn ends the open turn with an output and perhaps an event.
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
		// Outside: completed by a principal with events:external in a state of
		// orchestration external; such a completion carries no event.
		Outside  bool
		Assigned *Assignment
		// Await makes the run wait for an input whatever the state, terminal ones
		// included; not with an Event.
		Await Awaiting
		// Reply: the output answers whoever asked as a message, not as a task.
		Reply bool
		// ConversationThroughStep is the MODEL step up to which what the turn said joins the conversation,
		// before Messages; 0 = nothing.
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
		// Reject: the agent refuses the work; the run ends FAILED(rejected). Not
		// with Retryable.
		Reject bool
		// Rejected is the MODEL step of the turn whose answer the executor rejects; 0 = none.
		Rejected uint32
	}
	// SuspendTurn releases a turn until its pending steps are answered.
	SuspendTurn struct {
		TurnSeq  uint64
		Attempt  int
		Assigned *Assignment
	}
	// RequestSteps asks for tool calls of the open turn, in order.
	RequestSteps struct {
		TurnSeq  uint64
		Attempt  int
		Requests []StepRequest
		// First is the ordinal, from 1, of Requests[0] among the requests of this
		// execution (one token, one delivery): the host counts them, replayed and
		// refused ones included, so that a repeated execution finds its steps
		// under the same default keys. 0 = go on from Turn.Requests.
		First int
		// Assigned: a new one is a new execution, whose default keys count from 1.
		// For CALLER nil, or {Delivery: n} for the n-th token; without a Worker no
		// TurnAssigned is recorded.
		Assigned *Assignment
	}
	// ResolveStep answers a step. Authority was checked before.
	ResolveStep struct {
		Step    uint32
		Tool    string
		Attempt int
		OK      bool
		// Result is compact JSON (OK) and Error the fault (not OK).
		Result []byte
		Error  Fault
		// Worker executed it; "" = ResolveStep by a caller.
		Worker string
		// Final: no further attempt follows an error, whatever the tool allows.
		Final bool
		// RetryAfter is how long whoever failed asks to wait before the next attempt.
		RetryAfter time.Duration
		// Usage is what the run of a delegation consumed, its own delegations
		// included; zero for all other steps.
		Usage Usage
		// Unknown: nobody knows whether the tool ran; on_unknown says what follows.
		Unknown bool
		// Metered: Usage is the whole of what was consumed, be it nothing; else what the
		// step was to consume at most is taken for it.
		Metered bool
	}
	// FireTimer is a durable timer that came due.
	FireTimer struct {
		Kind TimerKind
		// Step is set for step timers; Turn the turn seq for retry timers.
		Step uint32
		Turn uint64
		// Due is the timer's own time: a timer that was replaced is ignored.
		Due int64
	}
	// Pause sets the paused flag.
	Pause struct{ Note string }
	// Resume clears it.
	Resume struct{ Note string }
	// Cancel ends the run CANCELLED.
	Cancel struct{ Note string }
	// LoseTurn: the executor of the open turn is gone. LeaseExpired counts an
	// attempt; Undeliverable (ten disconnects) ends the run.
	LoseTurn struct {
		TurnSeq       uint64
		Attempt       int
		LeaseExpired  bool
		Undeliverable bool
		Assigned      *Assignment
	}
	// LoseStep: the executor of a pending step is gone; its outcome is unknown.
	LoseStep struct {
		Step    uint32
		Attempt int
		Worker  string
	}
	// WriteOutput keeps a piece of the output of the open turn.
	WriteOutput struct {
		TurnSeq  uint64
		Attempt  int
		Piece    OutputPiece
		Assigned *Assignment
	}
	// NoteDelegation is what is known of a delegation that is under way.
	NoteDelegation struct {
		Step    uint32
		Attempt int
		Remote  Remote
		// Question is what the agent asks with Remote.Asking; empty otherwise.
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
	// Form and Type are what the caller says of the value; zero = nothing. They
	// must agree with the declaration and are neither stored nor hashed.
	Form Form
	Type string
}

// StepRequest is one tool call that a turn asks for.
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
	// Call is the model's call that this is; its key follows from it. nil = none.
	Call *CallRef
	// ByCaller: the caller that asks makes the call, in all attempts, and no worker gets it. The host takes
	// it from requests that are made under a lease, and from those for agents.
	ByCaller bool
	// Holding is the host's word on the tool's condition (x_pawl.tools.NAME.approve).
	Holding Holding
	// Denied is the host's refusal (operator's allowlist, JSON Schema of the
	// parameters), stamped in because it depends on more than the pack; nil = none.
	Denied *Denial
	// Effect is the business key of the call (x_pawl.tools.dedupe), stamped by the host:
	// the same for every call that would do the same thing once more. Zero = none.
	Effect [32]byte
	// Policy is the operator's allowlist, of a call of an agent alone, stamped by the host:
	// it goes with the delegation. nil = every tool, and the agent is not named.
	Policy *ToolPolicy
	// Local: the agent that is called is of this very store, stamped by the host. Such an
	// agent's run counts itself in the operator's accounts.
	Local bool
}

// Denial is why a step was refused before it got a number.
type Denial struct{ Code, Message string }

// Codes of the policy of tools.
const (
	// ToolNotAllowed: the operator's allowlist, or that of a run above, does not name it.
	ToolNotAllowed = "TOOL_NOT_ALLOWED"
	// ToolBlocked: the prompt's blocklist, or that of a run above, names it.
	ToolBlocked = "TOOL_BLOCKED"
)

// Fault is an error as data. Trace is where the reporter's code raised it, for whoever
// mends that code; "" = not told.
type Fault struct{ Code, Message, Trace string }

// Usage is what an execution consumed outside the sidecar.
type Usage struct {
	InputTokens, OutputTokens int64
	// CostMicro is what the executor says in a command, and what was settled in a record.
	CostMicro int64
	// ToolCalls made outside the sidecar.
	ToolCalls int
	// CachedTokens are those of InputTokens that a cache had, ReasoningTokens those of
	// OutputTokens that were not said.
	CachedTokens, ReasoningTokens int64
	// Estimated: nobody reported all of it. In a record what was missing is of the call's
	// bound; in a command it says so of a call that failed.
	Estimated bool
	// CountedBefore: what the call consumed was told with another attempt, and is not missing.
	CountedBefore bool
	// Model took them; "" = not told. What it costs the pack says, or the operator.
	Model string
	// Price is the operator's of Model, stamped by the host where the pack has none, so
	// that a replay knows it; nil = the operator has none either, or none is needed.
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
	// Text for PartText and PartURI; Data for PartJSON (compact) and PartData.
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
	// Provider is JSON that the model's provider wants to have back, Refusal why the model
	// would not answer.
	Provider []byte
	Refusal  string
	// Envelope of an input that came as a message to an agent; nil = none.
	Envelope *Envelope
}

// commandNames are the calls of the contract that make the commands; engine inputs
// go by what they are.
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

// String names the call that makes the command, for example "PauseRun".
func (k CommandKind) String() string {
	if name := commandNames[k]; name != "" {
		return name
	}
	return "unknown"
}
