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
	// Head returns the newest state of a run. Errors: RUN_NOT_FOUND, RUN_DELETED.
	Head(ctx context.Context, key runtime.RunKey) (*machine.State, error)
	// Evict calls do while it holds the turn of the run. Afterwards no state of the run is cached.
	Evict(key runtime.RunKey, do func() error) error
	// Inside calls do and counts the call as an input in flight, so that a drain waits for it.
	Inside(do func() error) error
	// Health returns nil if inputs are accepted. Otherwise it returns the reason why they are not
	// accepted.
	Health() error
	// NamespaceNumbers returns the numbers of the served namespaces. NamespaceName returns the name of
	// a namespace.
	NamespaceNumbers() []uint32
	NamespaceName(number uint32) string
}

// Store deletes runs.
type Store interface {
	// DeleteRun deletes a run that has ended, and syncs the deletion. If the run was already deleted,
	// duplicate is true. Errors: [machine.ErrNoRun], a *[machine.Error] RUN_NOT_ENDED.
	DeleteRun(ctx context.Context, ns uint32, run string, asked machine.Deleted) (d machine.Deleted, duplicate bool, err error)
	// RunBytes returns the approximate size of a run's rows on disk, without blobs.
	RunBytes(ctx context.Context, ns uint32, run string) (int64, error)
	// Untold reports whether an agent has not yet received the cancellation of a delegation of the run.
	// After the run has ended, the result can only change to false.
	Untold(ctx context.Context, ns uint32, run string) (bool, error)
	// ForgetDeleted drops the entries of runs that were deleted before the given time, in Unix
	// nanoseconds.
	ForgetDeleted(ctx context.Context, ns uint32, before int64) (int, error)
	// Removes returns nil if the disk has enough space for removals. Otherwise it returns the reason
	// why they are not possible.
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

// Policy is the operator's retention policy. The zero value keeps all runs.
type Policy struct {
	// Rules are the rules in order. The first rule that selects a run decides about the run. A run that
	// no rule selects is kept.
	Rules []Rule
	// Grace is how long every run is kept after its end, independent of the rules, so that waiting
	// callers can read how it ended. Default 1 h. For a run that another sidecar requested, the default
	// is 24 h.
	Grace time.Duration
	// Every is the pause between two rounds. Default 10 min.
	Every time.Duration
	// Preview means that the rules delete nothing and only report what they would delete.
	Preview bool
	// ForgetAfter is how long the store remembers that a run was deleted. 0 means permanently.
	ForgetAfter time.Duration

	// Ready returns nil, or the reason why no run may be deleted now. If the function is nil, deletions
	// are always possible.
	Ready func() error
	// Before is called for each run immediately before it is deleted. If it returns an error, the run
	// is kept. It may be nil.
	Before func(Taken) error
	// CheckSpace returns nil, or the reason why no more data may be written into a directory of
	// archives. This directory may be on the disk of the store. If the function is nil, the space is
	// not checked.
	CheckSpace func(dir string) error
	// OnResult is called for each run that no rule keeps. Forgot is called with the number of dropped
	// entries about deleted runs of a namespace. OnError is called for a round with errors. Each of
	// them may be nil.
	OnResult    func(Taken)
	OnForgotten func(namespace string, runs int)
	OnError     func(error)
}

// Eraser is a store that can also erase values.
type Eraser interface {
	// EraseRun erases the values of a run that has ended, and syncs the erasure. If the values were
	// already erased, duplicate is true. Errors: [machine.ErrNoRun], a *[machine.Error] RUN_NOT_ENDED
	// or RUN_NOT_ERASABLE.
	EraseRun(ctx context.Context, ns uint32, run string, asked machine.Erased) (st *machine.State, duplicate bool, err error)
}

// Config is everything that a [Service] needs.
type Config struct {
	Engine Engine
	Clock  runtime.Clock
	// Store deletes runs. If it is nil, deletion is off (DELETION_OFF).
	Store Store
	// Deleted is called for each run that was deleted or erased, and also for a duplicate. It is called
	// while the turn of the run is held. It may be nil.
	Deleted func(key runtime.RunKey)

	Policy
	// Runs lists the runs for the rules. Archive writes the files of the runs. Each may be nil if no
	// rule needs it.
	Runs    Runs
	Archive Archive
	// NotifiesAgents means that this process sends cancellations to agents. The service then waits
	// until they have arrived.
	NotifiesAgents bool
	// Also is called in each round. It drops old data of other packages. It may be nil.
	Also func(ctx context.Context) error
}

// defaultEvery is the pause between two rounds. defaultGrace is how long every run is kept after its
// end. remoteGrace is how long a run is kept if its parent is in another sidecar, because the state of
// that parent is not known here.
const (
	defaultEvery = 10 * time.Minute
	defaultGrace = time.Hour
	remoteGrace  = 24 * time.Hour
)

// Service deletes runs and erases their values. Safe for concurrent use.
type Service struct {
	cfg Config
	// syncDir syncs the file names of a directory to disk.
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
