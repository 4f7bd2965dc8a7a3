package machine

// Execution selects who executes the turns of a run: the application, the connected workers or the
// sidecar.
type Execution uint8

const (
	// ExecutionUnset is not a valid execution. A start must set one of the other values.
	ExecutionUnset Execution = iota
	// Caller means that the application executes the turns. The turns have no leases and never expire.
	Caller
	// Workers means that connected workers execute the turns under leases.
	Workers
	// Sidecar means that the sidecar's own executor executes the turns under leases.
	Sidecar
)

// Leased reports whether turns are sent under leases.
func (e Execution) Leased() bool { return e == Workers || e == Sidecar }

// Known reports whether the value is a valid execution.
func (e Execution) Known() bool { return e == Caller || e.Leased() }

// Status is the status of a run. A terminal status never changes. After it, only late usage of model
// calls is still counted.
type Status uint8

const (
	StatusUnset Status = iota
	// Running means that a turn is ready or being executed.
	Running
	// Waiting means that only an input, an outside event, a step's answer or a timer can change the run.
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
	// MaxTransitions is the safety bound of RFC 0003 (MAX_STEPS). Default 10 000.
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

// State is the complete state of a run between two inputs. It is small, because it does not contain the
// values of artifacts, messages and answers. These are read from the journal by seq. A State is never
// changed in place: Step returns a new State.
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
	Labels        []Label
	Limits        Limits
	// Parent is set if a step of another run started this run.
	Parent *Parent
	// Task is set if the run began with a message to an agent.
	Task *Task
	// Depth is 0 for a run that a caller started. For a child run it is the parent's depth plus 1, at most 8.
	Depth int

	// Seq is the number of the last record. PrevHash is the hash of the chain up to this record.
	Seq      uint64
	PrevHash [32]byte
	// CreatedAt and At are in Unix nanoseconds. At never goes back.
	CreatedAt int64
	At        int64

	Status Status
	Reason string
	Paused bool
	// Awaiting is what a WAITING run waits for from outside. StatusAt is the time of the last change of
	// Status or Awaiting, in Unix nanoseconds.
	Awaiting Awaiting
	StatusAt int64
	// TurnAwaiting is what the last turn requested to wait for. It is set while the run first waits for
	// a held call or an agent's question. It is zero if Awaiting has the same value, or if the turn
	// requested nothing.
	TurnAwaiting Awaiting

	// Current is the name of the current state. VisitSeq is the seq of the last Transition.
	Current     string
	VisitSeq    uint64
	Visits      []Count
	Edges       []EdgeCount
	TotalVisits int
	// Repeats describe how visits have ended since the last input from outside. The oldest comes first.
	// There are at most [MaxRepeats]. Without [Graph.NoProgress] the list is empty.
	Repeats []Repeat
	// Transitions is the number of Transition records, including the entry of the run.
	Transitions int
	ToolCalls   int
	Reframes    int
	// Called counts the calls of tools that have their own bound of calls, in the order of the first
	// calls. Count.State contains the name of the tool.
	Called    []Count
	Tokens    int64
	CostMicro int64
	// EstimatedTokens is the part of Tokens that was estimated because the usage was not reported
	// completely.
	EstimatedTokens int64

	// Deadline is the deadline of the wall time, in Unix nanoseconds. It is 0 if there is none or if
	// the clock is stopped.
	Deadline int64
	// WallLeft is the remaining wall time in nanoseconds. It is set while the clock is stopped
	// (wall_time_excludes_waiting).
	WallLeft int64
	// StateTimeoutAt is the time at which the timeout of the state fires. It is 0 if there is no
	// timeout.
	StateTimeoutAt int64
	// MaxSteps is the effective bound of steps: the bound of the pack, which the start can lower. 0
	// means that there is no bound.
	MaxSteps int

	// Turn is the open turn, nil if there is none.
	Turn *Turn
	// Queue contains the seqs of the InputReceived records that wait for the next turn.
	Queue []uint64
	// RequiredMessages are the messages that the next request to a model must contain, in the order of their
	// records: steering messages of people, and notices.
	RequiredMessages []RequiredMessage
	// Steps are the steps of the current visit, in the order in which they were issued.
	Steps []ToolStep
	// LastStep is the last issued step number; numbers are never reused.
	LastStep uint32
	// ModelSteps is the number of issued steps that are model calls and were not copied.
	ModelSteps uint32
	// OwnSteps is the number of issued steps that the sidecar itself requested.
	OwnSteps uint32
	// Effects are the effects that can be undone and have not been undone, in the order in which they happened.
	Effects []CompensableEffect
	// Undo is set while effects are being undone.
	Undo *Undo
	// Texts are texts of model requests that records contain. The oldest text comes first.
	Texts []TextRef

	Artifacts     []ArtifactHead
	ArtifactBytes int64
	// Conversations are, for each state, the message rows that the next turn of the state sees.
	Conversations []Conversation
	MessageBytes  int64

	// Forked is set if the run began as a copy of another run.
	Forked *Forked
	// Unlisted are artifact versions that the store has not yet written to rows of their own, in order.
	// The store writes many versions into one row. Step neither reads nor changes them. They are not
	// part of the stored state, because the store finds them in the entries.
	Unlisted []ArtifactVersion

	// Account is the run's own budget. It is nil if the pack's budget applies unchanged.
	Account *Account
	// Policy restricts the tools of this run permanently. The delegating run sets it. If it is nil,
	// there is no restriction.
	Policy *ToolPolicy

	// Payer names the accounts that are charged for the run. If it is nil, the accounts of the run's
	// own labels are charged. An exception is a run that a step of this store started: if it has no
	// payer, no account is charged, because the step is counted instead.
	Payer *Payer
	// Apart is the part of Tokens and CostMicro that the runs of agents of this store consumed. The
	// operator's accounts count these runs separately.
	Apart Amount
	// Charges are the amounts of the run in the operator's accounts, in the order in which the accounts were first charged.
	Charges []Charge

	// Erasable means that the values of the run are encrypted with a key of their own and can be
	// erased. It is set at the start and never changes.
	Erasable bool
	// Key is the position of the run's encryption key. 0 means that the run has none. The store sets it
	// when the run begins and when it reads the state. Step does not change it, and it is not stored
	// with the state.
	Key uint64
	// Erased is set if the values of the run were erased. The store sets it in the states that it reads.
	Erased *Erased

	// Imported means that the run came from another store for inspection. It accepts no input. The
	// engine sets this field. No input changes it.
	Imported bool
}

// Label is a key and a value that the caller chose. Labels are sorted by key.
type Label struct{ Key, Value string }

// Parent identifies the step of another run that started this run.
type Parent struct {
	RunID   string
	Step    uint32
	Attempt int
	// Origin is the base URL of the sidecar that has the parent run. "" means this sidecar.
	Origin string
}

// OriginUnknown is the Origin if the sidecar of the parent run did not send its URL.
const OriginUnknown = "unknown"

// Count is the number of visits of a state.
type Count struct {
	State string
	N     int
}

// MaxRepeats bounds the number of visit ends that are remembered. A loop with more different ends is
// not recognized as a loop without progress.
const MaxRepeats = 64

// Repeat is one way in which visits ended. It counts how often visits of State have ended in this way
// since a visit last ended in a new way.
type Repeat struct {
	State string
	Hash  [32]byte
	N     int
}

// EdgeCount is the number of times that an edge was followed.
type EdgeCount struct {
	State, Event string
	N            int
}

// Turn is one open piece of work inside a visit.
type Turn struct {
	// Seq is the record that opened the turn: a Transition or a TurnOpened.
	Seq uint64
	// Attempt is the number of the attempt, from 1. Each failed execution increments it.
	Attempt int
	// NotBefore is the end of the backoff, in Unix nanoseconds. 0 means that the turn is ready.
	NotBefore int64
	// Suspended means that SuspendTurn released the turn until its pending steps are answered.
	Suspended bool
	// Assigned is the delivery in the last TurnAssigned record. It is zero if there is no such record
	// yet.
	Assigned Assignment
	// Requests is the number of recorded step requests of this execution (attempt and delivery). The
	// next default key is Requests plus 1.
	Requests int
	// Calls is the number of new steps that this turn issued. It is limited by max_tool_calls_per_turn.
	Calls int
	// LastFailure is the hash of the FailTurn that opened this attempt. With it, a repeat of that
	// FailTurn is recognized and answered as a duplicate.
	LastFailure [32]byte
	// Keys is the number with which default step keys begin. It is set if a fork copied the turn and
	// the turn was not the first one of its visit. 0 means that the rule of [RequestSteps] applies.
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

// ToolStep is one call in the current visit. It is a call of a tool (RFC-103), an agent or a model.
type ToolStep struct {
	Step uint32
	Key  string
	// Tool is the name of the tool. For a MODEL step it is the name of the model.
	Tool        string
	PayloadHash [32]byte
	Status      StepStatus
	Attempt     int
	// TurnSeq is the turn that issued the step.
	TurnSeq uint64
	// RequestSeq and AnswerSeq are the records that contain the payload and the answer.
	RequestSeq uint64
	AnswerSeq  uint64
	AnswerHash [32]byte
	// Deadline is the deadline of the step in Unix nanoseconds. It is 0 after the answer.
	Deadline   int64
	Delegation bool
	// Remote is the known state of the agent's task, if the step is a delegation. It is nil if nothing
	// is known yet.
	Remote *Remote
	// Model is set for a MODEL step. It is nil for a step that calls a tool.
	Model *ModelStep
	// Call is the call in a model's answer that this step makes. It is nil if no model requested the
	// step.
	Call *CallRef
	// ByCaller means that the requesting caller makes the call itself, see [StepRequest].
	ByCaller bool
	// Bound is the maximum consumption of the attempt of a tool or agent. For a model call, Model
	// contains the bound. Bound is zero after the answer, or if no maximum is known.
	Bound Amount
	// Effect is the business key of the call, see [StepRequest]. It is zero if the call has none.
	Effect [32]byte
	// Doubt means that the outcome of an attempt is unknown. It is set only for steps with a business
	// key.
	Doubt bool
	// Approval is nil for calls that need no approval.
	Approval *StepApproval
	// Inquiry is the step that asks whether the current attempt happened. It is 0 if there is no such
	// step.
	Inquiry uint32
	// About is set if the sidecar itself requested the step. It is nil if a turn requested it.
	About *About
	// Local means that the run of the step's agent is counted separately in the operator's accounts, see [StepRequested].
	Local bool
}

// ArtifactHead describes an artifact's current value.
type ArtifactHead struct {
	Name string
	Type string
	Mode Mode
	// Seq is the record of the last write.
	Seq uint64
	// Writes is the number of writes. Bytes is the size of the current value. For Append it is the size
	// of all parts.
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
