package timetravel

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// Engine is what the room needs of the way of a transition.
type Engine interface {
	// Admit resolves a namespace for a caller that has one of the scopes.
	Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error)
	// FindReadable resolves the address of a run that the caller may read.
	FindReadable(ref runtime.RunRef) (runtime.RunKey, error)
	// Head returns a run's newest state; RUN_NOT_FOUND.
	Head(ctx context.Context, key runtime.RunKey) (*machine.State, error)
	// StateOf returns a run's state after the commit that holds record seq; 0 = now.
	StateOf(ctx context.Context, key runtime.RunKey, seq uint64) (*machine.State, error)
	// CreateRun makes a run; a fork is one.
	CreateRun(ctx context.Context, b runtime.CreateRequest) (runtime.Answer, error)
	// Inside calls do while inputs are taken, which a drain waits for.
	Inside(do func() error) error
}

// Store is what is read here besides the past.
type Store interface {
	// Head returns a run's state as it is stored; [machine.ErrNoRun].
	Head(ctx context.Context, ns uint32, run string) (*machine.State, error)
	// Entries returns a run's entries that hold records >= from, in order.
	Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error)
}

// Config is everything that a [Service] needs; all is required but Archive.
type Config struct {
	Engine   Engine
	Store    Store
	Past     *history.Reader
	Programs *packcache.Cache
	// Terms are those on which runs begin, copies too.
	Terms *validate.Terms
	Clock runtime.Clock
	// Archive proves, exports and imports runs; nil: it is not done here (ARCHIVE_OFF).
	Archive Archive
	// PackLimits are those of the packs of imported runs.
	PackLimits pack.Limits
}

// Service compares, copies, proves, exports and imports runs. Its owner is the wiring; it
// holds no state but its configuration. Safe for concurrent use.
type Service struct{ cfg Config }

// New checks the configuration; it starts nothing.
func New(cfg Config) (*Service, error) {
	if cfg.Engine == nil || cfg.Store == nil || cfg.Past == nil || cfg.Programs == nil || cfg.Terms == nil || cfg.Clock == nil {
		return nil, errors.New("travel: configuration: all but Archive is required")
	}
	return &Service{cfg: cfg}, nil
}
