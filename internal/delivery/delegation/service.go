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
	// Head returns a run's newest state; RUN_NOT_FOUND.
	Head(ctx context.Context, key runtime.RunKey) (*machine.State, error)
	// ApplyInternal makes an input of the sidecar's own: no authority is asked.
	ApplyInternal(ctx context.Context, key runtime.RunKey, command machine.Command) (runtime.Answer, error)
}

// Store is what is read here besides the past.
type Store interface {
	// Outbox lists rows of a kind with Due <= now, earliest first.
	Outbox(ctx context.Context, kind machine.OutboxKind, now int64, limit int) ([]machine.OutboxRow, error)
	// DropOutbox removes a row of kind OutboxCancel; one that is gone is no error.
	DropOutbox(ctx context.Context, row machine.OutboxRow) error
	// Entries returns a run's entries that hold records >= from, in order.
	Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error)
	// Entry returns the one entry that holds the record seq; [machine.ErrNoRecord].
	Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error)
}

// Config is everything that a [Service] needs; all of it but Allow is required.
type Config struct {
	Engine   Engine
	Store    Store
	Past     *history.Reader
	Programs *packcache.Cache
	Clock    runtime.Clock
	// Allow is the operator's list of tools and agents; the zero value admits none.
	Allow policy.Allowlist
}

// Service reads and answers delegations. It holds no state but its configuration. Safe for
// concurrent use.
type Service struct{ cfg Config }

// New checks the configuration. It starts no goroutine.
func New(cfg Config) (*Service, error) {
	if cfg.Engine == nil || cfg.Store == nil || cfg.Past == nil || cfg.Programs == nil || cfg.Clock == nil {
		return nil, errors.New("delegation: configuration: Engine, Store, Past, Programs and Clock are required")
	}
	return &Service{cfg: cfg}, nil
}
