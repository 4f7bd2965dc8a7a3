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
	// Find returns the key of a run that the caller may see. FindReadable returns the key of a run that
	// the caller may read.
	Find(ref runtime.RunRef) (runtime.RunKey, error)
	FindReadable(ref runtime.RunRef) (runtime.RunKey, error)
	// StateOf returns the state of a run after the commit that contains the record seq. 0 means now.
	StateOf(ctx context.Context, key runtime.RunKey, seq uint64) (*machine.State, error)
}

// Store is the part of the store that queries use in addition to [history.Reader].
type Store interface {
	// Entry returns the entry that contains the record seq. Error: [machine.ErrNoRecord].
	Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error)
	// Epoch returns the id of the store, which never changes. Cursors of another store are invalid
	// here.
	Epoch() [16]byte
	// ListRuns returns the newest states of runs in the order of their creation. It begins after the
	// given run id; "" means from the first run. It also returns the run id after which the next page
	// begins; "" means that this was the last page.
	ListRuns(ctx context.Context, ns uint32, filter machine.RunFilter, after string, limit int) ([]*machine.State, string, error)
	// CountRuns counts the runs in any of the statuses.
	CountRuns(ctx context.Context, ns uint32, statuses []machine.Status) (int, error)
	// Tasks calls visit with the newest state of each task of an owner, until visit returns false. The
	// owner "" selects all owners. The newest status comes first. Tasks with equal times are ordered by
	// run. At most `most` tasks are visited. A context id selects the tasks of that context.
	Tasks(ctx context.Context, ns uint32, owner, contextID string, most int, visit func(*machine.State) bool) error
	// Held lists at most limit rows of [machine.HeldIndex], ordered by time. It begins after the given
	// place. The zero place means from the first row.
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
