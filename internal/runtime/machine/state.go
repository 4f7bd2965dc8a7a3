package machine

import (
	"slices"
	"time"
)

// Execution is the kind of executor of a run's turns: the application, the connected workers or the sidecar.
type Execution uint8

const (
	// ExecutionUnset is not a valid execution. A start must set one of the other values.
	ExecutionUnset Execution = iota
	// Caller means that the application that calls the API executes the turns. The turns have no leases and never
	// expire, except while a worker serves the run.
	Caller
	// Workers means that connected workers execute the turns under leases.
	Workers
	// Sidecar means that the sidecar's own executor executes the turns under leases.
	Sidecar
)

// Leased reports whether turns are sent to workers under leases.
func (e Execution) Leased() bool { return e == Workers || e == Sidecar }

// Known reports whether the value is a valid execution.
func (e Execution) Known() bool { return e == Caller || e.Leased() }

// Status is the status of a run. A terminal status never changes. After the end of a run, only late usage of model
// calls is still counted.
type Status uint8

const (
	StatusUnset Status = iota
	// Running means that a turn is ready or being executed.
	Running
	// Waiting means that the run has no turn to execute. Only an input, an event from outside, a step's answer or a
	// timer can change it. It also means that a call waits for approval or that an agent asks a question.
	Waiting
	Completed
	BudgetExhausted
	Escalated
	Failed
	Cancelled
)

// Terminal reports whether a run in this status has ended.
func (s Status) Terminal() bool { return s >= Completed }

// Limits are the operator's bounds. They are copied into the run at its start, so that a change of the
// configuration does not affect an active run.
type Limits struct {
	// MaxTransitions bounds the number of entries into states in one run (MAX_STEPS of RFC 0003).
	// Default 10 000.
	MaxTransitions int
	// MaxArtifactBytes bounds one written value. Default 64 KiB.
	MaxArtifactBytes int64
	// MaxRunArtifactBytes bounds the sum of all artifacts of a run, in bytes. Default 1 MiB.
	MaxRunArtifactBytes int64
	// MaxMessageBytes bounds a run's conversation. Default 4 MiB.
	MaxMessageBytes int64
	// MaxQueuedInputs bounds the inputs that wait for the next turn. Default 16.
	MaxQueuedInputs int
}

// State is the complete state of a run between two inputs. It is small, because the values of artifacts, messages and
// answers stay in the journal and are read by seq. A State is never changed in place: rules.Step returns a new State.
type State struct {
	Namespace uint32
	RunID     string
	// Digest, Entry and Agent select the Graph.
	Digest string
	PackID string
	// PackVersion is for display only. The digest identifies the pack.
	PackVersion   string
	Entry         string
	Agent         string
	EntryOverride bool
	Execution     Execution
	// Conversation means that a user holds a conversation with the run. It is set at the start and never
	// changes.
	Conversation bool
	Labels       []Label
	Limits       Limits
	// Parent is set if a step of another run started this run.
	Parent *Parent
	// Task is set if the run began with a message to an agent.
	Task *Task
	// Depth is the number of delegations above the run: 0 for a run that a caller started, at most [MaxDepth].
	Depth int

	// Seq is the number of the run's last record. PrevHash is the hash of the run's hash chain up to this record.
	Seq      uint64
	PrevHash [32]byte
	// CreatedAt is the time of the start, and At the time of the last input, in Unix nanoseconds. At never goes back.
	CreatedAt int64
	At        int64

	Status Status
	Reason string
	Paused bool
	// Awaiting is the kind of input that a WAITING run waits for from outside. StatusAt is the time of the last change
	// of Status or Awaiting, in Unix nanoseconds.
	Awaiting Awaiting
	StatusAt int64
	// TurnAwaiting is the kind of input that the last turn requested to wait for. It is set only while the run waits for
	// something else first: a decision about a call, an agent's question, or the end of a compensation. Then Awaiting has
	// another value.
	TurnAwaiting Awaiting

	// Current is the name of the state that the run is in. VisitSeq is the seq of the last Transition, or of the Origin of
	// a fork that has made none yet.
	Current     string
	VisitSeq    uint64
	Visits      []Count
	Edges       []EdgeCount
	TotalVisits int
	// Repeats describe how visits have ended since the last input from outside, the oldest first, at most [MaxRepeats].
	// The list is empty if the pack does not set [Graph.NoProgress].
	Repeats []Repeat
	// Transitions is the number of Transition records, including the one for the entry of the run.
	Transitions int
	ToolCalls   int
	Reframes    int
	// Called counts the calls of tools that have a bound of calls, in the order of their first calls. Count.State
	// contains the name of the tool.
	Called    []Count
	Tokens    int64
	CostMicro int64
	// EstimatedTokens is the part of Tokens that was estimated because the usage was not reported
	// completely.
	EstimatedTokens int64

	// Deadline is the time at which the wall time of the run is used up, in Unix nanoseconds. It is 0 if the wall time
	// is unlimited or if its clock is stopped.
	Deadline int64
	// WallLeft is the remaining wall time in nanoseconds. It is set only while the clock is stopped
	// (wall_time_excludes_waiting).
	WallLeft int64
	// StateTimeoutAt is the time at which the timeout of the state fires. It is 0 if there is no
	// timeout.
	StateTimeoutAt int64
	// MaxSteps is the bound of steps that applies to the run: the bound of the pack, which the start can lower. 0 means
	// that there is no bound.
	MaxSteps int

	// Turn is the open turn. It is nil if no turn is open.
	Turn *Turn
	// Queue contains the seqs of the InputReceived records that wait for the next turn.
	Queue []uint64
	// RequiredMessages are the messages that the next request to a model must contain, in the order of their
	// records: steering messages of people, and notices.
	RequiredMessages []RequiredMessage
	// Steps are the steps of the current visit, in the order in which they were issued.
	Steps []ToolStep
	// LastStep is the number of the step that was issued last. A number is never used twice.
	LastStep uint32
	// ModelSteps is the number of model calls among the issued steps. Steps that a fork copied are not counted.
	ModelSteps uint32
	// OwnSteps is the number of steps that the sidecar itself requested, in order to ask about or undo other steps.
	OwnSteps uint32
	// Effects are the effects of tool calls that can be undone and have not been undone, in the order in which they
	// happened.
	Effects []CompensableEffect
	// Undo is set while the effects of the run's tool calls are being undone.
	Undo *Undo
	// Texts are the texts of earlier model requests to which a new request can refer. The oldest text comes first.
	Texts []TextRef

	Artifacts     []ArtifactHead
	ArtifactBytes int64
	// Conversations are, for each state, the message rows that the next turn of the state sees.
	Conversations []Conversation
	MessageBytes  int64

	// Forked is set if the run began as a copy of another run.
	Forked *Forked
	// Unlisted are the newest artifact versions, in order, if the store has not written them into artifact rows yet. The
	// store collects them, because a row holds many versions. Package rules neither reads nor changes them. They are not
	// stored with the state, because the store finds them in the entries.
	Unlisted []ArtifactVersion

	// Account contains the differences between the budget of this run and the budget of its pack, and what is remembered
	// about its use, for example the model calls without reported usage. It is nil if there is neither.
	Account *Account
	// Policy restricts the tools of this run permanently. The delegating run sets it. If it is nil,
	// there is no restriction.
	Policy *ToolPolicy

	// Payer names the run whose labels select the charged accounts. If it is nil, the run's own labels select them. A
	// run that a step of this store started has either a Payer or is not charged, because the step is charged instead.
	Payer *Payer
	// Apart is the part of Tokens and CostMicro that the runs of agents of this store consumed. The operator's accounts
	// count those runs separately.
	Apart Amount
	// Charges are the amounts that the run has consumed and reserved in the operator's accounts, in the order in which
	// the accounts were first charged.
	Charges []Charge

	// Erasable means that the values of the run are encrypted with a key of their own and can be
	// erased. It is set at the start and never changes.
	Erasable bool
	// Key is the position of the run's encryption key. 0 means that the run has no key. The store sets
	// it when the run begins and when it reads the state. It is not stored with the state.
	Key uint64
	// Erased is set if the values of the run were erased. The store sets it when it reads the state.
	Erased *Erased

	// Imported means that the run was imported from another store for inspection. It accepts no input.
	// The engine sets this field. No input changes it.
	Imported bool
}

// Label is a key and a value that the caller chose at the start of a run. The labels of a run are sorted by key.
type Label struct{ Key, Value string }

// Parent identifies the step of another run that started this run.
type Parent struct {
	RunID   string
	Step    uint32
	Attempt int
	// Origin is the base URL of the sidecar that has the parent run. "" means this sidecar.
	Origin string
}

// OriginUnknown is the value of Parent.Origin if the sidecar of the parent run did not send its URL.
const OriginUnknown = "unknown"

// Count is the number of visits of a state, or of calls of a tool.
type Count struct {
	State string
	N     int
}

// MaxRepeats bounds the number of different visit ends that a run remembers. A longer loop is not recognized as a loop
// without progress.
const MaxRepeats = 64

// Repeat counts equal ends of visits, for the rule against loops without progress: N visits of State have ended with
// the result Hash since a visit last ended in a new way.
type Repeat struct {
	State string
	Hash  [32]byte
	N     int
}

// EdgeCount is the number of times that a run left a state by one event and entered the target of the event.
type EdgeCount struct {
	State, Event string
	N            int
}

// Turn is one execution of a state's prompt that has not ended.
type Turn struct {
	// Seq is the record that opened the turn: a Transition, a TurnOpened or the Origin of a fork.
	Seq uint64
	// Attempt is the number of the current attempt, from 1. Each failed attempt increments it.
	Attempt int
	// NotBefore is the end of the pause after a failed attempt, in Unix nanoseconds. 0 means that the turn can be
	// executed now.
	NotBefore int64
	// Suspended means that SuspendTurn released the turn until its pending steps are answered.
	Suspended bool
	// Assigned is the delivery (assignment of the turn to an executor) that a command of this attempt named last. If
	// the executor is a worker, a TurnAssigned record contains it. It is zero if there is none.
	Assigned Assignment
	// Requests is the number of step requests of this execution of the turn. The next step without a key gets the key
	// Requests plus 1.
	Requests int
	// Calls is the number of new calls of tools and agents that this turn issued. It is limited by max_tool_calls_per_turn.
	Calls int
	// LastFailure is the hash of the FailTurn that opened this attempt. It shows whether a further FailTurn only
	// repeats the same report.
	LastFailure [32]byte
	// Keys is the number with which the default keys of steps begin, if a fork copied the turn and the turn was not the
	// first one of its visit. 0 means that the rule of [RequestSteps] applies.
	Keys uint64
}

// StepStatus is the status of a step.
type StepStatus uint8

const (
	StepStatusPending StepStatus = iota + 1
	StepStatusOK
	StepStatusError
	StepStatusCancelled
)

// ToolStep is one step of the current visit: a call of a tool (RFC-103), an agent or a model.
type ToolStep struct {
	Step uint32
	Key  string
	// Tool is the name of the tool. For a MODEL step it is the name of the model.
	Tool        string
	PayloadHash [32]byte
	Status      StepStatus
	Attempt     int
	// TurnSeq is the seq of the turn that issued the step. For a MODEL step it is the turn that requested it last. For a
	// step that the sidecar itself requested it is the seq of the visit.
	TurnSeq uint64
	// RequestSeq and AnswerSeq are the records that contain the payload and the answer.
	RequestSeq uint64
	AnswerSeq  uint64
	AnswerHash [32]byte
	// Deadline is the time by which the step must be answered, in Unix nanoseconds. It is 0 after the answer, and while
	// another step asks about the outcome.
	Deadline   int64
	Delegation bool
	// Remote is the known state of the agent's task, if the step is a delegation. It is nil if nothing
	// is known yet.
	Remote *Remote
	// Model is set for a MODEL step. It is nil for a step that calls a tool.
	Model *ModelStep
	// Call is the tool call in a model's answer that this step executes. It is nil if no model requested the step.
	Call *CallRef
	// ByCaller means that the requesting caller makes the call itself, see [StepRequest].
	ByCaller bool
	// Bound is the maximum that the current attempt of a tool or agent may consume. It is zero after the answer, or if
	// no maximum is known. The bound of a model call is in Model.
	Bound Amount
	// Effect is the business key of the call, which all calls with the same effect share, see [StepRequest]. It is zero
	// if the call has none.
	Effect [32]byte
	// Doubt means that the outcome of an attempt is unknown, so that its effect may have happened.
	Doubt bool
	// Approval is nil for calls that need no approval.
	Approval *StepApproval
	// Inquiry is the number of the step that asks the reconcile tool whether the current attempt happened. It is 0 if
	// there is none.
	Inquiry uint32
	// About identifies the step that this step asks about or compensates, if the sidecar itself requested this step. It
	// is nil if a turn requested this step.
	About *About
	// Local means that the run of the step's agent is counted separately in the operator's accounts, see [StepRequested].
	Local bool
	// Repeatable means that an attempt with an unknown outcome is followed by another one, see [StepRequested].
	Repeatable bool
}

// ArtifactHead describes an artifact's current value.
type ArtifactHead struct {
	Name string
	Type string
	Mode Mode
	// Seq is the record of the last write to the artifact.
	Seq uint64
	// Writes is the number of writes. Bytes is the size of the current value. With the mode Append it is the size of
	// all written values.
	Writes int
	Bytes  int64
	Hash   [32]byte
}

// Conversation is a range of message rows of a state, from From (inclusive) to Next (exclusive). The
// next turn of the state sees these messages.
type Conversation struct {
	State string
	From  uint64
	Next  uint64
}

// statusNames are the names of the statuses that are used in indexes, in JSON and for display.
var statusNames = [...]string{
	StatusUnset:     "UNSET",
	Running:         "RUNNING",
	Waiting:         "WAITING",
	Completed:       "COMPLETED",
	BudgetExhausted: "BUDGET_EXHAUSTED",
	Escalated:       "ESCALATED",
	Failed:          "FAILED",
	Cancelled:       "CANCELLED",
}

// String returns the name of the status, for example "BUDGET_EXHAUSTED".
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "UNKNOWN"
}

// Semantics is the version of the rules by which an input makes records. Each input contains its version, and every
// replay uses that version, also in newer programs. A change of the rules that alters the records of an equal input
// gets a new version here, and the code keeps the old rule. A change that only adds a field that old inputs cannot
// have needs no version.
type Semantics uint32

const (
	// SemanticsFirst applies to inputs without a version, which were made before the field existed.
	SemanticsFirst Semantics = 1
	// SemanticsEnds changes two rules. Ended contains the event that a bound prevented. If a run is over a budget and a
	// failed step would escalate it, the run ends as BUDGET_EXHAUSTED and not as ESCALATED.
	SemanticsEnds Semantics = 2
	// SemanticsModels computes the cost of model usage from prices. If there is a cost budget and the
	// model of a call has no price, the call is refused unless the executor gives the cost.
	SemanticsModels Semantics = 3
	// SemanticsKinds means that StepResolved, StepRejected and StepCancelled contain the kind of the step for every
	// kind of step, not only for model calls.
	SemanticsKinds Semantics = 4
	// SemanticsBounds handles usage that is not reported. If a model's answer does not report its usage, the reserved
	// maximum of the call is counted and marked as estimated. If a model call gets no answer, its maximum stays
	// reserved in every run with a budget of tokens or cost.
	SemanticsBounds Semantics = 5
	// SemanticsLeases gives a lease to each delegation of a run with a budget. The lease bounds what the agent's run
	// may consume, including tool calls. The tool policy is sent with the delegation.
	SemanticsLeases Semantics = 6
	// SemanticsAccounts makes the operator's accounts count the run of an agent of this store separately. The step that
	// began the agent's run is then not counted in the accounts.
	SemanticsAccounts Semantics = 7
	// SemanticsControl applies the control of workflow states (RFC 0014). After the executor of a turn has moved the
	// run into a state, the run opens the state's first turn or waits for an input. In older versions it always opens a
	// turn.
	SemanticsControl Semantics = 8
	// Current is the version that the engine sets in new inputs.
	Current = SemanticsControl
)

// Defaults of [RetryPolicy].
const (
	DefaultAttempts     = 3
	DefaultInitialPause = time.Second
	DefaultMaxPause     = time.Minute
)

// MaxDepth bounds the depth of nested delegations.
const MaxDepth = 8

// Defaults of [Limits].
const (
	DefaultMaxTransitions      = 10_000
	DefaultMaxArtifactBytes    = 64 << 10
	DefaultMaxRunArtifactBytes = 1 << 20
	DefaultMaxMessageBytes     = 4 << 20
	DefaultMaxQueuedInputs     = 16
)

// Defaults of [Tool] and of Graph.MaxPendingSteps.
const (
	DefaultStepTimeout = 300 * time.Second
	// DefaultDelegationTimeout is the timeout of a step that an agent executes. The agent's run is also bounded by its
	// own budget and by the remaining wall time of the delegating run.
	DefaultDelegationTimeout = 24 * time.Hour
	DefaultMaxPendingSteps   = 8
	// DefaultTurnTokens is the assumed maximum consumption of one turn of an agent whose prompt does not bound its
	// answers: 4096 tokens for one answer and 4096 tokens for the request.
	DefaultTurnTokens = 2 * 4096
)

// Defaults of model calls.
const (
	DefaultModelTimeout  = 600 * time.Second
	DefaultModelAttempts = 3
)

// Task is the A2A task of a run that began with a message to an agent. The task's id is the run's id.
type Task struct {
	// ContextID groups the tasks of one conversation.
	ContextID string
	// Owner is the principal that sent the message.
	Owner string
	// Tenant is the A2A tenant of the message, which names the called agent. It is "" if the message
	// had none.
	Tenant string
}

// Envelope is the data of a message to an agent, without its parts.
type Envelope struct {
	// MessageID is the id that the sender gave to the message.
	MessageID string
	ContextID string
	// References are the ids of tasks that the message refers to.
	References []string
	// Extensions are the extension URIs named in the message.
	Extensions []string
	// Metadata is a compact JSON object or empty.
	Metadata []byte
}

// Awaiting is the kind of input that a WAITING run waits for from outside.
type Awaiting uint8

const (
	AwaitNothing Awaiting = iota
	// AwaitInput means that the run waits for message parts, for an event in an external state, or for a decision about a
	// call.
	AwaitInput
	// AwaitAuth means that the run waits for an authorisation, which happens outside Pawl, and then for
	// an input.
	AwaitAuth
)

// OutputPiece is a piece of the output of an open turn. Callers can read it before the turn is completed. The piece is
// a part of the artifact with the id ID.
type OutputPiece struct {
	// ID identifies the output artifact among those of the run. It is required.
	ID string
	// Name and Description are for display.
	Name        string
	Description string
	Parts       []Part
	// Append adds the parts to the output artifact with the same ID. If it is false, the parts replace the contents of
	// the artifact. When a turn is executed again, the first piece of its output replaces the contents.
	Append bool
	// Last means that the execution adds no further piece to the output artifact with the same ID.
	Last bool
	// Metadata is a compact JSON object, or empty.
	Metadata []byte
}

// ToolPolicy restricts the tools that the run of an agent may call. The delegating run sets it. It can only remove
// rights that the agent's own pack and sidecar give. Tool names are exact and sorted.
type ToolPolicy struct {
	// Limited means that only the tools in Allow may be called. Allow may be empty. If Limited is false, all tools may
	// be called.
	Limited bool
	Allow   []string
	// Block contains tools that must not be called, even if they are in Allow.
	Block []string
	// Named means that the operator's allowlist contains the agent itself. Without it, the delegation must not be sent
	// to an agent that does not enforce policies.
	Named bool
}

// Admits reports whether the allow list of the policy admits the tool. A nil policy admits every tool.
func (p *ToolPolicy) Admits(tool string) bool {
	return p == nil || !p.Limited || slices.Contains(p.Allow, tool)
}

// Blocks reports whether the block list contains the tool.
func (p *ToolPolicy) Blocks(tool string) bool { return p != nil && slices.Contains(p.Block, tool) }

// Binds reports whether the policy has a list that the called agent must enforce.
func (p *ToolPolicy) Binds() bool { return p != nil && (p.Limited || len(p.Block) > 0) }
