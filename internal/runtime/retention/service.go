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

// Engine is the part of the runtime engine that a [Service] uses.
type Engine interface {
	// Find returns the key of a run that the caller may see.
	Find(ref runtime.RunRef) (runtime.RunKey, error)
	// Head returns the newest state of a run. Errors: RUN_NOT_FOUND, RUN_DELETED.
	Head(ctx context.Context, key runtime.RunKey) (*machine.State, error)
	// Evict calls do while no input of the run is executed, and removes the cached state of the run
	// afterwards.
	Evict(key runtime.RunKey, do func() error) error
	// DoInFlight calls do and counts the call as an input in flight, so that a drain waits for it.
	DoInFlight(do func() error) error
	// Health returns nil if the engine accepts inputs. Otherwise the error says why it does not.
	Health() error
	// NamespaceNumbers returns the numbers of the configured namespaces. NamespaceName returns the name
	// of a namespace by its number.
	NamespaceNumbers() []uint32
	NamespaceName(number uint32) string
}

// Store deletes runs.
type Store interface {
	// DeleteRun deletes a run that has ended, and syncs the deletion. duplicate reports whether the run
	// was already deleted. Errors: [machine.ErrNoRun], a *[machine.Error] RUN_NOT_ENDED.
	DeleteRun(ctx context.Context, ns uint32, run string, asked machine.Deleted) (d machine.Deleted, duplicate bool, err error)
	// RunBytes returns the approximate size of a run's rows on disk, without blobs.
	RunBytes(ctx context.Context, ns uint32, run string) (int64, error)
	// HasUnconfirmedCancel reports whether an agent has not received the cancellation of a delegation of the run yet.
	// After the run has ended, the result can only change to false.
	HasUnconfirmedCancel(ctx context.Context, ns uint32, run string) (bool, error)
	// ForgetDeleted drops the stored data about runs that were deleted before the given time, in Unix
	// nanoseconds. It returns their number.
	ForgetDeleted(ctx context.Context, ns uint32, before int64) (int, error)
	// CheckRemovalSpace returns nil if the disk has enough space to delete runs. Otherwise the error says why
	// they cannot be deleted.
	CheckRemovalSpace() error
}

// Runs lists runs.
type Runs interface {
	ListRuns(ctx context.Context, ns uint32, filter machine.RunFilter, after string, limit int) ([]*machine.State, string, error)
}

// Archive writes the archive file of a run.
type Archive interface {
	Export(ctx context.Context, ns uint32, run string, out io.Writer) error
}

// Policy is the operator's retention policy. The zero value keeps all runs.
type Policy struct {
	// Rules are the rules in order. The first rule that selects a run applies to it. A run that no rule
	// selects is kept.
	Rules []Rule
	// Grace is how long every run is kept after its end, independent of the rules, so that waiting
	// callers can read how it ended. Default 1 h. For a run that another sidecar started, it is at
	// least 24 h.
	Grace time.Duration
	// Every is the pause between two rounds, in which the rules are applied. Default 10 min.
	Every time.Duration
	// Preview means that the rules delete no run. They only report the runs that they would delete.
	Preview bool
	// ForgetAfter is how long the store remembers that a run was deleted. 0 means that it remembers
	// this permanently.
	ForgetAfter time.Duration

	// Ready returns nil, or an error that says why no run may be deleted now. If the function is nil,
	// runs may always be deleted.
	Ready func() error
	// Before is called for each run immediately before the run is deleted. If it returns an error, the
	// run is kept. The function may be nil.
	Before func(RunOutcome) error
	// CheckSpace returns nil, or an error that says why no more data may be written into a directory of
	// archives, which may be on the disk of the store. If the function is nil, the space is not
	// checked.
	CheckSpace func(dir string) error
	// OnResult is called for each run that its rule does not keep. OnForgotten is called after the
	// store has dropped the data about runs that were deleted long ago, with the namespace and the
	// number of these runs. OnError is called for a round with errors. Each of them may be nil.
	OnResult    func(RunOutcome)
	OnForgotten func(namespace string, runs int)
	OnError     func(error)
}

// Eraser is a [Store] that can also erase the values of runs.
type Eraser interface {
	// EraseRun erases the values of a run that has ended, and syncs the erasure. duplicate reports
	// whether they were already erased. Errors: [machine.ErrNoRun], a *[machine.Error] RUN_NOT_ENDED or
	// RUN_NOT_ERASABLE.
	EraseRun(ctx context.Context, ns uint32, run string, asked machine.Erased) (st *machine.State, duplicate bool, err error)
}

// Config configures a [Service]. Engine and Clock are required.
type Config struct {
	Engine Engine
	Clock  runtime.Clock
	// Store deletes runs. If it is nil, every deletion fails with DELETION_OFF, and every erasure with
	// ERASURE_OFF. Rules and ForgetAfter need it.
	Store Store
	// Deleted is called after a run was deleted or erased, also if this had already happened before, and
	// after a failed erasure that may have begun. It is called while no input of the run is executed. It
	// may be nil.
	Deleted func(key runtime.RunKey)

	Policy
	// Runs lists the runs to which rules apply. It may be nil if there are no rules and ForgetAfter is 0.
	// Archive writes the archive files of runs. It may be nil if no rule has an archive.
	Runs    Runs
	Archive Archive
	// NotifiesAgents means that this process sends cancellations to agents. A run is then deleted only
	// after the agents have received them.
	NotifiesAgents bool
	// Also is called in each round, to drop old data of other packages. It may be nil.
	Also func(ctx context.Context) error
}

// defaultEvery is the pause between two rounds. defaultGrace is how long every run is kept after its
// end. remoteGrace is the same for a run whose parent is in another sidecar, because it is not known
// here whether that parent has ended.
const (
	defaultEvery = 10 * time.Minute
	defaultGrace = time.Hour
	remoteGrace  = 24 * time.Hour
)

// Service deletes runs and erases their values. Safe for concurrent use.
type Service struct {
	cfg Config
	// syncDir syncs the file names in a directory to disk. Tests replace it.
	syncDir func(dir string) error
}

// New checks the configuration and returns a Service. It starts no goroutine.
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
		cfg.Before = func(RunOutcome) error { return nil }
	}
	if cfg.CheckSpace == nil {
		cfg.CheckSpace = func(string) error { return nil }
	}
	if cfg.OnResult == nil {
		cfg.OnResult = func(RunOutcome) {}
	}
	if cfg.OnForgotten == nil {
		cfg.OnForgotten = func(string, int) {}
	}
	if cfg.OnError == nil {
		cfg.OnError = func(error) {}
	}
	return &Service{cfg: cfg, syncDir: syncDir}, nil
}
