package machine

// Batch contains all changes that one input makes.
//
// The host must store the whole batch in ONE synced commit if the preconditions hold: the last seq of
// the run is Prev, and the rows in Consumed are absent. The host must publish Records and send Outbox
// rows only after that commit. A Batch is never split and never stored twice.
type Batch struct {
	// Prev is the run's last seq before this batch. 0 means that the run must not exist. The store
	// checks this. The engine computes the record numbers of the answer's entry from Prev.
	Prev uint64
	// Input is the input that made the batch. The store writes it to the journal, for replay and for
	// telemetry.
	Input Input
	// Records are the new records. Their seqs are Prev+1 to Prev+len(Records). The store, the answer
	// and all observers of a commit use them.
	Records []Record
	// State is the new state of the run, for the store and for observers. The engine uses the equal
	// state in its Result. State.PrevHash is still the hash before this batch. The store sets the new
	// hash when it encodes the entry.
	State *State

	// All fields below are rows of the store. If other code reads a row, the comment of the field names
	// that code.

	// Consumed are idempotency rows that must be absent before the commit. For an input without an id
	// it is empty.
	Consumed []Dedupe
	// Effects are changes of the rows of business keys. A row that a change adds must be absent before
	// the commit.
	Effects []EffectChange
	// Wanted are the business keys of requests that are not refused for another reason. It includes
	// requests that exceed a bound. The engine looks up these keys before it commits. They are not
	// rows.
	Wanted [][32]byte
	// Writes lists the artifacts that have a new version, and the record of each new version.
	Writes []ArtifactVersion
	// Messages are new conversation rows.
	Messages []MessageRow
	// TimersSet are timers to add to the run, and TimersCleared are timers to remove. A timer whose
	// time changes is in both lists. The engine's timer loop reads TimersSet.
	TimersCleared []Timer
	TimersSet     []Timer
	// OutboxRemoved and OutboxAdded are the changes of outgoing work. The dispatcher and the delivery package
	// read the added rows.
	OutboxRemoved []OutboxRow
	OutboxAdded   []OutboxRow
	// Ready reports whether the run's turn must be in the ready index after the batch. ReadyChanged reports whether the store has to write
	// the index.
	Ready, ReadyChanged bool
	// Index are changes of list indexes. It contains only values that changed.
	Index []IndexChange
	// Charged are the changes in the operator's accounts, at most one for each account. The ledger of
	// accounts also reads them.
	Charged []ChargeChange
}

// DedupeScope is the set in which an idempotency id is unique.
type DedupeScope uint8

const (
	// PerRun means that an id is unique among the inputs of one run with the same CommandKind.
	PerRun DedupeScope = iota + 1
	// PerPrincipal means that an id is unique for a principal in a namespace. StartRun's request_id is
	// such an id.
	PerPrincipal
)

// Dedupe is one used idempotency id. The records from First to Last of the run RunID are enough to
// compute the first answer again.
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

// ArtifactVersion identifies a write of the artifact Name by the record Seq, which contains the value.
type ArtifactVersion struct {
	Name string
	Seq  uint64
	Mode Mode
	// Bytes is the size of this write.
	Bytes int64
}

// MessageRow identifies the record Seq that contains the messages of row N of a state's conversation.
type MessageRow struct {
	State string
	N     uint64
	Seq   uint64
}

// TimerKind is the kind of a durable timer. The numbers are stored, so they must never change.
type TimerKind uint8

const (
	TimerWall TimerKind = iota + 1
	TimerRetry
	TimerState
	TimerStep
)

// Timer is one durable timer of a run. A run has at most one timer of each kind. An exception is
// TimerStep: a run has at most one for each pending step.
type Timer struct {
	// Namespace is the namespace of the run. In a Batch it may be 0. Then the timer belongs to the
	// namespace of the batch's run.
	Namespace uint32
	// Due is the time at which the timer fires, in Unix nanoseconds.
	Due   int64
	RunID string
	Kind  TimerKind
	// Step is set for TimerStep, Turn for TimerRetry.
	Step uint32
	Turn uint64
}

// OutboxKind is the kind of an outgoing message. The numbers are stored, so they must never change.
type OutboxKind uint8

const (
	// OutboxStep is a step that waits for a worker.
	OutboxStep OutboxKind = iota + 1
	// OutboxDelegation is a step to be sent to an agent.
	OutboxDelegation
	// OutboxCancel is a request to cancel a delegation that was sent.
	OutboxCancel
)

// OutboxRow is one message that is sent after the commit. Its key (run, step, attempt) is the same each time it is sent.
type OutboxRow struct {
	// Namespace is the namespace of the run. In a Batch it may be 0. Then the row belongs to the
	// namespace of the batch's run.
	Namespace uint32
	Kind      OutboxKind
	// Due is the time at which the message is sent, in Unix nanoseconds.
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

// Entry is one commit in the journal, as the store returns it.
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
	// Erased reports whether the values of the run were erased. Then Input and Records contain only the parts that were not erased.
	Erased bool
}

// Disposition is the result of an answer to a step, or of a repeated input.
type Disposition uint8

const (
	Accepted Disposition = iota + 1
	// IgnoredUnknownRun, IgnoredTerminal, IgnoredStale and IgnoredDuplicate mean that the answer was ignored and made no change.
	IgnoredUnknownRun
	IgnoredTerminal
	IgnoredStale
	IgnoredDuplicate
	// DispEscalated means that the answer ended the run, because of a protocol violation or a bound.
	DispEscalated
)

// StepOutcome is the answer to one [StepRequest].
type StepOutcome struct {
	Key string
	// Step is 0 when the request was refused.
	Step uint32
	// Replayed reports whether the step already existed before the request. Then no new step was issued
	// or charged.
	Replayed bool
	Status   StepStatus
	// Held reports whether the step waits for a decision. Digest is the digest of the call that the
	// decision is about.
	Held   bool
	Digest [32]byte
	// AnswerSeq is the record that contains the answer. It is 0 while the step is pending.
	AnswerSeq uint64
	// PayloadSeq is the record with the payload that replaces the payload of the request. There is such
	// a record if a model requested the call and the call is already known. 0 means that the payload of
	// the request is valid.
	PayloadSeq uint64
	Denial     *Denial
}

// Result is the result of applying an input to a state.
type Result struct {
	// State is the state after the input. If the input made no change, it is the state before the
	// input.
	State *State
	// Batch is the batch to commit. It is nil if the input made no change.
	Batch       *Batch
	Disposition Disposition
	// Steps are the outcomes of the requests of RequestSteps, in order.
	Steps []StepOutcome
	// Refused is an error for the caller although the batch must be committed. For example, a request
	// with a known step key but another call fails the attempt.
	Refused error
}

// NoChange reports whether the batch only stores the id of its input.
func (b *Batch) NoChange() bool {
	if len(b.Records) != 1 {
		return false
	}
	_, noted := b.Records[0].Body.(*NoChange)
	return noted
}
