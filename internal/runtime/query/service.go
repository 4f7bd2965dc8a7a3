package query

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/runtime/render"
)

// Engine is the part of the runtime engine that queries use.
type Engine interface {
	// Admit resolves a namespace for a caller that has one of the scopes.
	Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error)
	// Namespace resolves the name of a namespace.
	Namespace(name string) (uint32, error)
	// Find resolves the address of a run that the caller may see; FindReadable, of a run that the
	// caller may read.
	Find(ref runtime.RunRef) (runtime.RunKey, error)
	FindReadable(ref runtime.RunRef) (runtime.RunKey, error)
	// StateOf returns a run's state after the commit that holds record seq; 0 = now.
	StateOf(ctx context.Context, key runtime.RunKey, seq uint64) (*machine.State, error)
}

// Store is the part of the store that queries use besides [history.Reader].
type Store interface {
	// Entry returns the one entry that holds the record seq; [machine.ErrNoRecord].
	Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error)
	// Epoch returns the id of the store, which never changes. Cursors of another store are foreign.
	Epoch() [16]byte
	// ListRuns returns the newest states of runs in order of creation, after the given run id ("" =
	// from the start). It also returns the run id after which the next page begins ("" = no more).
	ListRuns(ctx context.Context, ns uint32, filter machine.RunFilter, after string, limit int) ([]*machine.State, string, error)
	// CountRuns counts the runs in any of the statuses.
	CountRuns(ctx context.Context, ns uint32, statuses []machine.Status) (int, error)
	// Tasks calls visit with the newest states of an owner's tasks ("" = all owners), until visit
	// returns false. The newest status comes first; equal ones are ordered by run. It visits at
	// most the given number. A context id selects the tasks of that context.
	Tasks(ctx context.Context, ns uint32, owner, contextID string, most int, visit func(*machine.State) bool) error
	// Held lists rows of [machine.HeldIndex] after a place (zero = from the start), by time, at
	// most limit.
	Held(ctx context.Context, ns uint32, after machine.HeldPlace, newest bool, limit int) ([]machine.HeldPlace, error)
}

// Config configures a [Service]. All fields are required.
type Config struct {
	Engine   Engine
	Store    Store
	Past     *history.Reader
	Programs *packcache.Cache
	Turns    *render.Renderer
}

// Service answers questions about runs. It has no state of its own. Safe for concurrent use.
type Service struct{ cfg Config }

// New returns a Service and starts no goroutine.
func New(cfg Config) *Service { return &Service{cfg: cfg} }
