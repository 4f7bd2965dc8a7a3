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

// Way is what the room needs of the way of a transition.
type Way interface {
	// Head returns a run's newest state; RUN_NOT_FOUND.
	Head(ctx context.Context, key runtime.RunKey) (*machine.State, error)
	// Own makes an input of the sidecar's own: no authority is asked.
	Own(ctx context.Context, key runtime.RunKey, command machine.Command) (runtime.Answer, error)
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

// Config is everything that a [Room] needs; all of it but Allow is required.
type Config struct {
	Way      Way
	Store    Store
	Past     *history.Reader
	Programs *packcache.Cache
	Clock    runtime.Clock
	// Allow is the operator's list of tools and agents; the zero value admits none.
	Allow policy.Allowlist
}

// Room reads and answers delegations. It holds no state but its configuration. Safe for
// concurrent use.
type Room struct{ cfg Config }

// New checks the configuration; it starts nothing.
func New(cfg Config) (*Room, error) {
	if cfg.Way == nil || cfg.Store == nil || cfg.Past == nil || cfg.Programs == nil || cfg.Clock == nil {
		return nil, errors.New("delegation: configuration: Way, Store, Past, Programs and Clock are required")
	}
	return &Room{cfg: cfg}, nil
}
