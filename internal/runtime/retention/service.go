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

// Engine is what the room needs of the way of a transition.
type Engine interface {
	// Find resolves the address of a run that the caller may see.
	Find(ref runtime.RunRef) (runtime.RunKey, error)
	// Head returns a run's newest state; RUN_NOT_FOUND, RUN_DELETED.
	Head(ctx context.Context, key runtime.RunKey) (*machine.State, error)
	// Evict calls do in the run's own turn, after which nothing of the run is remembered.
	Evict(key runtime.RunKey, do func() error) error
	// Inside calls do while inputs are taken, which a drain waits for.
	Inside(do func() error) error
	// Health is nil while inputs are taken, else why they are not.
	Health() error
	// NamespaceNumbers are those that are served, NamespaceName their names.
	NamespaceNumbers() []uint32
	NamespaceName(number uint32) string
}

// Store is what deletes.
type Store interface {
	// DeleteRun deletes a run that has ended, synced; the same run again is a duplicate.
	// [machine.ErrNoRun], a *machine.Refusal RUN_NOT_ENDED.
	DeleteRun(ctx context.Context, ns uint32, run string, asked machine.Deleted) (d machine.Deleted, duplicate bool, err error)
	// RunBytes is about what the rows of a run take on disk, without blobs.
	RunBytes(ctx context.Context, ns uint32, run string) (int64, error)
	// Untold: an agent was not told yet that a delegation of the run is no longer wanted. Of
	// a run that has ended it can only become false.
	Untold(ctx context.Context, ns uint32, run string) (bool, error)
	// ForgetDeleted forgets the runs that were deleted before a time, Unix nanoseconds.
	ForgetDeleted(ctx context.Context, ns uint32, before int64) (int, error)
	// Removes is nil while there is room on the disk for removals, else why there is none.
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

// Policy is what the operator says of what is not kept; the zero value keeps everything.
type Policy struct {
	// Rules: the first that is about a run decides; on a run that none is about, nobody.
	Rules []Rule
	// Grace is how long every run is kept after its end, whatever the rules say: who waits for
	// it must hear how it ended. Default 1 h, of a run that another sidecar asked for 24 h.
	Grace time.Duration
	// Every is the pause between two rounds. Default 10 min.
	Every time.Duration
	// Preview: the rules only say what they would do.
	Preview bool
	// ForgetAfter is how long it is known that a run was deleted; 0 = for ever.
	ForgetAfter time.Duration

	// Ready is nil, or the reason why nothing may be deleted now; nil: it may always.
	Ready func() error
	// Before is told of each run right before it is deleted, and keeps it by an error; nil:
	// nobody is.
	Before func(Taken) error
	// CheckSpace is nil, or the reason why nothing more may be written into a directory of archives:
	// it may be on the disk of the store; nil: there is always room.
	CheckSpace func(dir string) error
	// OnResult is told of each run that no rule keeps, Forgot how many deleted runs of a namespace
	// were forgotten, Fault of a round that could not do all; nil: nobody is.
	OnResult    func(Taken)
	OnForgotten func(namespace string, runs int)
	OnError     func(error)
}

// Eraser is a store that erases, too.
type Eraser interface {
	// EraseRun erases the values of a run that has ended, synced; the same run again is a
	// duplicate. [machine.ErrNoRun], a *machine.Refusal RUN_NOT_ENDED or RUN_NOT_ERASABLE.
	EraseRun(ctx context.Context, ns uint32, run string, asked machine.Erased) (st *machine.State, duplicate bool, err error)
}

// Config is everything that a [Service] needs.
type Config struct {
	Engine Engine
	Clock  runtime.Clock
	// Store deletes; nil: nothing is deleted here (DELETION_OFF).
	Store Store
	// Deleted is told of each run that was deleted or erased, also of one that was before, in
	// the run's own turn; nil: nobody is.
	Deleted func(key runtime.RunKey)

	Policy
	// Runs lists the runs that rules are about, Archive writes their files; both may be nil
	// where no rule needs them.
	Runs    Runs
	Archive Archive
	// NotifiesAgents: agents are told what is no longer wanted, so that it is waited for.
	NotifiesAgents bool
	// Also is called with each round, and forgets what other rooms keep; nil: nothing.
	Also func(ctx context.Context) error
}

// defaultEvery is the pause between two rounds, defaultGrace what every run is kept after its
// end, and remoteGrace that of one whose parent is in another sidecar, which is not seen here.
const (
	defaultEvery = 10 * time.Minute
	defaultGrace = time.Hour
	remoteGrace  = 24 * time.Hour
)

// Service deletes runs, and erases their values. Its owner is the wiring. Safe for concurrent use.
type Service struct {
	cfg Config
	// syncDir brings the names in a directory onto the disk.
	syncDir func(dir string) error
}

// New checks the configuration; it starts nothing.
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
