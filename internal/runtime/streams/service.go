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

// Engine is what the room needs of the way of a transition.
type Engine interface {
	// Admit resolves a namespace for a caller that has one of the scopes.
	Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error)
	// FindReadable resolves the address of a run that the caller may read.
	FindReadable(ref runtime.RunRef) (runtime.RunKey, error)
	// Head returns a run's newest state, never older than a record that the store has
	// shown; RUN_NOT_FOUND.
	Head(ctx context.Context, key runtime.RunKey) (*machine.State, error)
	// NamespaceNumbers are those that are served, NamespaceName the name of one of them.
	NamespaceNumbers() []uint32
	NamespaceName(number uint32) string
}

// Store is what is read here besides the past.
type Store interface {
	// Entries returns a run's entries that hold records >= from, in order.
	Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error)
	// Entry returns the one entry that holds the record seq; [machine.ErrNoRecord].
	Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error)
	// Journal returns entries of all runs with cursor > after, in cursor order, and the
	// cursor scanned so far.
	Journal(ctx context.Context, ns uint32, after uint64, page machine.Page) ([]machine.Entry, uint64, error)
	// Tail is the newest cursor of a namespace, Epoch the name of the store.
	Tail(ctx context.Context, ns uint32) (uint64, error)
	Epoch() [16]byte
}

// Readers know the named readers of a namespace, and where they stand.
type Readers interface {
	// Resume says where one goes on; known: there is one of that name.
	Resume(ctx context.Context, ns uint32, name, owner string) (at runtime.Cursor, known bool, err error)
	// Enter makes a watch the one of its reader, which is stored if it is new.
	Enter(ctx context.Context, ns uint32, name, owner string, at runtime.Cursor, known bool) (Reading, error)
}

// Reading is the watch of a named reader, of which there is one at a time.
type Reading interface {
	// Ended is closed when the watch has to end, Why is why, once it has.
	Ended() <-chan struct{}
	Why() error
	// Close says that the watch has ended.
	Close()
}

// Live is what is under way and no record: it lives in the memory of this process, and
// those who watch a run are told of it.
type Live interface {
	// Output is the next piece of the output of a run's turn behind a position; false:
	// there is none yet.
	Output(key runtime.RunKey, after render.OutputPosition) (render.OutputChunk, bool)
	// AssignedTurn is the turn of a run that was handed out and is not known to be over; 0 =
	// none.
	AssignedTurn(key runtime.RunKey) uint64
}

// Config is everything that a [Service] needs. Zero figures take their default; all of the
// rest but Live is required.
type Config struct {
	Engine   Engine
	Store    Store
	Past     *history.Reader
	Programs *packcache.Cache
	Readers  Readers
	Clock    runtime.Clock
	// Live is what watches are told of beside records; nil = nothing.
	Live Live
	// TailBytes bounds the recent entries held for watchers. Default 16 MiB.
	TailBytes int64
	// Bytes bounds what all watches together hold of what was read and not yet taken,
	// one entry of each aside. Default 64 MiB.
	Bytes int64
	// Heartbeat is the longest silence of a watch. Default 15 s.
	Heartbeat time.Duration
}

// Service is where runs are watched. It follows commits ([Service.OnCommit]), which never wait
// for a watcher: who is behind finds in the store what it has missed. Its owner is the
// wiring, which ends it ([Service.End]) after the way has drained. Safe for concurrent use.
type Service struct {
	cfg   Config
	hub   *hub
	pages *pages
}

// New checks the configuration, all faults at once; it starts nothing.
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
		return nil, fmt.Errorf("watch: configuration: %w", err)
	}
	return &Service{cfg: cfg, hub: newHub(cfg.TailBytes), pages: &pages{limit: cfg.Bytes}}, nil
}

// OnCommit implements [runtime.Observer]: it keeps the entry of a commit for followers and
// wakes who sleeps.
func (r *Service) OnCommit(c *runtime.Commit) { r.hub.OnCommit(c) }

// Forget lets go of what is held of a run that was deleted: who reads from here on finds
// the gap that the store has in its place.
func (r *Service) Forget(key runtime.RunKey) { r.hub.forget(key) }

// NotifyChanged wakes those who watch a run for what is no record.
func (r *Service) NotifyChanged(key runtime.RunKey) {
	if r.hub.runSubs.Load() > 0 {
		r.hub.wakeRun(key)
	}
}

// End ends all watches.
func (r *Service) End() { r.hub.close() }

// figure is a seq or position as a refusal's figure, which is signed.
func figure(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
