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

// Engine is the part of the runtime engine that a [Service] uses.
type Engine interface {
	// Admit checks that the caller has one of the scopes, and returns the number of the namespace of
	// the call.
	Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error)
	// FindReadable returns the key of a run that the caller may read.
	FindReadable(ref runtime.RunRef) (runtime.RunKey, error)
	// Head returns the newest state of a run. Error: RUN_NOT_FOUND.
	Head(ctx context.Context, key runtime.RunKey) (*machine.State, error)
	// StateOf returns the state of a run after the commit that contains the record seq. 0 means the
	// newest state.
	StateOf(ctx context.Context, key runtime.RunKey, seq uint64) (*machine.State, error)
	// CreateRun creates a run, for example a fork.
	CreateRun(ctx context.Context, b runtime.CreateRequest) (runtime.Answer, error)
	// DoInFlight calls do if the engine accepts inputs, and counts the call as an input in flight, so
	// that a drain waits for it.
	DoInFlight(do func() error) error
}

// Store is the part of the store that a [Service] uses, besides what [history.Reader] uses.
type Store interface {
	// Head returns the stored state of a run. Error: [machine.ErrNoRun].
	Head(ctx context.Context, ns uint32, run string) (*machine.State, error)
	// Entries returns a run's entries that contain records with seq >= from, in order.
	Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error)
}

// Config configures a [Service]. Archive is optional. All other fields are required.
type Config struct {
	Engine   Engine
	Store    Store
	Past     *history.Reader
	Programs *packcache.Cache
	// Terms are the operator's settings for new runs, which also apply to forks.
	Terms *validate.Terms
	Clock runtime.Clock
	// Archive verifies, exports and imports runs. If it is nil, these operations fail with
	// ARCHIVE_OFF.
	Archive Archive
	// PackLimits bound the packs of imported runs.
	PackLimits pack.Limits
}

// Service compares, forks, verifies, exports and imports runs. It has no state besides its
// configuration. Safe for concurrent use.
type Service struct{ cfg Config }

// New checks the configuration and returns a Service. It starts no goroutine.
func New(cfg Config) (*Service, error) {
	if cfg.Engine == nil || cfg.Store == nil || cfg.Past == nil || cfg.Programs == nil || cfg.Terms == nil || cfg.Clock == nil {
		return nil, errors.New("timetravel: configuration: all but Archive is required")
	}
	return &Service{cfg: cfg}, nil
}
