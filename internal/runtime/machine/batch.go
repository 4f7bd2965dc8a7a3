package machine

// Batch is everything that one input changes.
//
// The contract between machine and host: store all of it in ONE synced commit, if its preconditions hold
// (last seq of the run is Prev, Consumed is absent); publish Records and send Outbox rows only after that
// commit. A Batch is never split and never stored twice.
type Batch struct {
	// Prev is the run's last seq before this batch; 0 = the run must not exist. The store checks it; the
	// engine numbers the answer's entry from it.
	Prev uint64
	// Input is journaled by the store, for replay and for telemetry.
	Input Input
	// Records have the seqs Prev+1 .. Prev+len. They are for the store, the answer, and all observers of a
	// commit.
	Records []Record
	// State is the new head, for the store and for observers; the engine takes the equal one of its Result.
	// State.PrevHash is still the hash before this batch: the store advances it when it encodes the entry.
	State *State

	// The fields from here on are rows of the store. Other readers are named in the comments.

	// Consumed are idempotency rows that must be absent; none for inputs without id.
	Consumed []Dedupe
	// Effects are changes of the rows of business keys; a row to be taken must be absent.
	Effects []EffectChange
	// Wanted are the business keys of requests that have no other reason to be refused, including requests
	// that exceed a bound. The host looks the keys up before it commits; they are not rows.
	Wanted [][32]byte
	// Writes list the artifacts with a new version, and the record of each.
	Writes []ArtifactVersion
	// Messages are new conversation rows.
	Messages []MessageRow
	// TimersSet add to the timers of the run: a moved timer is in both lists. The engine's timer loop reads
	// TimersSet.
	TimersCleared []Timer
	TimersSet     []Timer
	// OutboxRemoved and OutboxAdded are the changes of outgoing work. The dispatcher and the delivery package
	// read the added rows.
	OutboxRemoved []OutboxRow
	OutboxAdded   []OutboxRow
	// Ready reports whether the run's turn is in the ready index after the batch; ReadyChanged whether the
	// index has to be written at all.
	Ready, ReadyChanged bool
	// Index are changes of list indexes, only where a value changed.
	Index []IndexChange
	// Charged are the changes in the operator's accounts, at most one per account. The ledger of accounts
	// reads them, too.
	Charged []ChargeChange
}

// DedupeScope is the set in which an idempotency id is unique.
type DedupeScope uint8

const (
	// PerRun ids are unique in one run and one CommandKind.
	PerRun DedupeScope = iota + 1
	// PerPrincipal ids (StartRun's request_id) are unique for a principal in a namespace.
	PerPrincipal
)

// Dedupe is one used idempotency id. The first answer is rebuilt from the records First..Last of RunID.
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

// ArtifactVersion names a write of the artifact Name by the record Seq; that record holds the value.
type ArtifactVersion struct {
	Name string
	Seq  uint64
	Mode Mode
	// Bytes is the size of this write.
	Bytes int64
}

// MessageRow names the record Seq that holds the messages of row N of a state's conversation.
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
	// Namespace of the run. In a Batch it may be 0: then it is that of the batch's run.
	Namespace uint32
	// Due is Unix nanoseconds.
	Due   int64
	RunID string
	Kind  TimerKind
	// Step is set for TimerStep, Turn for TimerRetry.
	Step uint32
	Turn uint64
}

// OutboxKind numbers effects; the numbers are stored, never renumber.
type OutboxKind uint8

const (
	// OutboxStep is a step that waits for a worker.
	OutboxStep OutboxKind = iota + 1
	// OutboxDelegation is a step to be sent to an agent.
	OutboxDelegation
	// OutboxCancel is a sent delegation to be cancelled.
	OutboxCancel
)

// OutboxRow is one effect to send after the commit; its key run/step/attempt is the same each time it is
// sent.
type OutboxRow struct {
	// Namespace of the run. In a Batch it may be 0: then it is that of the batch's run.
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
	// Cursor is the entry's position in the order of all entries of its namespace.
	Cursor uint64
	// First is Records[0].Seq.
	First    uint64
	PrevHash [32]byte
	Hash     [32]byte
	Input    Input
	Records  []Record
	// Erased reports whether the values of the run were erased. Input and records then hold what remains.
	Erased bool
}

// Disposition is the result of a step's answer or of a repeated input.
type Disposition uint8

const (
	Accepted Disposition = iota + 1
	// IgnoredUnknownRun, IgnoredTerminal, IgnoredStale and IgnoredDuplicate made no change.
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
	// Replayed reports whether the step was known before, so that no new step was issued or charged.
	Replayed bool
	Status   StepStatus
	// Held reports whether the step waits for a decision; Digest is the digest of the call.
	Held   bool
	Digest [32]byte
	// AnswerSeq is the record with the answer; 0 while pending.
	AnswerSeq uint64
	// PayloadSeq is the record with the payload that replaces the request's payload: that of a known call
	// requested by a model. 0 = the request's own payload.
	PayloadSeq uint64
	Denial     *Denial
}

// Result is what Step made of an input.
type Result struct {
	// State is the state after the input; the old one if the input made no change.
	State *State
	// Batch is the batch to commit; nil if the input made no change.
	Batch       *Batch
	Disposition Disposition
	// Steps are the outcomes of the requests of RequestSteps, in order.
	Steps []StepOutcome
	// Refused is an error for the caller although the batch was committed (a mismatching step key fails the
	// attempt).
	Refused error
}

// NoChange reports whether the batch does no more than store the id of its input.
func (b *Batch) NoChange() bool {
	if len(b.Records) != 1 {
		return false
	}
	_, noted := b.Records[0].Body.(*NoChange)
	return noted
}
