package runtime

import (
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Call holds the caller and the namespace of a request.
type Call struct {
	// Namespace is the name of the namespace; "" = "default".
	Namespace string
	Principal Principal
	// Worker is set for the requests of a connected worker: its leases are its authority.
	Worker LeaseHolder
}

// RunRef addresses one run.
type RunRef struct {
	Call
	RunID string
}

// Request is one input to one run, the argument of [Engine.Apply]. The typed methods (EmitEvent,
// CompleteTurn, ...) build it.
type Request struct {
	RunRef
	// ID is the idempotency id, unique per run and kind of command; "" = none: a repeat is then a new input.
	// At most 256 bytes.
	ID string
	// TurnToken is the token that the holder of the open turn received; "" = none.
	TurnToken string
	// Command must be any but Start, FireTimer, LoseTurn, LoseStep and
	// NoteDelegation.
	Command machine.Command
}

// StartRequest is the argument of [Engine.StartRun].
type StartRequest struct {
	Call
	// Pack is "id", "id@version" or "sha256:<hex>".
	Pack string
	// Agent is a member key of the pack; the run executes that agent.
	Agent string
	// State overrides the workflow's entry state; any other state needs the scope admin.
	State string
	// Variables is one JSON object; empty = {}. At most Config.MaxVariableBytes.
	Variables []byte
	// Input is the first message of the entry visit; empty = none.
	Input []machine.Part
	// Execution is required.
	Execution machine.Execution
	// Labels have distinct keys; at most Config.MaxLabels. Given are labels that the sidecar itself adds.
	Labels, Given []machine.Label
	// RequestID is the idempotency id, unique per principal and namespace; "" = none.
	RequestID string
	// MaxSteps lowers the pack's max_steps (RFC-103 context.max_steps); 0 = the pack's.
	MaxSteps int
	// MaxWallTime lowers the pack's wall time; 0 = the pack's.
	MaxWallTime time.Duration
	// Parent and Depth are set for the child run of a delegation.
	Parent *machine.Parent
	Depth  int
	// Lease and Policy bound what a run of a delegation may consume and which tools it may call; zero = no
	// bound, no list.
	Lease  machine.Amount
	Policy *machine.ToolPolicy
	// Payer names the accounts that are charged for the run of a delegation within this store. Nil = the
	// accounts of the run's own labels; nil for a child of a run in this store (Parent without Origin) =
	// none. Callers cannot set it.
	Payer *machine.Payer
	// Task and Envelope are set for a run that begins with a message to an agent.
	Task     *machine.Task
	Envelope *machine.Envelope
	// Traceparent is the caller's W3C trace context. An invalid one is ignored, as the standard says. It is
	// stored as the label [trace.Label] unless the caller sets that label, and it is not compared between a
	// request and its repeat.
	Traceparent string
}

// EmitRequest is the argument of [Engine.EmitEvent].
type EmitRequest struct {
	RunRef
	Event     string
	Artifacts []machine.ArtifactWrite
	EventID   string
	// ExpectedSeq must be the run's visit_seq; 0 = not checked.
	ExpectedSeq uint64
	TurnToken   string
}

// InputRequest is the argument of [Engine.SendInput].
type InputRequest struct {
	RunRef
	Parts       []machine.Part
	MessageID   string
	ExpectedSeq uint64
	// Envelope is that of a message to an agent; nil = none.
	Envelope *machine.Envelope
	// Step sends the parts to the agent of a pending delegation that asks a question; 0 = to the turn.
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
	// TurnSeq and Attempt name the execution. Both 0 = the token's execution, or the open turn's where no
	// token is required.
	TurnSeq uint64
	Attempt int
	// ID is the idempotency id. Empty for CompleteTurn and FailTurn means the execution itself: its first
	// completion wins, and the same completion again is a duplicate. Without ID and TurnSeq a repeat is
	// recognized only as long as its token is remembered.
	ID string
}

// CompleteRequest is the argument of [Engine.CompleteTurn].
type CompleteRequest struct {
	TurnCall
	Output   []machine.Part
	Messages []machine.Message
	Usage    machine.Usage
	// Event moves the run to another state; "" = no transition.
	Event       string
	Artifacts   []machine.ArtifactWrite
	ExpectedSeq uint64
	// Await makes the run wait in any state; not allowed with an Event.
	Await machine.Awaiting
	// Reply answers the message of another agent with a message instead of a task.
	Reply bool
	// ConversationThroughStep is the MODEL step up to which the messages of the turn join the conversation.
	ConversationThroughStep uint32
}

// FailRequest is the argument of [Engine.FailTurn].
type FailRequest struct {
	TurnCall
	Error     machine.Fault
	Retryable bool
	Usage     machine.Usage
	// Reject reports whether the agent refuses the work; not allowed with Retryable.
	Reject bool
	// Rejected is the MODEL step whose answer the executor rejects; 0 = none.
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
	// Attempt is the attempt that is answered, from 1; required, because a repeat is recognized by it.
	Attempt int
	OK      bool
	// Result is the JSON result if OK, Error the error if not.
	Result []byte
	Error  machine.Fault
	// Final means that no attempt follows the error. RetryAfter is the shortest pause before the next
	// attempt.
	Final      bool
	RetryAfter time.Duration
	// Unknown reports whether the call may have happened despite the error.
	Unknown bool
	// Usage is what the attempt consumed, if Metered; otherwise the consumption is not known.
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
	// Cascade also cancels the runs that this one started (CancelRun only).
	Cascade bool
}
