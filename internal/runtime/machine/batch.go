package machine

// Batch is everything that one input changes.
//
// The contract between machine and host: store all of it in ONE synced commit
// whose preconditions hold (last seq of the run is Prev, Consumed is absent);
// publish Records and send Outbox rows only after that commit. A Batch is
// never split and never stored twice.
type Batch struct {
	// Prev is the run's last seq before this batch; 0 = the run must not exist. The
	// store checks it; the way numbers the answer's entry from it.
	Prev uint64
	// Input is for the store, which journals it, for replay, and for telemetry.
	Input Input
	// Records have the seqs Prev+1 .. Prev+len. For the store, for the answer, and for
	// all followers of a commit.
	Records []Record
	// State is the new head; State.PrevHash is still the hash before this
	// batch: the store advances it when it encodes the entry. For the store and for
	// followers; the way takes over the equal one of its Result.
	State *State

	// From here on rows of the store; others read of them where it says so.

	// Consumed are idempotency rows that must be absent; none for inputs without id.
	Consumed []Dedupe
	// Effects are changes of the rows of business keys; a taken one must be absent.
	Effects []EffectChange
	// Wanted are the business keys of requests that nothing else refuses, also of those that
	// pass a bound. The host looks them up before it commits; they are no rows.
	Wanted [][32]byte
	// Writes say which artifacts have a new version at which record.
	Writes []ArtifactVersion
	// Messages are new conversation rows.
	Messages []MessageRow
	// TimersSet replace nothing: a moved timer is in both lists. The way's timers look
	// at what is set.
	TimersCleared []Timer
	TimersSet     []Timer
	// Workers' holds read what is added, and so does who sends it (deliver).
	OutboxRemoved []OutboxRow
	OutboxAdded   []OutboxRow
	// Ready says whether the run's turn is in the ready index after the batch;
	// ReadyChanged whether the index has to be written at all.
	Ready, ReadyChanged bool
	// Index changes, only where a value changed.
	Index []IndexChange
	// Charged is what changes of the operator's accounts, each of them once. The ledger of
	// accounts reads it, too.
	Charged []ChargeChange
}

// DedupeScope says in which set an idempotency id is unique.
type DedupeScope uint8

const (
	// PerRun ids belong to one run and one CommandKind.
	PerRun DedupeScope = iota + 1
	// PerPrincipal ids (StartRun's request_id) to a principal in a namespace.
	PerPrincipal
)

// Dedupe is one used-up idempotency id. The first answer is rebuilt from the
// records First..Last of RunID.
type Dedupe struct {
	Scope     DedupeScope
	Kind      CommandKind
	Principal string
	RunID     string
	ID        string
	BodyHash  [32]byte
	First     uint64
	Last      uint64
}

// ArtifactVersion says that Name was written by the record Seq; the value is in
// that record.
type ArtifactVersion struct {
	Name string
	Seq  uint64
	Mode Mode
	// Bytes of this write.
	Bytes int64
}

// MessageRow says that record Seq holds the messages of row N of a state's
// conversation.
type MessageRow struct {
	State string
	N     uint64
	Seq   uint64
}

// TimerKind numbers durable timers; the numbers are stored, never renumber.
type TimerKind uint8

const (
	TimerWall TimerKind = iota + 1
	TimerRetry
	TimerState
	TimerStep
)

// Timer is one durable timer of a run. A run has at most one per kind, and one
// per pending step for TimerStep.
type Timer struct {
	// Namespace of the run. In a Batch it may be left 0: the batch's run decides.
	Namespace uint32
	// Due is Unix nanoseconds.
	Due   int64
	RunID string
	Kind  TimerKind
	// Step for TimerStep, Turn for TimerRetry.
	Step uint32
	Turn uint64
}

// OutboxKind numbers effects; the numbers are stored, never renumber.
type OutboxKind uint8

const (
	// OutboxStep: a step waits for a worker.
	OutboxStep OutboxKind = iota + 1
	// OutboxDelegation: a step is sent to an agent.
	OutboxDelegation
	// OutboxCancel: a delegation that was sent is no longer wanted.
	OutboxCancel
)

// OutboxRow is one effect to send after the commit; its key run/step/attempt is
// stable over resends.
type OutboxRow struct {
	// Namespace of the run. In a Batch it may be left 0: the batch's run decides.
	Namespace uint32
	Kind      OutboxKind
	// Due is when to send, Unix nanoseconds.
	Due     int64
	RunID   string
	Step    uint32
	Attempt int
}

// IndexChange adds or removes a run in a list index ("status", "pack",
// "label", "parent").
type IndexChange struct {
	Index, Value string
	Add          bool
}

// Entry is one commit as it is read back from the journal.
type Entry struct {
	RunID string
	// Cursor is the entry's place in the order of everything in its namespace.
	Cursor uint64
	// First is Records[0].Seq.
	First    uint64
	PrevHash [32]byte
	Hash     [32]byte
	Input    Input
	Records  []Record
	// Erased: the values of the run were erased, and input and records are what is left.
	Erased bool
}

// Disposition is what became of a step's answer, or of any repeated input.
type Disposition uint8

const (
	Accepted Disposition = iota + 1
	// IgnoredUnknownRun, IgnoredTerminal, IgnoredStale and IgnoredDuplicate
	// changed nothing.
	IgnoredUnknownRun
	IgnoredTerminal
	IgnoredStale
	IgnoredDuplicate
	// DispEscalated: the answer ended the run (protocol violation or a bound).
	DispEscalated
)

// StepOutcome is the answer to one StepRequest.
type StepOutcome struct {
	Key string
	// Step is 0 when the request was refused.
	Step uint32
	// Replayed: known before; nothing was issued or charged.
	Replayed bool
	Status   StepStatus
	// Held: it waits for a decision, with its digest.
	Held   bool
	Digest [32]byte
	// AnswerSeq is the record with the answer; 0 while pending.
	AnswerSeq uint64
	// PayloadSeq is the record with the payload that counts instead of the request's: that of a
	// model's call, known before. 0: the request's own.
	PayloadSeq uint64
	Denial     *Denial
}

// Result is what Step made of an input.
type Result struct {
	// State after the input; the old one if nothing changed.
	State *State
	// Batch to commit; nil if there is nothing to store.
	Batch       *Batch
	Disposition Disposition
	// Steps answer RequestSteps, in order.
	Steps []StepOutcome
	// Refused is returned to the caller although the batch was committed (a
	// mismatching step key fails the attempt).
	Refused error
}

// NoChange reports whether the batch does nothing but keep the id of its input.
func (b *Batch) NoChange() bool {
	if len(b.Records) != 1 {
		return false
	}
	_, noted := b.Records[0].Body.(*NoChange)
	return noted
}
