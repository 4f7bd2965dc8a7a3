package machine

// Execution says who executes the turns of a run.
type Execution uint8

const (
	// ExecutionUnset is no valid choice: execution is required at start.
	ExecutionUnset Execution = iota
	// Caller: the app drives; turns are never leased and never expire.
	Caller
	// Workers: turns are leased to connected workers.
	Workers
	// Sidecar: turns are leased to the sidecar's own executor.
	Sidecar
)

// Leased: turns are handed out under leases.
func (e Execution) Leased() bool { return e == Workers || e == Sidecar }

// Known: it says who executes.
func (e Execution) Known() bool { return e == Caller || e.Leased() }

// Status of a run. A terminal one never changes again; what calls of models consumed is
// counted even then.
type Status uint8

const (
	StatusUnset Status = iota
	// Running: a turn is ready or out.
	Running
	// Waiting: only an input, an outside event, a step's answer or a timer can
	// move the run.
	Waiting
	Completed
	BudgetExhausted
	Escalated
	Failed
	Cancelled
)

// Terminal reports whether a run in this status has ended.
func (s Status) Terminal() bool { return s >= Completed }

// Limits are the operator's bounds, copied into the run at start so that a
// changed configuration never changes a run that is under way.
type Limits struct {
	// MaxTransitions is the backstop of RFC 0003 (MAX_STEPS). Default 10 000.
	MaxTransitions int
	// MaxArtifactBytes bounds one written value. Default 64 KiB.
	MaxArtifactBytes int64
	// MaxRunArtifactBytes bounds what a run's artifacts hold together. Default 1 MiB.
	MaxRunArtifactBytes int64
	// MaxMessageBytes bounds a run's conversation. Default 4 MiB.
	MaxMessageBytes int64
	// MaxQueuedInputs bounds inputs that wait for the next turn. Default 16.
	MaxQueuedInputs int
}

// State is the whole of a run between two inputs: small, without bodies of
// artifacts, messages or answers (those are read from the journal by seq).
// A State is never changed in place: Step returns a new one.
type State struct {
	Namespace uint32
	RunID     string
	// Digest, Entry and Agent select the Graph.
	Digest string
	PackID string
	// PackVersion is told to people; the digest decides.
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

	// Seq is the last record's number; PrevHash the chain up to it.
	Seq      uint64
	PrevHash [32]byte
	// CreatedAt and At are Unix nanoseconds; At never goes back.
	CreatedAt int64
	At        int64

	Status Status
	Reason string
	Paused bool
	// Awaiting is what a WAITING run waits for from outside. StatusAt is when
	// Status or Awaiting changed last, Unix nanoseconds.
	Awaiting Awaiting
	StatusAt int64
	// TurnAwaiting is what the last turn asked for while something else is waited for first: a held
	// call, an agent that asks. Zero: Awaiting has it, or it asked for nothing of its own.
	TurnAwaiting Awaiting

	// Current is the name of the state visited now; VisitSeq the seq of the
	// last Transition.
	Current     string
	VisitSeq    uint64
	Visits      []Count
	Edges       []EdgeCount
	TotalVisits int
	// Repeats are the ends of visits since something came from outside, at most
	// [MaxRepeats], the oldest first; none without [Graph.NoProgress].
	Repeats []Repeat
	// Transitions counts Transition records, the entry included.
	Transitions int
	ToolCalls   int
	Reframes    int
	// Called counts the calls of tools that have a bound of their own (Count.State is the
	// tool), in the order of their first ones.
	Called    []Count
	Tokens    int64
	CostMicro int64
	// EstimatedTokens are those of Tokens whose usage nobody reported in full.
	EstimatedTokens int64

	// Deadline of the wall clock in Unix nanoseconds; 0 = none or stopped.
	Deadline int64
	// WallLeft is what remains in nanoseconds while the clock is stopped
	// (wall_time_excludes_waiting).
	WallLeft int64
	// StateTimeoutAt is when the state's timeout fires; 0 = none.
	StateTimeoutAt int64
	// MaxSteps is the effective bound (pack's, lowered by start); 0 = none.
	MaxSteps int

	// Turn is the open turn, nil if there is none.
	Turn *Turn
	// Queue holds the seqs of InputReceived records for the next turn.
	Queue []uint64
	// RequiredMessages are what the next request to a model has to contain, in the order of their
	// records: what people said to the run, and notices.
	RequiredMessages []RequiredMessage
	// Steps are the steps of the current visit in issue order.
	Steps []ToolStep
	// LastStep is the last issued step number; never reused.
	LastStep uint32
	// ModelSteps counts those of them that are calls of models and were not taken over.
	ModelSteps uint32
	// OwnSteps counts those that the sidecar itself asked for.
	OwnSteps uint32
	// Effects are those that stand and can be undone, in the order in which they happened.
	Effects []CompensableEffect
	// Undo is set while they are undone.
	Undo *Undo
	// Texts are those of requests to models that a record has, the oldest first.
	Texts []TextRef

	Artifacts     []ArtifactHead
	ArtifactBytes int64
	// Conversations say which message rows of a state are visible.
	Conversations []Conversation
	MessageBytes  int64

	// Forked is set for a run that began as a copy of another.
	Forked *Forked
	// Unlisted are the versions of artifacts that the store has put into no row of its
	// own yet, in order: it puts many into one. No step reads or changes them, and they
	// are no part of what is stored of a state: the store finds them in the entries.
	Unlisted []ArtifactVersion

	// Account is nil where the pack's budget holds as it stands.
	Account *Account
	// Policy is what the run that delegated lets this one call at most, for ever; nil = that
	// says nothing.
	Policy *ToolPolicy

	// Payer is in whose accounts the run is counted; nil: in those of its own labels, or, if a
	// step of this store started it, in none: that step is.
	Payer *Payer
	// Apart is the part of Tokens and CostMicro that runs of agents of this store consumed: these
	// count themselves in the operator's accounts.
	Apart Amount
	// Charges are what the run takes of the operator's accounts, in the order in which it
	// came to them.
	Charges []Charge

	// Erasable: its values are stored under a key of its own, and can be erased. Set at
	// its beginning, for ever.
	Erasable bool
	// Key is where that key is kept, 0 = none is. The store sets it when the run begins,
	// and whenever it reads the state; no step changes it, and no state is stored with it.
	Key uint64
	// Erased says that the values of the run were erased; nil: they were not. The store
	// sets it in what it reads.
	Erased *Erased

	// Imported runs came from another store to be looked at: they take no input.
	// The host sets it; no input of a run ever does.
	Imported bool
}

// Label is a caller's key and value; sorted by key.
type Label struct{ Key, Value string }

// Parent names the step of another run that started this one.
type Parent struct {
	RunID   string
	Step    uint32
	Attempt int
	// Origin is the base URL of the sidecar that has the run; "" = this one.
	Origin string
}

// OriginUnknown is the origin of a run of another sidecar that does not say which one it is.
const OriginUnknown = "unknown"

// Count is how often a state was visited.
type Count struct {
	State string
	N     int
}

// MaxRepeats bounds the ends of visits that a run remembers: a loop of more of them that
// differ is not found to stand still.
const MaxRepeats = 64

// Repeat is one end of a visit: how often visits of State ended so since one ended as none
// did before.
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
	// Suspended: released by SuspendTurn until its pending steps are answered.
	Suspended bool
	// Assigned is the delivery that the last TurnAssigned told of; zero = none yet.
	Assigned Assignment
	// Requests counts the recorded step requests of this execution (attempt and
	// delivery): the default keys go on from there.
	Requests int
	// Calls counts the new steps issued in this turn (max_tool_calls_per_turn).
	Calls int
	// LastFailure hashes the body of the FailTurn that opened this attempt, so
	// that its repeat is answered as a duplicate.
	LastFailure [32]byte
	// Keys begins the default step keys of a turn that a fork took over from
	// another turn than its visit's first; 0 = the rule of [RequestSteps].
	Keys uint64
}

// StepStatus is where a step stands.
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
	// Tool of a MODEL step is the model.
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
	// Remote is what is known of a delegation's other side; nil = nothing yet.
	Remote *Remote
	// Model makes it a MODEL step; nil: it calls a tool.
	Model *ModelStep
	// Call is the model's call that it makes; nil = no model asked for it.
	Call *CallRef
	// ByCaller: the caller that asked for it makes it; see [StepRequest].
	ByCaller bool
	// Bound is what the attempt of a tool or agent may consume at most; a model's stands in
	// Model. Zero once answered, and where nobody says.
	Bound Amount
	// Effect is its business key, zero = none; see [StepRequest].
	Effect [32]byte
	// Doubt: nobody knows what came of an attempt; told of steps with an effect alone.
	Doubt bool
	// Approval is nil for calls that nobody has to approve.
	Approval *StepApproval
	// Inquiry is the step that asks whether the current attempt happened; 0 = none.
	Inquiry uint32
	// About makes it a step of the sidecar's own; nil: a turn asked for it.
	About *About
	// Local: its agent's run counts itself in the operator's accounts, see [StepRequested].
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

// Conversation is the window of message rows [From, Next) that a state's next
// turn sees.
type Conversation struct {
	State string
	From  uint64
	Next  uint64
}
