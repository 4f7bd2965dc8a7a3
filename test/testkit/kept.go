package testkit

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Backend is what a [Store] keeps its rows in, without faults.
type Backend interface {
	Commit(ctx context.Context, batch *machine.Batch) (machine.Committed, error)
	ReplayWith(replay func(ctx context.Context, head *machine.State, tail []machine.Entry) (*machine.State, error))
	Head(ctx context.Context, ns uint32, run string) (*machine.State, error)
	Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error)
	Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error)
	Checkpoint(ctx context.Context, ns uint32, run string, seq uint64) (*machine.State, error)
	Journal(ctx context.Context, ns uint32, after uint64, page machine.Page) ([]machine.Entry, uint64, error)
	Tail(ctx context.Context, ns uint32) (uint64, error)
	Epoch() [16]byte
	FindRequestID(ctx context.Context, ns uint32, key machine.Dedupe) (machine.Dedupe, bool, error)
	Effect(ctx context.Context, ns uint32, key [32]byte) (machine.Effect, bool, error)
	ArtifactVersions(ctx context.Context, ns uint32, run, name string, atSeq uint64, newestOnly bool) ([]machine.ArtifactVersion, error)
	ArtifactVersionsAfter(ctx context.Context, ns uint32, run, name string, after, atSeq uint64) ([]machine.ArtifactVersion, error)
	MessageRows(ctx context.Context, ns uint32, run, state string, from, next uint64) ([]machine.MessageRow, error)
	DueTimers(ctx context.Context, now int64, limit int) ([]machine.Timer, int64, error)
	ReadyRuns(ctx context.Context, ns uint32, after string, limit int) ([]string, error)
	Outbox(ctx context.Context, kind machine.OutboxKind, now int64, limit int) ([]machine.OutboxRow, error)
	OutboxOf(ctx context.Context, ns uint32, kind machine.OutboxKind, now int64, limit int) ([]machine.OutboxRow, error)
	DropOutbox(ctx context.Context, row machine.OutboxRow) error
	HoldStep(ctx context.Context, row machine.OutboxRow, holder machine.StepHolder) error
	StepHolder(ctx context.Context, row machine.OutboxRow) (machine.StepHolder, error)
	ListRuns(ctx context.Context, ns uint32, filter machine.RunFilter, after string, limit int) ([]*machine.State, string, error)
	Tasks(ctx context.Context, ns uint32, owner, contextID string, most int, visit func(*machine.State) bool) error
	Held(ctx context.Context, ns uint32, after machine.HeldPlace, newest bool, limit int) ([]machine.HeldPlace, error)
	Decisions(ctx context.Context, ns uint32, search machine.DecisionSearch) (machine.DecisionPage, error)
	Usage(ctx context.Context, ns uint32, search machine.UsageSearch, visit func(*machine.UsageRow) bool) (machine.UsageSince, error)
	CountRuns(ctx context.Context, ns uint32, statuses []machine.Status) (int, error)
	PutPack(ctx context.Context, ns uint32, put machine.PackPut) (machine.PackRow, error)
	Pack(ctx context.Context, ns uint32, ref string) (machine.PackRow, error)
	ListPacks(ctx context.Context, ns uint32, after string, limit int) ([]machine.PackRow, string, error)

	PutSubscription(ctx context.Context, sub machine.Subscription, before *machine.Subscription) error
	RecordDeadLetter(ctx context.Context, sub machine.Subscription, before *machine.Subscription, letter machine.DeadLetter) error
	Subscription(ctx context.Context, key machine.SubscriptionKey) (*machine.Subscription, error)
	Subscriptions(ctx context.Context, ns uint32, kind machine.SubscriptionKind, run string) ([]machine.Subscription, error)
	DropSubscription(ctx context.Context, key machine.SubscriptionKey) error
	ListDeadLetters(ctx context.Context, key machine.SubscriptionKey, after uint64, limit int) ([]machine.DeadLetter, error)
	DiscardDeadLetter(ctx context.Context, key machine.SubscriptionKey, n uint64) error

	// Check proves every row.
	Check() error
	// Holders are those of all rows of outgoing work, in no order.
	Holders() []machine.StepHolder
	// Reopen is what the next process has, once this one ended.
	Reopen() Backend
}

// NewBackend makes what the stores of tests keep their rows in; nil: they keep them in memory. The
// package realstore sets it, before any test runs.
var NewBackend func(tb testing.TB) Backend

// StoreFor is an empty store of a test.
func StoreFor(tb testing.TB) *Store {
	tb.Helper()
	if NewBackend == nil {
		return NewStore()
	}
	return open(NewBackend(tb), newCommitCounter())
}
