package runtime

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Clock gives the time; injected so that tests and replays decide it.
type Clock interface {
	// Now is the wall clock. It may be set, forwards and back.
	Now() time.Time
	// Elapsed is the time since some moment that stays the same, by a clock that
	// nobody sets: what lasts a while is measured by it.
	Elapsed() time.Duration
	// After delivers once when d has passed, as Elapsed measures it.
	After(d time.Duration) <-chan time.Time
}

// IDs makes new identifiers; injected so that tests are repeatable.
type IDs interface {
	// RunID is a ULID for a run that starts at the given time.
	RunID(at time.Time) string
	// Token is an unguessable word for a turn token.
	Token() string
}

// Store keeps runs. It is what the way and the rooms around it need together; each room
// declares the part that it calls. The write that matters is "append this batch to this run's journal if its last
// seq is Prev". Reads see every commit that was acknowledged before they began.
//
// Errors: [machine.ErrSeqConflict] and [machine.ErrConsumed] for failed
// preconditions (nothing was stored), *machine.Refusal for limits (DISK_LOW, a
// batch over 8 MiB), [machine.ErrIndeterminate] when nobody knows whether the
// commit happened: the store is then read-only for good and the process must end.
type Store interface {
	Commit(ctx context.Context, batch *machine.Batch) (machine.Committed, error)

	// ReplayWith is called once, before any state is read. A store need not store the
	// state of a run with each entry: where it has to tell it, it gives the state that it
	// has and the entries after that to the function, which makes the state after them.
	ReplayWith(replay func(ctx context.Context, head *machine.State, tail []machine.Entry) (*machine.State, error))

	// Head returns a run's state; [machine.ErrNoRun].
	Head(ctx context.Context, ns uint32, run string) (*machine.State, error)
	// Entries returns a run's entries that hold records >= from, in order.
	Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error)
	// Entry returns the one entry that holds the record seq; [machine.ErrNoRecord].
	Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error)
	// Checkpoint returns a stored copy of a run's state, the newest whose seq is at
	// most the given one; nil: there is none, a replay begins at the first record.
	// How many records lie between two of them bounds what reading the past costs.
	Checkpoint(ctx context.Context, ns uint32, run string, seq uint64) (*machine.State, error)
	// Journal returns entries of all runs with cursor > after, in cursor order,
	// and the cursor scanned so far.
	Journal(ctx context.Context, ns uint32, after uint64, page machine.Page) ([]machine.Entry, uint64, error)
	// Tail is the newest cursor of a namespace.
	Tail(ctx context.Context, ns uint32) (uint64, error)
	// Epoch names this store for ever; cursors of another store are foreign.
	Epoch() [16]byte

	// Consumed returns the row of a used-up id.
	Consumed(ctx context.Context, ns uint32, key machine.Dedupe) (machine.Dedupe, bool, error)
	// Effect returns the row of a business key; false: no step has it. A batch that takes
	// a key which a step has is [machine.ErrEffectTaken].
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
	// DropOutbox removes a row of kind OutboxCancel; one that is gone is no error.
	DropOutbox(ctx context.Context, row machine.OutboxRow) error

	// HoldStep stores in the row of a step's outgoing work which worker it goes to;
	// [machine.ErrNoStep] if there is no such row any more. StepHolder reads it back.
	HoldStep(ctx context.Context, row machine.OutboxRow, holder machine.StepHolder) error
	StepHolder(ctx context.Context, row machine.OutboxRow) (machine.StepHolder, error)

	// ListRuns returns heads in order of creation, after the given run id ("" =
	// from the start), and the run id after which the next page begins ("" = no
	// more).
	ListRuns(ctx context.Context, ns uint32, filter machine.RunFilter, after string, limit int) ([]*machine.State, string, error)

	// Tasks shows the heads of an owner's tasks, newest status first, equal ones by
	// run, until visit returns false; at most that many, the newest, whose number bounds
	// what the call takes of memory. An owner "" is every owner; a context id leaves the
	// tasks of that context.
	Tasks(ctx context.Context, ns uint32, owner, contextID string, most int, visit func(*machine.State) bool) error
	// Held lists rows of [machine.HeldIndex] behind a place (zero: from the start), by time,
	// at most limit.
	Held(ctx context.Context, ns uint32, after machine.HeldPlace, newest bool, limit int) ([]machine.HeldPlace, error)

	// CountRuns counts the runs in any of the statuses.
	CountRuns(ctx context.Context, ns uint32, statuses []machine.Status) (int, error)

	// PutPack registers; the same bytes again are the same answer. A taken name
	// with other bytes is a *machine.Refusal PACK_VERSION_TAKEN.
	PutPack(ctx context.Context, ns uint32, put machine.PackPut) (machine.PackRow, error)
	// Pack resolves "id", "id@version" or "sha256:<hex>"; [machine.ErrNoPack].
	Pack(ctx context.Context, ns uint32, ref string) (machine.PackRow, error)
	// ListPacks orders by id and version.
	ListPacks(ctx context.Context, ns uint32, after string, limit int) ([]machine.PackRow, string, error)

	// Failed is closed when the store met an indeterminate error.
	Failed() <-chan struct{}
}
