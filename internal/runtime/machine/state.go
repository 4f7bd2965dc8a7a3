package machine

// Execution is the kind of executor of a run's turns.
type Execution uint8

const (
	// ExecutionUnset is not valid: execution is required at start.
	ExecutionUnset Execution = iota
	// Caller: the application executes the turns; they are never leased and never expire.
	Caller
	// Workers: turns are leased to connected workers.
	Workers
	// Sidecar: turns are leased to the sidecar's own executor.
	Sidecar
)

// Leased reports whether turns are handed out under leases.
func (e Execution) Leased() bool { return e == Workers || e == Sidecar }

// Known reports whether the value is a valid execution.
func (e Execution) Known() bool { return e == Caller || e.Leased() }

// Status is the status of a run. A terminal status never changes; usage of model calls is still counted after
// it.
type Status uint8

const (
	StatusUnset Status = iota
	// Running: a turn is ready or being executed.
	Running
	// Waiting: only an input, an outside event, a step's answer or a timer can move the run.
	Waiting
	Completed
	BudgetExhausted
	Escalated
	Failed
	Cancelled
)

// Terminal reports whether a run in this status has ended.
func (s Status) Terminal() bool { return s >= Completed }

// Limits are the operator's bounds. They are copied into the run at start, so that a changed configuration
// does not change a run that is under way.
type Limits struct {
	// MaxTransitions is the safety bound of RFC 0003 (MAX_STEPS). Default 10 000.
	MaxTransitions int
	// MaxArtifactBytes bounds one written value. Default 64 KiB.
	MaxArtifactBytes int64
	// MaxRunArtifactBytes bounds the size of all artifacts of a run together. Default 1 MiB.
	MaxRunArtifactBytes int64
	// MaxMessageBytes bounds a run's conversation. Default 4 MiB.
	MaxMessageBytes int64
	// MaxQueuedInputs bounds inputs that wait for the next turn. Default 16.
	MaxQueuedInputs int
}

// State is the complete state of a run between two inputs. It is small: the bodies of artifacts, messages and
// answers are not in it and are read from the journal by seq. A State is never changed in place: Step returns
// a new one.
type State struct {
	Namespace uint32
	RunID     string
	// Digest, Entry and Agent select the Graph.
	Digest string
	PackID string
	// PackVersion is for display; the digest decides.
	PackVersion   string
	Entry         string
	Agent         string
	EntryOverride bool
	Execution     Execution
	Labels        []Label
	Limits        Limits
	// Parent is set for child runs of a delegation.
	Parent *Parent
	// Task is set for runs that began with a message to an agent.
	Task *Task
	// Depth is 0 for a run started by a caller, parent's + 1 for a child; <= 8.
	Depth int

	// Seq is the last record's number; PrevHash the hash of the chain up to it.
	Seq      uint64
	PrevHash [32]byte
	// CreatedAt and At are Unix nanoseconds; At never goes back.
	CreatedAt int64
	At        int64

	Status Status
	Reason string
	Paused bool
	// Awaiting is what a WAITING run waits for from outside. StatusAt is when Status or Awaiting changed
	// last, Unix nanoseconds.
	Awaiting Awaiting
	StatusAt int64
	// TurnAwaiting is what the last turn asked to wait for while the run first waits for a held call or an
	// agent's question. Zero: Awaiting has it, or the turn asked for none.
	TurnAwaiting Awaiting

	// Current is the name of the current state; VisitSeq the seq of the last Transition.
	Current     string
	VisitSeq    uint64
	Visits      []Count
	Edges       []EdgeCount
	TotalVisits int
	// Repeats are the ends of visits since the last input from outside, at most [MaxRepeats], the oldest
	// first; none without [Graph.NoProgress].
	Repeats []Repeat
	// Transitions counts Transition records, the entry included.
	Transitions int
	ToolCalls   int
	Reframes    int
	// Called counts the calls of tools that have a bound of their own (Count.State is the tool), in the order
	// of their first calls.
	Called    []Count
	Tokens    int64
	CostMicro int64
	// EstimatedTokens is the part of Tokens with incompletely reported usage.
	EstimatedTokens int64

	// Deadline of the wall clock in Unix nanoseconds; 0 = none or stopped.
	Deadline int64
	// WallLeft is what remains in nanoseconds while the clock is stopped (wall_time_excludes_waiting).
	WallLeft int64
	// StateTimeoutAt is when the state's timeout fires; 0 = none.
	StateTimeoutAt int64
	// MaxSteps is the effective bound (pack's, lowered by start); 0 = none.
	MaxSteps int

	// Turn is the open turn, nil if there is none.
	Turn *Turn
	// Queue holds the seqs of InputReceived records for the next turn.
	Queue []uint64
	// RequiredMessages are the messages that the next request to a model must contain, in the order of their
	// records: steering messages of people, and notices.
	RequiredMessages []RequiredMessage
	// Steps are the steps of the current visit in issue order.
	Steps []ToolStep
	// LastStep is the last issued step number; numbers are never reused.
	LastStep uint32
	// ModelSteps is the number of issued steps that are model calls and were not copied.
	ModelSteps uint32
	// OwnSteps is the number of issued steps that the sidecar itself requested.
	OwnSteps uint32
	// Effects are the effects that have not been undone and can be, in the order in which they happened.
	Effects []CompensableEffect
	// Undo is set while effects are being undone.
	Undo *Undo
	// Texts are texts of model requests that a record has, the oldest first.
	Texts []TextRef

	Artifacts     []ArtifactHead
	ArtifactBytes int64
	// Conversations are the visible message rows of each state.
	Conversations []Conversation
	MessageBytes  int64

	// Forked is set for a run that began as a copy of another.
	Forked *Forked
	// Unlisted are artifact versions that the store has not yet written to rows of their own, in order: the
	// store writes many versions into one row. Step neither reads nor changes them, and they are not part of
	// the stored state: the store finds them in the entries.
	Unlisted []ArtifactVersion

	// Account is nil if the pack's budget applies unchanged.
	Account *Account
	// Policy restricts the tools of this run for ever, set by the delegating run; nil = no restriction.
	Policy *ToolPolicy

	// Payer names the accounts that are charged for the run. Nil = those of its own labels, or, if a step of
	// this store started it, none: the step is counted instead.
	Payer *Payer
	// Apart is the part of Tokens and CostMicro that runs of agents of this store consumed: these are counted
	// separately in the operator's accounts.
	Apart Amount
	// Charges are the run's amounts in the operator's accounts, in the order in which the accounts were first
	// charged.
	Charges []Charge

	// Erasable means that its values are stored under a key of their own and can be erased. Set at the start,
	// for ever.
	Erasable bool
	// Key is the place of that key, 0 = none. The store sets it when the run begins and whenever it reads the
	// state; Step does not change it, and it is not stored with a state.
	Key uint64
	// Erased is set if the values of the run were erased. The store sets it in the states that it reads.
	Erased *Erased

	// Imported runs came from another store for inspection: they take no input. The host sets it; no input of
	// a run changes it.
	Imported bool
}

// Label is a caller's key and value; labels are sorted by key.
type Label struct{ Key, Value string }

// Parent identifies the step of another run that started this one.
type Parent struct {
	RunID   string
	Step    uint32
	Attempt int
	// Origin is the base URL of the sidecar that has the parent run; "" = this one.
	Origin string
}

// OriginUnknown is the origin if the parent run's sidecar did not give its URL.
const OriginUnknown = "unknown"

// Count is how often a state was visited.
type Count struct {
	State string
	N     int
}

// MaxRepeats bounds the remembered ends of visits: a loop with more different ends is not recognized as one
// without progress.
const MaxRepeats = 64

// Repeat is one end of a visit: how often visits of State have ended in this way since a visit last ended in
// a new way.
type Repeat struct {
	State string
	Hash  [32]byte
	N     int
}

// EdgeCount is how often an edge was followed.
type EdgeCount struct {
	State, Event string
	N            int
}

// Turn is one open piece of work inside a visit.
type Turn struct {
	// Seq is the record that opened it: the Transition, or a TurnOpened.
	Seq uint64
	// Attempt counts from 1; failed executions raise it.
	Attempt int
	// NotBefore is the end of the backoff in Unix nanoseconds; 0 = ready.
	NotBefore int64
	// Suspended means that SuspendTurn released the turn until its pending steps are answered.
	Suspended bool
	// Assigned is the delivery in the last TurnAssigned; zero = none yet.
	Assigned Assignment
	// Requests counts the recorded step requests of this execution (attempt and delivery): the default keys
	// continue from there.
	Requests int
	// Calls counts the new steps issued in this turn (max_tool_calls_per_turn).
	Calls int
	// LastFailure is the hash of the FailTurn that opened this attempt, so that its repeat is answered as a
	// duplicate.
	LastFailure [32]byte
	// Keys is the first part of the default step keys of a turn that a fork copied, if it was not the first
	// turn of its visit; 0 = the rule of [RequestSteps].
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

// ToolStep is one call of the current visit: of a tool (RFC-103), an agent or a model.
type ToolStep struct {
	Step uint32
	Key  string
	// Tool is the name of the tool; for a MODEL step it is the model.
	Tool        string
	PayloadHash [32]byte
	Status      StepStatus
	Attempt     int
	// TurnSeq is the turn that issued it.
	TurnSeq uint64
	// RequestSeq and AnswerSeq are the records that hold payload and answer.
	RequestSeq uint64
	AnswerSeq  uint64
	AnswerHash [32]byte
	// Deadline is Unix nanoseconds; 0 once answered.
	Deadline   int64
	Delegation bool
	// Remote is what is known of the agent's side of a delegation; nil = not known yet.
	Remote *Remote
	// Model makes it a MODEL step; nil = it calls a tool.
	Model *ModelStep
	// Call is the call in a model's answer that this step makes; nil = no model requested it.
	Call *CallRef
	// ByCaller means that the requesting caller makes the call itself; see [StepRequest].
	ByCaller bool
	// Bound is the maximum consumption of the attempt of a tool or agent; for a model call it is in Model.
	// Zero once answered, and if no maximum is given.
	Bound Amount
	// Effect is its business key, zero = none; see [StepRequest].
	Effect [32]byte
	// Doubt means that the outcome of an attempt is unknown; set only for steps with an effect.
	Doubt bool
	// Approval is nil for calls that need no approval.
	Approval *StepApproval
	// Inquiry is the step that asks whether the current attempt happened; 0 = none.
	Inquiry uint32
	// About makes it a step of the sidecar's own; nil = a turn requested it.
	About *About
	// Local means that its agent's run is counted separately in the operator's accounts, see [StepRequested].
	Local bool
}

// ArtifactHead describes an artifact's current value.
type ArtifactHead struct {
	Name string
	Type string
	Mode Mode
	// Seq is the record of the last write.
	Seq uint64
	// Writes counts the writes; Bytes is the size of the current value (of all
	// segments for Append).
	Writes int
	Bytes  int64
	Hash   [32]byte
}

// Conversation is the window of message rows [From, Next) that a state's next turn sees.
type Conversation struct {
	State string
	From  uint64
	Next  uint64
}
