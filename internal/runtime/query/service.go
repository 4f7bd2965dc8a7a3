package query

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
)

// Engine is the part of the runtime engine that a [Service] uses.
type Engine interface {
	// Admit checks that the caller has one of the scopes, and returns the number of the namespace of
	// the call.
	Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error)
	// Namespace returns the number of a namespace by its name.
	Namespace(name string) (uint32, error)
	// Find returns the key of a run in a namespace that the caller may see. FindReadable also checks
	// that the caller has a scope for reading runs.
	Find(ref runtime.RunRef) (runtime.RunKey, error)
	FindReadable(ref runtime.RunRef) (runtime.RunKey, error)
	// StateOf returns the state of a run after the commit that contains the record seq. 0 means the
	// newest state.
	StateOf(ctx context.Context, key runtime.RunKey, seq uint64) (*machine.State, error)
}

// Store is the part of the store that a [Service] uses, besides what [history.Reader] uses.
type Store interface {
	// Entry returns the entry of a run that contains the record seq. Error: [machine.ErrNoRecord].
	Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error)
	// Epoch returns the permanent identifier of the store. A cursor with another epoch comes from
	// another store and is invalid.
	Epoch() [16]byte
	// ListRuns returns the newest states of runs in the order of their creation, beginning after the
	// given run id. "" means the first run. It also returns the id after which the next page begins, or
	// "" if this was the last page.
	ListRuns(ctx context.Context, ns uint32, filter machine.RunFilter, after string, limit int) ([]*machine.State, string, error)
	// CountRuns counts the runs of a namespace that are in any of the statuses.
	CountRuns(ctx context.Context, ns uint32, statuses []machine.Status) (int, error)
	// Tasks calls visit with the newest state of each A2A task of an owner, the newest status first,
	// then by run id. It stops when visit returns false, or after `most` tasks. The owner "" selects
	// the tasks of all owners. A contextID selects only the tasks of that context.
	Tasks(ctx context.Context, ns uint32, owner, contextID string, most int, visit func(*machine.State) bool) error
	// Held lists the calls and events that wait for a person: at most limit rows of
	// [machine.HeldIndex], ordered by time, beginning after the given place. The zero place means the
	// first row.
	Held(ctx context.Context, ns uint32, after machine.HeldPlace, newest bool, limit int) ([]machine.HeldPlace, error)
	// Decisions returns entries with a decision about a held call, the newest first. It examines a bounded
	// number of entries, so a page may be short although more follow.
	Decisions(ctx context.Context, ns uint32, search machine.DecisionSearch) (machine.DecisionPage, error)
	// Usage calls visit with the rollups of usage of a namespace in the order of their days, until visit returns false. It
	// also returns from when on they are complete.
	Usage(ctx context.Context, ns uint32, search machine.UsageSearch, visit func(*machine.UsageRow) bool) (machine.UsageSince, error)
}

// Config configures a [Service]. All fields are required.
type Config struct {
	Engine   Engine
	Store    Store
	Past     *history.Reader
	Programs *packcache.Cache
	Turns    *runtime.Renderer
}

// Service answers questions about runs. It has no state of its own. Safe for concurrent use.
type Service struct{ cfg Config }

// New returns a Service and starts no goroutine.
func New(cfg Config) *Service { return &Service{cfg: cfg} }
