package runtime

import (
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Call is who asks, and where.
type Call struct {
	// Namespace by name; "" = "default".
	Namespace string
	Principal Principal
	// Worker is set for the requests of a connected worker: their authority are its
	// leases.
	Worker LeaseHolder
}

// RunRef addresses one run.
type RunRef struct {
	Call
	RunID string
}

// Request is one input to one run, the argument of [Engine.Apply]. The typed
// methods (EmitEvent, CompleteTurn, ...) build it.
type Request struct {
	RunRef
	// ID is the idempotency id, unique per run and kind of command; "" = none:
	// a repeat is then a new input. At most 256 bytes.
	ID string
	// TurnToken is the word that the open turn's holder was given; "" = none.
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
	// Agent is a member key; the run is one of that agent.
	Agent string
	// State overrides the workflow's entry; any other than that takes the scope
	// admin.
	State string
	// Variables is one JSON object; empty = {}. At most Config.MaxVariableBytes.
	Variables []byte
	// Input is the first message of the entry visit; empty = none.
	Input []machine.Part
	// Execution is required.
	Execution machine.Execution
	// Labels have distinct keys; at most Config.MaxLabels. Given are the sidecar's own.
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
	// Lease and Policy are what that lets the run consume and call; zero = no bound, no list.
	Lease  machine.Amount
	Policy *machine.ToolPolicy
	// Payer is in whose accounts the run of a delegation within this store is counted; nil = in
	// those of its labels, and without an origin of Parent in none. No caller ever says it.
	Payer *machine.Payer
	// Task and Envelope are set for a run that begins with a message to an agent.
	Task     *machine.Task
	Envelope *machine.Envelope
	// Traceparent is the caller's W3C trace context; one that is none is ignored, as
	// the standard has it. It is kept as the label [trace.Label] unless that is given,
	// and no part of what a repeat must have in common.
	Traceparent string
}

// EmitRequest is the argument of [Engine.EmitEvent].
type EmitRequest struct {
	RunRef
	Event     string
	Artifacts []machine.ArtifactWrite
	EventID   string
	// ExpectedSeq must be the run's visit_seq; 0 = not asked.
	ExpectedSeq uint64
	TurnToken   string
}

// InputRequest is the argument of [Engine.SendInput].
type InputRequest struct {
	RunRef
	Parts       []machine.Part
	MessageID   string
	ExpectedSeq uint64
	// Envelope of a message to an agent; nil = none.
	Envelope *machine.Envelope
	// Step gives the parts to the agent of a pending delegation that asks; 0 = the
	// turn.
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
	// TurnSeq and Attempt name the execution; both 0 = the token's, or the open
	// turn's where no token is asked for.
	TurnSeq uint64
	Attempt int
	// ID is the idempotency id. Empty for CompleteTurn and FailTurn: the
	// execution itself, so that its first completion wins and the same one again
	// is a duplicate. Without ID and TurnSeq a repeat is known as one only as long
	// as its token is remembered.
	ID string
}

// CompleteRequest is the argument of [Engine.CompleteTurn].
type CompleteRequest struct {
	TurnCall
	Output   []machine.Part
	Messages []machine.Message
	Usage    machine.Usage
	// Event moves the run; "" = none.
	Event       string
	Artifacts   []machine.ArtifactWrite
	ExpectedSeq uint64
	// Await makes the run wait whatever the state; not with an Event.
	Await machine.Awaiting
	// Reply answers whoever asked with a message instead of a task.
	Reply bool
	// ConversationThroughStep is the MODEL step up to which what the turn said joins the conversation.
	ConversationThroughStep uint32
}

// FailRequest is the argument of [Engine.FailTurn].
type FailRequest struct {
	TurnCall
	Error     machine.Fault
	Retryable bool
	Usage     machine.Usage
	// Reject: the agent refuses the work; not with Retryable.
	Reject bool
	// Rejected is the MODEL step whose answer the executor rejects; 0 = none.
	Rejected uint32
}

// OutputRequest is the argument of [Engine.WriteOutput].
type OutputRequest struct {
	TurnCall
	Piece machine.OutputPiece
}

// StepsRequest is the argument of [Engine.RequestSteps]. PayloadHash and Denied
// of the requests are set by the engine.
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
	// Attempt of the step that is answered, from 1; required: a repeat is known by it.
	Attempt int
	OK      bool
	// Result is JSON (OK), Error the fault (not OK).
	Result []byte
	Error  machine.Fault
	// Final: no attempt follows the error; RetryAfter: not before so long.
	Final      bool
	RetryAfter time.Duration
	// Unknown: beside the error, it may have happened all the same.
	Unknown bool
	// Usage is what the attempt consumed, where Metered; else nobody says.
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
	// Cascade cancels the runs that this one started, too (CancelRun only).
	Cascade bool
}
