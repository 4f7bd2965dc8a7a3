package query

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/runtime/render"
)

// Engine is what the room needs of the way of a transition.
type Engine interface {
	// Admit resolves a namespace for a caller that has one of the scopes.
	Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error)
	// Namespace resolves a name.
	Namespace(name string) (uint32, error)
	// Find resolves the address of a run that the caller may see, FindReadable of one
	// that it may read.
	Find(ref runtime.RunRef) (runtime.RunKey, error)
	FindReadable(ref runtime.RunRef) (runtime.RunKey, error)
	// StateOf returns a run's state after the commit that holds record seq; 0 = now.
	StateOf(ctx context.Context, key runtime.RunKey, seq uint64) (*machine.State, error)
}

// Store is what is read here besides the past.
type Store interface {
	// Entry returns the one entry that holds the record seq; [machine.ErrNoRecord].
	Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error)
	// Epoch names this store for ever; cursors of another store are foreign.
	Epoch() [16]byte
	// ListRuns returns heads in order of creation, after the given run id ("" = from the
	// start), and the run id after which the next page begins ("" = no more).
	ListRuns(ctx context.Context, ns uint32, filter machine.RunFilter, after string, limit int) ([]*machine.State, string, error)
	// CountRuns counts the runs in any of the statuses.
	CountRuns(ctx context.Context, ns uint32, statuses []machine.Status) (int, error)
	// Tasks shows the heads of an owner's tasks ("" = everybody's), newest status first,
	// equal ones by run, until visit returns false; at most that many, the newest. A
	// context id leaves the tasks of that context.
	Tasks(ctx context.Context, ns uint32, owner, contextID string, most int, visit func(*machine.State) bool) error
	// Held lists rows of [machine.HeldIndex] behind a place (zero: from the start), by time,
	// at most limit.
	Held(ctx context.Context, ns uint32, after machine.HeldPlace, newest bool, limit int) ([]machine.HeldPlace, error)
}

// Config is everything that a [Service] needs; all of it is required.
type Config struct {
	Engine   Engine
	Store    Store
	Past     *history.Reader
	Programs *packcache.Cache
	Turns    *render.Renderer
}

// Service answers what is asked about runs. It holds nothing but its configuration. Safe for
// concurrent use.
type Service struct{ cfg Config }

// New makes a room; it starts nothing.
func New(cfg Config) *Service { return &Service{cfg: cfg} }
