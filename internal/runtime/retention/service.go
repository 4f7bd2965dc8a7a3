package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Engine is the part of the engine that the service calls.
type Engine interface {
	// Find returns the key of a run that the caller may see.
	Find(ref runtime.RunRef) (runtime.RunKey, error)
	// Head returns a run's newest state. Errors: RUN_NOT_FOUND, RUN_DELETED.
	Head(ctx context.Context, key runtime.RunKey) (*machine.State, error)
	// Evict calls do in the run's own turn; afterwards no state of the run is cached.
	Evict(key runtime.RunKey, do func() error) error
	// Inside calls do as an input in flight, which a drain waits for.
	Inside(do func() error) error
	// Health returns nil while inputs are accepted, otherwise the reason why they are not.
	Health() error
	// NamespaceNumbers returns the served namespaces, NamespaceName the name of one.
	NamespaceNumbers() []uint32
	NamespaceName(number uint32) string
}

// Store deletes runs.
type Store interface {
	// DeleteRun deletes a run that has ended, synced; deleting the same run again is a duplicate. Errors:
	// [machine.ErrNoRun], a *[machine.Error] RUN_NOT_ENDED.
	DeleteRun(ctx context.Context, ns uint32, run string, asked machine.Deleted) (d machine.Deleted, duplicate bool, err error)
	// RunBytes returns the approximate size of a run's rows on disk, without blobs.
	RunBytes(ctx context.Context, ns uint32, run string) (int64, error)
	// Untold reports whether an agent has not yet received the cancellation of a delegation of the run. For a
	// run that has ended it can only become false.
	Untold(ctx context.Context, ns uint32, run string) (bool, error)
	// ForgetDeleted drops the entries of runs that were deleted before a time, Unix nanoseconds.
	ForgetDeleted(ctx context.Context, ns uint32, before int64) (int, error)
	// Removes returns nil while the disk has space for removals, otherwise the reason why not.
	Removes() error
}

// Runs lists runs.
type Runs interface {
	ListRuns(ctx context.Context, ns uint32, filter machine.RunFilter, after string, limit int) ([]*machine.State, string, error)
}

// Archive makes a portable file of a run.
type Archive interface {
	Export(ctx context.Context, ns uint32, run string, out io.Writer) error
}

// Policy is the operator's retention policy; the zero value keeps everything.
type Policy struct {
	// Rules are in order: the first that selects a run decides. A run that no rule selects is kept.
	Rules []Rule
	// Grace is how long every run is kept after its end, regardless of the rules, so that waiting callers can
	// read how it ended. Default 1 h; for a run requested by another sidecar 24 h.
	Grace time.Duration
	// Every is the pause between two rounds. Default 10 min.
	Every time.Duration
	// Preview means that the rules only report what they would do.
	Preview bool
	// ForgetAfter is how long the store remembers that a run was deleted; 0 = for ever.
	ForgetAfter time.Duration

	// Ready returns nil, or the reason why no run may be deleted now; a nil function = always.
	Ready func() error
	// Before is called for each run right before it is deleted, and keeps the run by returning an error; nil
	// = not called.
	Before func(Taken) error
	// CheckSpace returns nil, or the reason why no more may be written into a directory of archives, which
	// may be on the disk of the store. A nil function = there is always space.
	CheckSpace func(dir string) error
	// OnResult is called for each run that no rule keeps, Forgot with the number of dropped entries of
	// deleted runs of a namespace, OnError for a round with errors; nil = not called.
	OnResult    func(Taken)
	OnForgotten func(namespace string, runs int)
	OnError     func(error)
}

// Eraser is a store that can also erase values.
type Eraser interface {
	// EraseRun erases the values of a run that has ended, synced; erasing the same run again is a duplicate.
	// Errors: [machine.ErrNoRun], a *[machine.Error] RUN_NOT_ENDED or RUN_NOT_ERASABLE.
	EraseRun(ctx context.Context, ns uint32, run string, asked machine.Erased) (st *machine.State, duplicate bool, err error)
}

// Config is everything that a [Service] needs.
type Config struct {
	Engine Engine
	Clock  runtime.Clock
	// Store deletes runs; nil = deletion is off (DELETION_OFF).
	Store Store
	// Deleted is called for each run that was deleted or erased, also for a duplicate, in the run's own turn;
	// nil = not called.
	Deleted func(key runtime.RunKey)

	Policy
	// Runs lists the runs for the rules, Archive writes their files; both may be nil if no rule needs them.
	Runs    Runs
	Archive Archive
	// NotifiesAgents means that agents receive cancellations, so that the service waits for them.
	NotifiesAgents bool
	// Also is called in each round, and drops old data of other packages; nil = not called.
	Also func(ctx context.Context) error
}

// defaultEvery is the pause between two rounds, defaultGrace how long every run is kept after its end, and
// remoteGrace how long one is kept if its parent is in another sidecar, because the state of that parent is
// not known here.
const (
	defaultEvery = 10 * time.Minute
	defaultGrace = time.Hour
	remoteGrace  = 24 * time.Hour
)

// Service deletes runs and erases their values. The wiring owns it. Safe for concurrent use.
type Service struct {
	cfg Config
	// syncDir syncs the names in a directory to disk.
	syncDir func(dir string) error
}

// New checks the configuration; it starts no goroutine.
func New(cfg Config) (*Service, error) {
	if cfg.Engine == nil || cfg.Clock == nil {
		return nil, errors.New("retention: configuration: Engine and Clock are required")
	}
	if needs := len(cfg.Rules) > 0 || cfg.ForgetAfter != 0; needs && (cfg.Store == nil || cfg.Runs == nil) {
		return nil, errors.New("retention: configuration: rules need Store and Runs")
	}
	for i := range cfg.Rules {
		if r := &cfg.Rules[i]; r.Archive != "" && cfg.Archive == nil {
			return nil, fmt.Errorf("retention: configuration: the rule %s archives: it needs Archive", r.Name)
		}
	}
	cfg.Every, cfg.Grace = cmp.Or(cfg.Every, defaultEvery), cmp.Or(cfg.Grace, defaultGrace)
	if cfg.Before == nil {
		cfg.Before = func(Taken) error { return nil }
	}
	if cfg.CheckSpace == nil {
		cfg.CheckSpace = func(string) error { return nil }
	}
	if cfg.OnResult == nil {
		cfg.OnResult = func(Taken) {}
	}
	if cfg.OnForgotten == nil {
		cfg.OnForgotten = func(string, int) {}
	}
	if cfg.OnError == nil {
		cfg.OnError = func(error) {}
	}
	return &Service{cfg: cfg, syncDir: syncDir}, nil
}
