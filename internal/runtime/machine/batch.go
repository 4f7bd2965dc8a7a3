package machine

import (
	"fmt"
	"strconv"
)

// Batch contains all changes that one input makes.
//
// The engine must store the whole batch in ONE synced commit if the preconditions hold: the last seq
// of the run is Prev, and the rows in Consumed are absent. It must publish Records and send Outbox
// rows only after that commit. A Batch is never split and never stored twice.
type Batch struct {
	// Prev is the run's last seq before this batch. 0 means that the run must not exist. The store refuses the batch if
	// the run has another last seq.
	Prev uint64
	// Input is the input from which the batch was computed. The store writes it to the journal, so that a replay can
	// apply it again. Telemetry also reads it.
	Input Input
	// Records are the new records of the run. Their seqs are Prev+1 to Prev+len(Records).
	Records []Record
	// State is the new state of the run. State.PrevHash is still the chain hash before this batch, because the store
	// computes the new hash when it encodes the entry.
	State *State

	// The fields below are changes of rows in the store. If code outside the store also reads the rows of a field, the
	// comment of the field names that code.

	// Consumed are the idempotency rows that must be absent before the commit and that the commit adds. It is empty for
	// an input without an id.
	Consumed []Dedupe
	// Effects are changes of the rows that store business keys, see [Effect]. A row that a change adds must be absent
	// before the commit.
	Effects []EffectChange
	// Wanted are the business keys that the requested steps need, including requests that exceed a bound. Before the
	// commit the engine looks up whether another step has such a key. Wanted is not stored.
	Wanted [][32]byte
	// Writes lists the artifacts that have a new version, and the record of each new version.
	Writes []ArtifactVersion
	// Messages are new conversation rows.
	Messages []MessageRow
	// TimersSet are timers to add to the run, and TimersCleared are timers to remove. A timer whose time changes is in
	// both lists. The engine's timer loop also reads TimersSet.
	TimersCleared []Timer
	TimersSet     []Timer
	// OutboxRemoved and OutboxAdded are the changes of the outbox: the stored messages that must be sent after the
	// commit. The dispatcher and package delivery also read the added rows.
	OutboxRemoved []OutboxRow
	OutboxAdded   []OutboxRow
	// Ready reports whether the run is in the ready index after the batch. The ready index contains the runs whose turn
	// can be sent to a worker. ReadyChanged reports whether the store has to write the index.
	Ready, ReadyChanged bool
	// Index contains the changes of the indexes by which runs are listed. It contains only values that changed.
	Index []IndexChange
	// Charged are the changes in the operator's accounts (budgets over many runs), at most one for each account.
	// Package budget also reads them.
	Charged []ChargeChange
	// Settled is the usage that the input adds to what the run has consumed, without that of agents whose own runs in
	// this store settle it. The store adds it to its rollups, and telemetry counts it.
	Settled []Settled
}

// DedupeScope is the set in which an idempotency id is unique.
type DedupeScope uint8

const (
	// PerRun means that an id is unique among the inputs of one run with the same CommandKind.
	PerRun DedupeScope = iota + 1
	// PerPrincipal means that an id is unique for a principal in a namespace. An example is the request_id of StartRun.
	PerPrincipal
)

// Dedupe is the row of one used idempotency id. The records from First to Last of the run RunID are enough to compute
// the first answer again.
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

// IndexChange adds or removes a run in a list index ("status", "pack", "label", "parent", "task", "context", [HeldIndex]).
type IndexChange struct {
	Index, Value string
	Add          bool
}

// Entry is one commit in the journal, as the store returns it.
type Entry struct {
	RunID string
	// Cursor is the entry's position in the journal: the order of all entries of its namespace.
	Cursor uint64
	// First is Records[0].Seq.
	First    uint64
	PrevHash [32]byte
	Hash     [32]byte
	Input    Input
	Records  []Record
	// Erased reports whether the values of the run were erased. If so, Input and Records contain only the parts that
	// were not erased.
	Erased bool
}

// Disposition says what an input did: whether it was accepted, or why it was ignored.
type Disposition uint8

const (
	Accepted Disposition = iota + 1
	// The Ignored values mean that the input made no change. In this order: the run does not exist; the run has ended;
	// the input is for an attempt that is over; the input repeats one that was already accepted.
	IgnoredUnknownRun
	IgnoredTerminal
	IgnoredStale
	IgnoredDuplicate
	// DispEscalated means that the answer to a step ended the run, because of a protocol violation or a bound.
	DispEscalated
)

// StepOutcome is the answer to one [StepRequest].
type StepOutcome struct {
	Key string
	// Step is 0 when the request was refused.
	Step uint32
	// Replayed reports whether the step already existed before the request. If so, no new step was issued or charged.
	Replayed bool
	Status   StepStatus
	// Held reports whether the step waits for a decision. Digest is the digest of the call that the
	// decision is about.
	Held   bool
	Digest [32]byte
	// AnswerSeq is the record that contains the answer. It is 0 while the step is pending.
	AnswerSeq uint64
	// PayloadSeq is the record that contains the payload of the step, if this payload may differ from the payload of
	// the request. It is set for a repeated request of a call that a model requested, and after a decision replaced the
	// payload. 0 means that the payload of the request is valid.
	PayloadSeq uint64
	Denial     *Denial
}

// Result is the result of rules.Step: of applying one input to the state of a run.
type Result struct {
	// State is the state after the input. If the input made no change, it is the state before the
	// input.
	State *State
	// Batch is the batch to commit. It is nil if the input made no change.
	Batch       *Batch
	Disposition Disposition
	// Steps are the outcomes of the calls that a RequestSteps input requested, in the order of the requests.
	Steps []StepOutcome
	// Refused is an error for the caller although the batch must be committed. For example, a request that reuses a
	// step key for a different call fails the attempt of the turn, and the failure is recorded.
	Refused error
}

// NoChange reports whether the only purpose of the batch is to store the idempotency id of its input.
func (b *Batch) NoChange() bool {
	if len(b.Records) != 1 {
		return false
	}
	_, noted := b.Records[0].Body.(*NoChange)
	return noted
}

// CountChange is a counter that has different values in the states of two compared runs.
type CountChange struct {
	Name        string
	Base, Other int64
}

// Calls and events that wait for a person have rows in an index. The rows are ordered by the time at which the wait
// began.

// HeldIndex is the name of the index of calls and events that wait for a person.
const HeldIndex = "held"

// HeldValueLen is the length of a value in the index [HeldIndex]: 16 hex digits for the time and 8 for the step.
const HeldValueLen = 24

// HeldValue returns the value of a row in the index [HeldIndex]. The values are ordered by time, then by step.
func HeldValue(since int64, step uint32) string { return fmt.Sprintf("%016x%08x", uint64(since), step) }

// ParseHeldValue reads a value that HeldValue returned.
func ParseHeldValue(value string) (since int64, step uint32, err error) {
	if len(value) != HeldValueLen {
		return 0, 0, fmt.Errorf("malformed value %q of the index %s", value, HeldIndex)
	}
	at, err := strconv.ParseUint(value[:16], 16, 63)
	if err != nil {
		return 0, 0, fmt.Errorf("malformed value %q of the index %s: %w", value, HeldIndex, err)
	}
	n, err := strconv.ParseUint(value[16:], 16, 32)
	if err != nil {
		return 0, 0, fmt.Errorf("malformed value %q of the index %s: %w", value, HeldIndex, err)
	}
	return int64(at), uint32(n), nil
}

// HeldPlace is one row of the index [HeldIndex].
type HeldPlace struct{ Value, Run string }

// HeldRow is one decision or event that a run waits for. If Step is 0, the run waits for an event from outside.
// Otherwise it waits for a person's decision about the call of that step.
type HeldRow struct {
	Since int64
	Step  uint32
}

// HeldRows returns what a run waits for from persons: one row for each tool call that waits for approval. If there is none, the turn of
// the run waits for an event from outside, and no agent asks a question, it returns one row for the event.
func HeldRows(s *State) []HeldRow {
	var rows []HeldRow
	asks := false
	for i := range s.Steps {
		p := &s.Steps[i]
		if p.HeldForApproval() {
			rows = append(rows, HeldRow{Since: p.Approval.Since, Step: p.Step})
		}
		asks = asks || p.Status == StepStatusPending && p.Remote != nil && p.Remote.Asking != AwaitNothing
	}
	if rows == nil && !asks && s.Turn != nil && s.Status == Waiting && s.Awaiting == AwaitInput {
		return []HeldRow{{Since: s.StatusAt}}
	}
	return rows
}

// ScheduleMark is the stored progress of a schedule. All instants of the schedule up to After were fired or skipped.
type ScheduleMark struct {
	// Namespace and ID identify the schedule. In the store they are part of the row's key.
	Namespace uint32
	ID        string
	// Rule is the cron expression with its time zone. If the configuration changes the rule of the schedule, After
	// becomes the current time, so that instants in the past do not fire.
	Rule string
	// After is the last instant that was fired or skipped, in Unix nanoseconds.
	After int64
	// Principal is the principal that starts the runs. It is stored before the first start, because the request id of a
	// start is unique only for one principal.
	Principal string
	// RunID is the run that the schedule started last. At is the instant for which it was started, in
	// Unix nanoseconds. RunID is "" if the schedule has not started a run yet.
	RunID string
	At    int64
	// Fired is the number of started runs. Missed is the number of instants that passed while the scheduler did not run
	// and that will not be made up for. Skipped is the number of instants at which the previous run had not ended.
	Fired   uint64
	Missed  uint64
	Skipped uint64
}

// ArtifactWrites returns the artifacts that a record wrote, in the order of the writes.
func ArtifactWrites(body Body) []ArtifactWrite {
	switch b := body.(type) {
	case *Transition:
		return b.Artifacts
	case *TurnCompleted:
		return b.Artifacts
	case *StepResolved:
		return b.Artifacts
	case *ArtifactsSet:
		return b.Artifacts
	case *Ended:
		return b.Artifacts
	case *CompensationStarted:
		return b.Artifacts
	case *Origin:
		return b.Artifacts
	}
	return nil
}
