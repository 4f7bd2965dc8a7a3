package streams

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/runtime/render"
)

// Defaults of [Config].
const (
	DefaultTailBytes = 16 << 20
	DefaultBytes     = 64 << 20
	DefaultHeartbeat = 15 * time.Second
)

// Engine is the part of the runtime engine that the streams use.
type Engine interface {
	// Admit resolves a namespace for a caller that has one of the scopes.
	Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error)
	// FindReadable returns the key of a run that the caller may read.
	FindReadable(ref runtime.RunRef) (runtime.RunKey, error)
	// Head returns the newest state of a run. It is never older than a record that the store has returned. Error: RUN_NOT_FOUND.
	Head(ctx context.Context, key runtime.RunKey) (*machine.State, error)
	// NamespaceNumbers returns the numbers of the served namespaces. NamespaceName returns the name of a namespace.
	NamespaceNumbers() []uint32
	NamespaceName(number uint32) string
}

// Store is the part of the store that the streams use in addition to [history.Reader].
type Store interface {
	// Entries returns a run's entries that hold records >= from, in order.
	Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error)
	// Entry returns the entry that contains the record seq. Error: [machine.ErrNoRecord].
	Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error)
	// Journal returns entries of all runs with cursor > after, in cursor order. It also returns the cursor up to which it has read.
	Journal(ctx context.Context, ns uint32, after uint64, page machine.Page) ([]machine.Entry, uint64, error)
	// Tail returns the newest cursor of a namespace. Epoch returns the id of the store.
	Tail(ctx context.Context, ns uint32) (uint64, error)
	Epoch() [16]byte
}

// Readers stores the consumers of a namespace and their positions.
type Readers interface {
	// Resume returns the position of a consumer. known reports whether the consumer exists.
	Resume(ctx context.Context, ns uint32, name, owner string) (at runtime.Cursor, known bool, err error)
	// Enter makes a watch the current watch of its consumer. If the consumer is not known, Enter stores
	// it.
	Enter(ctx context.Context, ns uint32, name, owner string, at runtime.Cursor, known bool) (Reading, error)
}

// Reading is the watch of a consumer. A consumer has one watch at a time.
type Reading interface {
	// Ended is closed when the watch must end. Then Why returns the reason.
	Ended() <-chan struct{}
	Why() error
	// Close records that the watch has ended.
	Close()
}

// Live provides progress that is not a record. It exists only in the memory of this process. A watch of
// a run can include it.
type Live interface {
	// Output returns the piece of a run's turn output that follows a position. It returns false if there is no such piece yet.
	Output(key runtime.RunKey, after render.OutputPosition) (render.OutputChunk, bool)
	// AssignedTurn returns the number of the turn of a run that was assigned and is not known to have
	// ended. 0 means that there is none.
	AssignedTurn(key runtime.RunKey) uint64
}

// Config configures a [Service]. Live is optional. A number of zero selects the default. All other
// fields are required.
type Config struct {
	Engine   Engine
	Store    Store
	Past     *history.Reader
	Programs *packcache.Cache
	Readers  Readers
	Clock    runtime.Clock
	// Live adds output and assignments to watches. If it is nil, watches contain only records.
	Live Live
	// TailBytes bounds the recent entries in memory, in bytes. Default 16 MiB.
	TailBytes int64
	// Bytes bounds the pages that all watches together have read but not yet delivered, in bytes. In
	// addition, each watch may hold one entry. Default 64 MiB.
	Bytes int64
	// Heartbeat is the longest time between two pages of a watch. Default 15 s.
	Heartbeat time.Duration
}

// Service serves watches, waits and lists of records. It observes commits ([Service.OnCommit]). A
// commit never waits for a watch: if a watch is too slow, it reads the missed entries from the store.
// The server must call [Service.End] after the engine has drained. Safe for concurrent use.
type Service struct {
	cfg   Config
	hub   *hub
	pages *pages
}

// New checks the configuration, returns all errors at once, and starts no goroutine.
func New(cfg Config) (*Service, error) {
	var faults []error
	if cfg.Engine == nil || cfg.Store == nil || cfg.Past == nil || cfg.Programs == nil || cfg.Readers == nil || cfg.Clock == nil {
		faults = append(faults, errors.New("all but Live is required"))
	}
	for _, bound := range []struct {
		name   string
		n, def int64
		to     func(int64)
	}{
		{"TailBytes", cfg.TailBytes, DefaultTailBytes, func(n int64) { cfg.TailBytes = n }},
		{"WatchBytes", cfg.Bytes, DefaultBytes, func(n int64) { cfg.Bytes = n }},
		{"Heartbeat", int64(cfg.Heartbeat), int64(DefaultHeartbeat), func(n int64) { cfg.Heartbeat = time.Duration(n) }},
	} {
		if bound.n < 0 {
			faults = append(faults, fmt.Errorf("%s is %d; want 0 (the default) or more", bound.name, bound.n))
		}
		if bound.n == 0 {
			bound.to(bound.def)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("streams: configuration: %w", err)
	}
	return &Service{cfg: cfg, hub: newHub(cfg.TailBytes), pages: &pages{limit: cfg.Bytes}}, nil
}

// OnCommit implements [runtime.Observer]: it stores the entry of a commit for followers and wakes
// the watches that wait.
func (r *Service) OnCommit(c *runtime.Commit) { r.hub.OnCommit(c) }

// Forget removes the entries of a deleted run from memory. Later readers find a gap in their place, in
// memory as in the store.
func (r *Service) Forget(key runtime.RunKey) { r.hub.forget(key) }

// NotifyChanged wakes the watches of a run after a change that is not a record.
func (r *Service) NotifyChanged(key runtime.RunKey) {
	if r.hub.runSubs.Load() > 0 {
		r.hub.wakeRun(key)
	}
}

// End ends all watches.
func (r *Service) End() { r.hub.close() }

// figure converts a seq or position to the signed number that an error contains.
func figure(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
