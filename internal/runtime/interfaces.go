package runtime

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Clock provides the time for the engine. Tests and replays replace it.
type Clock interface {
	// Now returns the time of the wall clock, which an operator may set forwards and back.
	Now() time.Time
	// Elapsed returns the time since a fixed moment. It uses a monotonic clock, which an operator
	// cannot set. The engine uses it to measure durations.
	Elapsed() time.Duration
	// After returns a channel that receives one value when d has passed. The time is measured by
	// Elapsed.
	After(d time.Duration) <-chan time.Time
}

// IDs makes new identifiers. Tests replace it in order to get repeatable identifiers.
type IDs interface {
	// RunID returns a ULID for a run that starts at the given time.
	RunID(at time.Time) string
	// Token returns an unguessable turn token.
	Token() string
}

// Store keeps runs. It has all methods that the engine and the packages around it need. Each of these
// packages declares the part that it calls as an interface of its own. The central write is "append
// this batch to this run's journal if the journal's last seq is Prev". A read sees every commit that
// was acknowledged before the read began.
//
// Errors: [machine.ErrSeqConflict] and [machine.ErrConsumed] for failed preconditions (the batch was
// not stored); *[machine.Error] for limits (DISK_LOW, a batch over 8 MiB); [machine.ErrIndeterminate]
// if it is unknown whether the commit happened. After that the store is permanently read-only, and the
// process must end.
type Store interface {
	Commit(ctx context.Context, batch *machine.Batch) (machine.Committed, error)

	// ReplayWith gives the store a function that computes states. It is called once, before any state
	// is read. A store may store the state of a run less often than its entries. To return a later
	// state, the store calls replay with a stored state and the entries after this state. replay
	// returns the state after these entries.
	ReplayWith(replay func(ctx context.Context, head *machine.State, tail []machine.Entry) (*machine.State, error))

	// Head returns the newest state of a run. Error: [machine.ErrNoRun].
	Head(ctx context.Context, ns uint32, run string) (*machine.State, error)
	// Entries returns a run's entries that hold records >= from, in order.
	Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error)
	// Entry returns the one entry that holds the record seq. Error: [machine.ErrNoRecord].
	Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error)
	// Checkpoint returns the newest checkpoint of a run whose seq is not greater than the given seq. It
	// returns nil if there is no such checkpoint. Then a replay begins at the first record. The number
	// of records between two checkpoints bounds the cost of reading a past state.
	Checkpoint(ctx context.Context, ns uint32, run string, seq uint64) (*machine.State, error)
	// Journal returns entries of all runs whose cursor is greater than after, in cursor order. It also returns the cursor up to which it has
	// read.
	Journal(ctx context.Context, ns uint32, after uint64, page machine.Page) ([]machine.Entry, uint64, error)
	// Tail returns the newest cursor of a namespace.
	Tail(ctx context.Context, ns uint32) (uint64, error)
	// Epoch returns the permanent identifier of this store. Cursors of a store with another epoch are invalid
	// here.
	Epoch() [16]byte

	// Consumed returns the row of a used id. It returns false if the id was not used.
	Consumed(ctx context.Context, ns uint32, key machine.Dedupe) (machine.Dedupe, bool, error)
	// Effect returns the row of a business key. It returns false if no step has the key. If a batch
	// contains a key that another step has, the commit of the batch fails with
	// [machine.ErrEffectTaken].
	Effect(ctx context.Context, ns uint32, key [32]byte) (machine.Effect, bool, error)
	// ArtifactVersions lists the writes of one artifact with seq <= atSeq, in order. If newestOnly is
	// true, it returns at most the last one.
	ArtifactVersions(ctx context.Context, ns uint32, run, name string, atSeq uint64, newestOnly bool) ([]machine.ArtifactVersion, error)
	// ArtifactVersionsAfter lists the writes of one artifact with after < seq <= atSeq
	// in order.
	ArtifactVersionsAfter(ctx context.Context, ns uint32, run, name string, after, atSeq uint64) ([]machine.ArtifactVersion, error)
	// MessageRows lists the rows from `from` (inclusive) to next (exclusive) of a state's conversation.
	MessageRows(ctx context.Context, ns uint32, run, state string, from, next uint64) ([]machine.MessageRow, error)

	// DueTimers returns at most limit timers with Due <= now, the earliest first. It also returns the
	// due time of the next timer after them. 0 means that there is no further timer.
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

	// ListRuns returns the newest states of runs in the order of their creation. It begins after the
	// given run id; "" means from the first run. It also returns the run id after which the next page
	// begins; "" means that this was the last page.
	ListRuns(ctx context.Context, ns uint32, filter machine.RunFilter, after string, limit int) ([]*machine.State, string, error)

	// Tasks calls visit with the newest state of each task of an owner. The tasks are ordered by the
	// time of their status, the newest first, and then by run id. Tasks stops when visit returns false,
	// or after limit tasks. The limit bounds the memory of the call. The owner "" selects the tasks of
	// every owner. A contextID selects only the tasks of that context.
	Tasks(ctx context.Context, ns uint32, owner, contextID string, limit int, visit func(*machine.State) bool) error
	// Held lists at most limit rows of [machine.HeldIndex], ordered by time. It begins after the given
	// place. The zero place means from the first row.
	Held(ctx context.Context, ns uint32, after machine.HeldPlace, newest bool, limit int) ([]machine.HeldPlace, error)

	// CountRuns counts the runs in any of the statuses.
	CountRuns(ctx context.Context, ns uint32, statuses []machine.Status) (int, error)

	// PutPack registers a pack. Registering the same bytes again returns the same row. If other bytes have the same name and version, the
	// error is a *[machine.Error] PACK_VERSION_TAKEN.
	PutPack(ctx context.Context, ns uint32, put machine.PackPut) (machine.PackRow, error)
	// Pack returns the pack that a reference names: "id", "id@version" or "sha256:<hex>". Error: [machine.ErrNoPack].
	Pack(ctx context.Context, ns uint32, ref string) (machine.PackRow, error)
	// ListPacks lists packs, ordered by id and version.
	ListPacks(ctx context.Context, ns uint32, after string, limit int) ([]machine.PackRow, string, error)

	// Failed returns a channel that is closed after an error that leaves the outcome of a commit unknown.
	Failed() <-chan struct{}
}
