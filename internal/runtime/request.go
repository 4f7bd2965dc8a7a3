package runtime

import (
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Call holds the caller and the namespace of a request.
type Call struct {
	// Namespace is the name of the namespace. "" means "default".
	Namespace string
	Principal Principal
	// Worker is set for the requests of a connected worker. The leases of the worker determine its
	// rights.
	Worker LeaseHolder
}

// RunRef addresses one run.
type RunRef struct {
	Call
	RunID string
}

// Request is one input to one run. It is the argument of [Engine.Apply]. The typed methods, such as
// EmitEvent and CompleteTurn, build a Request.
type Request struct {
	RunRef
	// ID is the idempotency id. It is unique for a run and a kind of command, and has at most 256
	// bytes. If it is "", a repeat of the request is a new input.
	ID string
	// TurnToken is the token that the holder of the open turn received. It is "" if the caller has
	// none.
	TurnToken string
	// Command is the command. All commands are allowed except Start, FireTimer, LoseTurn, LoseStep and
	// NoteDelegation.
	Command machine.Command
}

// StartRequest is the argument of [Engine.StartRun].
type StartRequest struct {
	Call
	// Pack is "id", "id@version" or "sha256:<hex>".
	Pack string
	// Agent is a member key of the pack. It selects the agent that the run executes.
	Agent string
	// State replaces the entry state of the workflow. A state other than the entry state needs the
	// scope admin.
	State string
	// Variables is one JSON object. If it is empty, it means {}. Config.MaxVariableBytes bounds its
	// size.
	Variables []byte
	// Input is the first message of the entry visit. It is empty if there is none.
	Input []machine.Part
	// Execution is required.
	Execution machine.Execution
	// Labels are the labels of the caller. Their keys must be distinct, and Config.MaxLabels bounds
	// their number. Given are labels that the sidecar itself adds.
	Labels, Given []machine.Label
	// RequestID is the idempotency id. It is unique for a principal and a namespace. It is "" if there
	// is none.
	RequestID string
	// MaxSteps lowers the pack's max_steps (RFC-103 context.max_steps). 0 means that the bound of the
	// pack applies.
	MaxSteps int
	// MaxWallTime lowers the pack's wall time. 0 means that the wall time of the pack applies.
	MaxWallTime time.Duration
	// Parent and Depth are set if the run is the child run of a delegation.
	Parent *machine.Parent
	Depth  int
	// Lease bounds the consumption of a run of a delegation; zero means that there is no bound. Policy
	// restricts the tools that the run may call; nil means that there is no restriction.
	Lease  machine.Amount
	Policy *machine.ToolPolicy
	// Payer names the accounts that are charged for the run of a delegation within this store. If it is
	// nil, the accounts of the run's own labels are charged. For a child of a run in this store (Parent
	// without Origin), nil means that no account is charged. Callers cannot set it.
	Payer *machine.Payer
	// Task and Envelope are set if the run begins with a message to an agent.
	Task     *machine.Task
	Envelope *machine.Envelope
	// Traceparent is the caller's W3C trace context. An invalid value is ignored, as the standard
	// requires. The value is stored as the label [trace.Label], unless the caller sets that label. When
	// a request is repeated, the values are not compared.
	Traceparent string
}

// EmitRequest is the argument of [Engine.EmitEvent].
type EmitRequest struct {
	RunRef
	Event     string
	Artifacts []machine.ArtifactWrite
	EventID   string
	// ExpectedSeq must equal the run's visit_seq. 0 means that it is not checked.
	ExpectedSeq uint64
	TurnToken   string
}

// InputRequest is the argument of [Engine.SendInput].
type InputRequest struct {
	RunRef
	Parts       []machine.Part
	MessageID   string
	ExpectedSeq uint64
	// Envelope is the envelope of a message to an agent. It is nil for other inputs.
	Envelope *machine.Envelope
	// Step is the pending delegation whose agent asks a question and receives the parts. If it is 0,
	// the turn receives the parts.
	Step uint32
}

// ArtifactsRequest is the argument of [Engine.SetArtifacts].
type ArtifactsRequest struct {
	RunRef
	Artifacts   []machine.ArtifactWrite
	WriteID     string
	ExpectedSeq uint64
	TurnToken   string
}

// TurnCall names the open turn that a request acts on.
type TurnCall struct {
	RunRef
	TurnToken string
	// TurnSeq and Attempt identify the execution. If both are 0, the request is for the execution of
	// the token or, if no token is required, for the current execution of the open turn.
	TurnSeq uint64
	Attempt int
	// ID is the idempotency id. If it is empty for CompleteTurn or FailTurn, the execution itself is
	// the id: the first completion wins, and the same completion again is a duplicate. Without ID and
	// TurnSeq, a repeat is recognized only as long as its token is remembered.
	ID string
}

// CompleteRequest is the argument of [Engine.CompleteTurn].
type CompleteRequest struct {
	TurnCall
	Output   []machine.Part
	Messages []machine.Message
	Usage    machine.Usage
	// Event moves the run to another state. "" means that there is no transition.
	Event       string
	Artifacts   []machine.ArtifactWrite
	ExpectedSeq uint64
	// Await makes the run wait. It is possible in any state, but not together with an Event.
	Await machine.Awaiting
	// Reply means that the message of another agent is answered with a message instead of a task.
	Reply bool
	// ConversationThroughStep is a MODEL step. The messages of the turn up to this step are added to
	// the conversation.
	ConversationThroughStep uint32
}

// FailRequest is the argument of [Engine.FailTurn].
type FailRequest struct {
	TurnCall
	Error     machine.Fault
	Retryable bool
	Usage     machine.Usage
	// Reject reports that the agent refuses the work. It is not allowed together with Retryable.
	Reject bool
	// Rejected is the MODEL step whose answer the executor rejects. It is 0 if no answer is rejected.
	Rejected uint32
}

// OutputRequest is the argument of [Engine.WriteOutput].
type OutputRequest struct {
	TurnCall
	Piece machine.OutputPiece
}

// StepsRequest is the argument of [Engine.RequestSteps]. The engine sets PayloadHash and Denied of the
// requests.
type StepsRequest struct {
	TurnCall
	Requests []machine.StepRequest
}

// ResolveRequest is the argument of [Engine.ResolveStep].
type ResolveRequest struct {
	RunRef
	TurnToken string
	Step      uint32
	Tool      string
	// Attempt is the number of the attempt that is answered, from 1. It is required, because a repeat
	// is recognized by it.
	Attempt int
	OK      bool
	// Result is the JSON result if OK is true. Otherwise Error is the error.
	Result []byte
	Error  machine.Fault
	// Final means that no further attempt follows the error. RetryAfter is the shortest pause before
	// the next attempt.
	Final      bool
	RetryAfter time.Duration
	// Unknown reports whether the call may have happened despite the error.
	Unknown bool
	// Usage is the consumption of the attempt if Metered is true. Otherwise the consumption is unknown.
	Usage   machine.Usage
	Metered bool
	ID      string
}

// ControlRequest is the argument of [Engine.CancelRun], [Engine.PauseRun] and
// [Engine.ResumeRun].
type ControlRequest struct {
	RunRef
	Note string
	ID   string
	// Cascade also cancels the runs that this run started. It applies only to CancelRun.
	Cascade bool
}
