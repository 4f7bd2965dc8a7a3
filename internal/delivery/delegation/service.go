package delegation

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
)

// Engine is the part of the runtime that a Service uses.
type Engine interface {
	// Head returns the newest state of a run. Error: RUN_NOT_FOUND.
	Head(ctx context.Context, key runtime.RunKey) (*machine.State, error)
	// ApplyInternal applies an input that the sidecar itself makes. The input needs no scope.
	ApplyInternal(ctx context.Context, key runtime.RunKey, command machine.Command) (runtime.Answer, error)
}

// Store is the part of the store that a Service uses.
type Store interface {
	// Outbox lists the stored outbox rows (outgoing work) of a kind whose time Due has come (Due <=
	// now, in Unix nanoseconds). The row that is due first comes first.
	Outbox(ctx context.Context, kind machine.OutboxKind, now int64, limit int) ([]machine.OutboxRow, error)
	// DropOutbox removes an outbox row of the kind OutboxCancel. If the row is missing, this is no
	// error.
	DropOutbox(ctx context.Context, row machine.OutboxRow) error
	// Entries returns a run's entries with records >= from, in order.
	Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error)
	// Entry returns the entry with the record seq. Error: [machine.ErrNoRecord].
	Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error)
}

// Config configures a [Service]. All fields except Allow are required.
type Config struct {
	Engine   Engine
	Store    Store
	Past     *history.Reader
	Programs *packcache.Cache
	Clock    runtime.Clock
	// Allow is the operator's list of allowed tools and agents. The zero value allows none.
	Allow policy.Allowlist
}

// Service reads and answers delegations. It has no state besides its configuration. Safe for concurrent
// use.
type Service struct{ cfg Config }

// New checks the configuration. It starts no goroutine.
func New(cfg Config) (*Service, error) {
	if cfg.Engine == nil || cfg.Store == nil || cfg.Past == nil || cfg.Programs == nil || cfg.Clock == nil {
		return nil, errors.New("delegation: configuration: Engine, Store, Past, Programs and Clock are required")
	}
	return &Service{cfg: cfg}, nil
}
