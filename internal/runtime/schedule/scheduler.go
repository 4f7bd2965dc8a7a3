package schedule

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Engine is what the room needs of the way of a transition.
type Engine interface {
	StartRun(ctx context.Context, req runtime.StartRequest) (runtime.Answer, error)
	// Head returns a run's newest state; RUN_NOT_FOUND, RUN_DELETED.
	Head(ctx context.Context, key runtime.RunKey) (*machine.State, error)
	// Admit resolves a namespace for a caller that has one of the scopes.
	Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error)
}

// Used tells which ids were used up.
type Used interface {
	Consumed(ctx context.Context, ns uint32, key machine.Dedupe) (machine.Dedupe, bool, error)
}

// Store keeps how far schedules are; each write is synced when it returns.
type Store interface {
	Marks(ctx context.Context) ([]machine.ScheduleMark, error)
	Put(ctx context.Context, m machine.ScheduleMark) error
	Drop(ctx context.Context, m machine.ScheduleMark) error
}

// Outcome is what became of instants.
type Outcome string

// The outcomes. Failed ones are tried again, for as long as the schedule's policy has it.
const (
	Fired   Outcome = "fired"
	Missed  Outcome = "missed"
	Skipped Outcome = "skipped"
	Failed  Outcome = "failed"
)

// Outcomes are all of them.
func Outcomes() []Outcome { return []Outcome{Fired, Missed, Skipped, Failed} }

// Result is what is told of instants of a schedule.
type Result struct {
	Schedule *Schedule
	Outcome  Outcome
	// Instant is the last of them, N how many there are.
	Instant time.Time
	N       int
	// RunID is the run of a fired one.
	RunID string
	// Err is why one failed, Attempts how often it did.
	Err      error
	Attempts int
}

// Config is everything that a [Scheduler] needs.
type Config struct {
	Engine Engine
	Clock  runtime.Clock
	// Store keeps how far schedules are, and Used the ids of runs; nil: there are no schedules.
	Store Store
	Used  Used
	// OnResult is told what became of instants; nil: nobody is.
	OnResult func(Result)
	// Ready is nil, or the reason why no run may be begun now; nil: one always may.
	Ready func() error
}

// Bounds of the loop: a look is taken at least every look, since the clock may be set; so many
// schedules are fired at once; a run that cannot be started is tried again after so long, at
// first and at most; and one StartRun takes no longer than patience.
const (
	maxPollInterval    = 15 * time.Second
	maxConcurrentFires = 16
	firstPause         = time.Second
	mostPause          = time.Minute
	startTimeout       = 30 * time.Second
)

// Scheduler fires schedules. Its owner is the wiring. Safe for concurrent use.
type Scheduler struct {
	cfg     Config
	changed chan struct{}

	// turn is held by whoever fires or replaces, mu for a look at what follows.
	turn    sync.Mutex
	mu      sync.Mutex
	entries []*entry
}

// entry is a schedule with what is known of it.
type entry struct {
	*Schedule
	mark machine.ScheduleMark
	// when something is to be done next; zero = that is not known.
	when time.Time
	// fault is of the instant that could not be fired; again is when, as Elapsed measures, the
	// next attempt is made.
	fault   Fault
	retryAt time.Duration
}

// Fault says why an instant was not fired yet.
type Fault struct {
	Instant time.Time
	// Attempts were made since Since; 0 = nothing is wrong. Err is what came of the last.
	Attempts int
	Since    time.Time
	Err      error
}

// New checks the configuration; it starts nothing.
func New(cfg Config) (*Scheduler, error) {
	if cfg.Engine == nil || cfg.Clock == nil {
		return nil, errors.New("schedule: configuration: Engine and Clock are required")
	}
	if cfg.OnResult == nil {
		cfg.OnResult = func(Result) {}
	}
	if cfg.Ready == nil {
		cfg.Ready = func() error { return nil }
	}
	return &Scheduler{cfg: cfg, changed: make(chan struct{}, 1)}, nil
}

// Replace makes these the schedules: what is stored of others is dropped. A schedule that is new, or
// has another rule, begins now: its first instant is the next.
func (r *Scheduler) Replace(ctx context.Context, schedules []*Schedule) error {
	if r.cfg.Store == nil || r.cfg.Used == nil {
		if len(schedules) > 0 {
			return errors.New("schedule: this sidecar's store keeps none")
		}
		return nil
	}
	r.turn.Lock()
	defer r.turn.Unlock()
	marks, err := r.cfg.Store.Marks(ctx)
	if err != nil {
		return err
	}
	entries := make([]*entry, 0, len(schedules))
	for _, s := range schedules {
		e, err := r.loadEntry(ctx, s, &marks)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	for _, m := range marks {
		if err := r.cfg.Store.Drop(ctx, m); err != nil {
			return err
		}
	}
	r.mu.Lock()
	r.entries = entries
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
	return nil
}

// loadEntry is the entry of a schedule, whose mark is taken out of marks, or stored.
func (r *Scheduler) loadEntry(ctx context.Context, s *Schedule, marks *[]machine.ScheduleMark) (*entry, error) {
	ns, err := r.cfg.Engine.Admit(s.Start.Call, runtime.ScopeRunsWrite)
	if err != nil {
		return nil, err
	}
	now := r.cfg.Clock.Now()
	e := &entry{Schedule: s, mark: machine.ScheduleMark{Namespace: ns, ID: s.ID, Principal: s.Start.Principal.Name()}}
	if i := slices.IndexFunc(*marks, func(m machine.ScheduleMark) bool { return m.Namespace == ns && m.ID == s.ID }); i >= 0 {
		e.mark = (*marks)[i]
		*marks = slices.Delete(*marks, i, i+1)
	}
	if e.mark.Rule != s.Rule.String() {
		e.mark.Rule, e.mark.After = s.Rule.String(), max(now.UnixNano(), e.mark.After)
		if err := r.cfg.Store.Put(ctx, e.mark); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// Run fires what is due until ctx ends.
func (r *Scheduler) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		wait := r.round(ctx)
		select {
		case <-ctx.Done():
		case <-r.changed:
		case <-r.cfg.Clock.After(wait):
		}
	}
	return nil
}

// round fires what is due and says when the next look is.
func (r *Scheduler) round(ctx context.Context) time.Duration {
	r.turn.Lock()
	defer r.turn.Unlock()
	var group errgroup.Group
	group.SetLimit(maxConcurrentFires)
	for _, e := range r.entries {
		if r.due(e) {
			group.Go(func() error { r.fire(ctx, e); return nil })
		}
	}
	_ = group.Wait()
	now, elapsed, wait := r.cfg.Clock.Now(), r.cfg.Clock.Elapsed(), maxPollInterval
	for _, e := range r.entries {
		switch {
		case e.fault.Attempts > 0:
			wait = min(wait, e.retryAt-elapsed)
		case !e.when.IsZero():
			wait = min(wait, e.when.Sub(now))
		}
	}
	return max(wait, 0)
}

// due: something may be to be done about it now.
func (r *Scheduler) due(e *entry) bool {
	if e.Paused {
		return false
	}
	if e.fault.Attempts > 0 {
		return r.cfg.Clock.Elapsed() >= e.retryAt
	}
	return e.when.IsZero() || !e.when.After(r.cfg.Clock.Now())
}
