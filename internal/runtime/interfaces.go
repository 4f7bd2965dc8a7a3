package runtime

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Clock gives the time. It is injected, so that tests and replays control it.
type Clock interface {
	// Now is the wall clock. It may be set, forwards and back.
	Now() time.Time
	// Elapsed is the time since a fixed moment, by a monotonic clock that is never set. Durations are
	// measured by it.
	Elapsed() time.Duration
	// After delivers once when d has passed, as measured by Elapsed.
	After(d time.Duration) <-chan time.Time
}

// IDs makes new identifiers. It is injected, so that tests are repeatable.
type IDs interface {
	// RunID returns a ULID for a run that starts at the given time.
	RunID(at time.Time) string
	// Token returns an unguessable turn token.
	Token() string
}

// Store keeps runs. It has all methods that the engine and the packages around it need together; each of
// those packages declares the part that it calls. The central write is "append this batch to this run's
// journal if the journal's last seq is Prev". Reads see every commit that was acknowledged before they began.
//
// Errors: [machine.ErrSeqConflict] and [machine.ErrConsumed] for failed preconditions (the batch was not
// stored); *[machine.Error] for limits (DISK_LOW, a batch over 8 MiB); [machine.ErrIndeterminate] when it is
// unknown whether the commit happened: the store is then read-only for good and the process must end.
type Store interface {
	Commit(ctx context.Context, batch *machine.Batch) (machine.Committed, error)

	// ReplayWith is called once, before any state is read. A store need not store the state of a run with
	// each entry. To return a later state, it calls the function with a stored state and the entries after
	// that state, and the function returns the state after the entries.
	ReplayWith(replay func(ctx context.Context, head *machine.State, tail []machine.Entry) (*machine.State, error))

	// Head returns a run's state. Error: [machine.ErrNoRun].
	Head(ctx context.Context, ns uint32, run string) (*machine.State, error)
	// Entries returns a run's entries that hold records >= from, in order.
	Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error)
	// Entry returns the one entry that holds the record seq. Error: [machine.ErrNoRecord].
	Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error)
	// Checkpoint returns the newest stored copy of a run's state with a seq up to the given one. Nil = there
	// is none, and a replay begins at the first record. The number of records between two checkpoints bounds
	// the cost of reading a past state.
	Checkpoint(ctx context.Context, ns uint32, run string, seq uint64) (*machine.State, error)
	// Journal returns entries of all runs with cursor > after, in cursor order,
	// and the cursor scanned so far.
	Journal(ctx context.Context, ns uint32, after uint64, page machine.Page) ([]machine.Entry, uint64, error)
	// Tail returns the newest cursor of a namespace.
	Tail(ctx context.Context, ns uint32) (uint64, error)
	// Epoch returns the permanent identifier of this store. Cursors of a store with another epoch are invalid
	// here.
	Epoch() [16]byte

	// Consumed returns the row of a used id, and false if the id was not used.
	Consumed(ctx context.Context, ns uint32, key machine.Dedupe) (machine.Dedupe, bool, error)
	// Effect returns the row of a business key; false = no step has it. Committing a batch with a key that
	// another step has returns [machine.ErrEffectTaken].
	Effect(ctx context.Context, ns uint32, key [32]byte) (machine.Effect, bool, error)
	// ArtifactVersions lists the writes of one artifact with seq <= atSeq in
	// order; newestOnly returns at most the last.
	ArtifactVersions(ctx context.Context, ns uint32, run, name string, atSeq uint64, newestOnly bool) ([]machine.ArtifactVersion, error)
	// ArtifactVersionsAfter lists the writes of one artifact with after < seq <= atSeq
	// in order.
	ArtifactVersionsAfter(ctx context.Context, ns uint32, run, name string, after, atSeq uint64) ([]machine.ArtifactVersion, error)
	// MessageRows lists rows [from, next) of a state's conversation.
	MessageRows(ctx context.Context, ns uint32, run, state string, from, next uint64) ([]machine.MessageRow, error)

	// DueTimers returns timers with Due <= now, earliest first, at most limit, and
	// the due time of the first later one (0 = none).
	DueTimers(ctx context.Context, now int64, limit int) (due []machine.Timer, next int64, err error)
	// ReadyRuns lists runs in the ready index after the given run id.
	ReadyRuns(ctx context.Context, ns uint32, after string, limit int) ([]string, error)
	// Outbox lists rows of a kind with Due <= now, earliest first.
	Outbox(ctx context.Context, kind machine.OutboxKind, now int64, limit int) ([]machine.OutboxRow, error)
	// DropOutbox removes a row of kind OutboxCancel. A row that does not exist is no error.
	DropOutbox(ctx context.Context, row machine.OutboxRow) error

	// HoldStep stores, in the outbox row of a step, which worker the step was sent to. Error:
	// [machine.ErrNoStep] if the row does not exist any more. StepHolder reads the worker back.
	HoldStep(ctx context.Context, row machine.OutboxRow, holder machine.StepHolder) error
	StepHolder(ctx context.Context, row machine.OutboxRow) (machine.StepHolder, error)

	// ListRuns returns heads in order of creation, after the given run id ("" =
	// from the start), and the run id after which the next page begins ("" = no
	// more).
	ListRuns(ctx context.Context, ns uint32, filter machine.RunFilter, after string, limit int) ([]*machine.State, string, error)

	// Tasks calls visit with the heads of an owner's tasks, newest status first, equal ones by run id, until
	// visit returns false or the newest limit of them were shown. The limit bounds the memory of the call.
	// The owner "" means every owner; a context id keeps only the tasks of that context.
	Tasks(ctx context.Context, ns uint32, owner, contextID string, limit int, visit func(*machine.State) bool) error
	// Held lists rows of [machine.HeldIndex] after a place (zero: from the start), by time, at most limit.
	Held(ctx context.Context, ns uint32, after machine.HeldPlace, newest bool, limit int) ([]machine.HeldPlace, error)

	// CountRuns counts the runs in any of the statuses.
	CountRuns(ctx context.Context, ns uint32, statuses []machine.Status) (int, error)

	// PutPack registers a pack. Registering the same bytes again returns the same row. A name that is taken
	// by other bytes is a *[machine.Error] PACK_VERSION_TAKEN.
	PutPack(ctx context.Context, ns uint32, put machine.PackPut) (machine.PackRow, error)
	// Pack returns the pack of a reference "id", "id@version" or "sha256:<hex>". Error: [machine.ErrNoPack].
	Pack(ctx context.Context, ns uint32, ref string) (machine.PackRow, error)
	// ListPacks lists packs by id and version.
	ListPacks(ctx context.Context, ns uint32, after string, limit int) ([]machine.PackRow, string, error)

	// Failed is closed when the store had an indeterminate error.
	Failed() <-chan struct{}
}
