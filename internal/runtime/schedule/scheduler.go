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

// Engine is the part of the runtime engine that a [Scheduler] uses.
type Engine interface {
	StartRun(ctx context.Context, req runtime.StartRequest) (runtime.Answer, error)
	// Head returns the newest state of a run. Errors: RUN_NOT_FOUND, RUN_DELETED.
	Head(ctx context.Context, key runtime.RunKey) (*machine.State, error)
	// Admit checks that the caller has one of the scopes, and returns the number of the namespace of
	// the call.
	Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error)
}

// UsedIDs looks up used idempotency ids in the store.
type UsedIDs interface {
	FindRequestID(ctx context.Context, ns uint32, key machine.Dedupe) (machine.Dedupe, bool, error)
}

// Store stores the progress of schedules. Each write returns after it is synced.
type Store interface {
	Marks(ctx context.Context) ([]machine.ScheduleMark, error)
	Put(ctx context.Context, m machine.ScheduleMark) error
	Drop(ctx context.Context, m machine.ScheduleMark) error
}

// Outcome is what has happened to an instant of a schedule: a time at which it fires.
type Outcome string

// These are the outcomes of instants. A failed instant is tried again as long as the settings of the
// schedule allow it.
const (
	Fired   Outcome = "fired"
	Missed  Outcome = "missed"
	Skipped Outcome = "skipped"
	Failed  Outcome = "failed"
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome { return []Outcome{Fired, Missed, Skipped, Failed} }

// Result reports the outcome of one or more instants of a schedule.
type Result struct {
	Schedule *Schedule
	Outcome  Outcome
	// Instant is the instant, or the last one of several. N is their number.
	Instant time.Time
	N       int
	// RunID is the run of a fired instant.
	RunID string
	// Err is the error of a failed instant. Attempts is the number of failed attempts so far.
	Err      error
	Attempts int
}

// Config configures a [Scheduler]. Engine and Clock are required.
type Config struct {
	Engine Engine
	Clock  runtime.Clock
	// Store stores the progress of schedules. Used looks up the request ids of runs. If either is nil,
	// there can be no schedules.
	Store Store
	Used  UsedIDs
	// OnResult is called with each result. It may be nil.
	OnResult func(Result)
	// Ready returns nil, or an error that says why no run may be started now. If the function is nil,
	// runs may always be started.
	Ready func() error
}

// These constants are the bounds of the loop. It wakes at least every maxPollInterval, because the
// clock may be set. It fires at most maxConcurrentFires schedules at the same time. After a failure it
// waits for firstPause, and later for at most mostPause. One StartRun may take at most startTimeout.
const (
	maxPollInterval    = 15 * time.Second
	maxConcurrentFires = 16
	firstPause         = time.Second
	mostPause          = time.Minute
	startTimeout       = 30 * time.Second
)

// Scheduler starts the runs of schedules. Safe for concurrent use.
type Scheduler struct {
	cfg     Config
	changed chan struct{}

	// The mutex turn is held while schedules are fired or replaced, so that these do not happen at the
	// same time. mu guards the fields below it.
	turn    sync.Mutex
	mu      sync.Mutex
	entries []*entry
}

// entry is a schedule with its progress and its last error.
type entry struct {
	*Schedule
	mark machine.ScheduleMark
	// fireTime is the planned time of the next instant. It is zero if it is not known.
	fireTime time.Time
	// fault describes the due instant that could not be fired. retryAt is the time of the next attempt,
	// as a value of Clock.Elapsed.
	fault   Fault
	retryAt time.Duration
}

// Fault describes an instant that could not be fired yet, and why.
type Fault struct {
	Instant time.Time
	// Attempts is the number of failed attempts since the time Since. 0 means that there is no fault.
	// Err is the error of the last attempt.
	Attempts int
	Since    time.Time
	Err      error
}

// New checks the configuration and returns a Scheduler without schedules. It starts no goroutine.
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

// Replace replaces all schedules. It drops the stored progress of schedules that no longer exist. A
// schedule that is new or has another rule begins now, so its first instant is the next one.
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

// loadEntry returns the entry of a schedule with its stored progress, and removes that progress from
// the list marks. If there is none, or if the rule has changed, it stores new progress.
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

// Run starts the runs of due instants until ctx ends.
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

// round starts the runs of due instants and returns the time until the next round.
func (r *Scheduler) round(ctx context.Context) time.Duration {
	r.turn.Lock()
	defer r.turn.Unlock()
	var group errgroup.Group
	group.SetLimit(maxConcurrentFires)
	for _, e := range r.entries {
		if r.isDue(e) {
			group.Go(func() error { r.fire(ctx, e); return nil })
		}
	}
	_ = group.Wait()
	now, elapsed, wait := r.cfg.Clock.Now(), r.cfg.Clock.Elapsed(), maxPollInterval
	for _, e := range r.entries {
		switch {
		case e.fault.Attempts > 0:
			wait = min(wait, e.retryAt-elapsed)
		case !e.fireTime.IsZero():
			wait = min(wait, e.fireTime.Sub(now))
		}
	}
	return max(wait, 0)
}

// isDue reports whether an instant of the schedule may be due now.
func (r *Scheduler) isDue(e *entry) bool {
	if e.Paused {
		return false
	}
	if e.fault.Attempts > 0 {
		return r.cfg.Clock.Elapsed() >= e.retryAt
	}
	return e.fireTime.IsZero() || !e.fireTime.After(r.cfg.Clock.Now())
}
