package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Defaults of [Config].
const (
	DefaultPause    = 250 * time.Millisecond
	DefaultMaxPause = 30 * time.Second
	DefaultGiveUp   = 5 * time.Minute
	DefaultFollow   = 10 * time.Minute
	DefaultTries    = 12
	DefaultMaxRetry = 10 * time.Minute
)

// scanPage is the maximum number of outbox rows of one kind that are read when the outbox starts.
const scanPage = 1 << 20

// Config configures an [Outbox]. Delegations and Subscriptions are required. Zero values of the other fields
// mean their defaults.
type Config struct {
	Delegations   Delegations
	Subscriptions Subscriptions
	// Directory finds the agents. If it is nil, delegations are not sent and stay in the store.
	Directory Directory
	// Feeds provide the events of subscriptions, by the kind of the subscription. If a kind has no
	// feed, the events of its subscriptions are not sent.
	Feeds map[machine.SubscriptionKind]Feed
	// Post delivers one event. Default: an HTTP POST that can reach only public addresses.
	Post Poster
	// Tries is the number of attempts after which an event becomes a dead letter. Default 12, which
	// takes 17 min.
	Tries int
	// MaxRetry is the longest pause between two attempts to send an event. Default 10 min.
	MaxRetry time.Duration
	// Counts counts the outcomes of deliveries. It may be nil.
	Counts Counts
	// Log receives errors that are not returned to a caller. Default: the log is discarded.
	Log *slog.Logger
	// Pause is the first pause and MaxPause the longest pause before an unreachable agent is tried again. The pauses
	// between two attempts to send an event begin with twice Pause. Defaults 250 ms and 30 s.
	Pause    time.Duration
	MaxPause time.Duration
	// GiveUp is how long an agent may be unreachable before the step of the delegation fails. Default 5
	// min.
	GiveUp time.Duration
	// Follow is the longest time for which the stream of an agent's task stays open. After that the
	// stream is opened again, so that a broken connection is noticed. Default 10 min.
	Follow time.Duration
}

// withDefaults returns the configuration with the default for each field that is not set.
func (c Config) withDefaults() Config {
	c.Pause, c.MaxPause = orDefault(c.Pause, DefaultPause), orDefault(c.MaxPause, DefaultMaxPause)
	c.GiveUp, c.Follow = orDefault(c.GiveUp, DefaultGiveUp), orDefault(c.Follow, DefaultFollow)
	c.MaxRetry = orDefault(c.MaxRetry, DefaultMaxRetry)
	if c.Tries == 0 {
		c.Tries = DefaultTries
	}
	if c.Post == nil {
		c.Post = NewHTTPPoster(nil)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// Outbox sends the delegations, cancellations and events that are in the store. It is created with
// [New].
type Outbox struct {
	cfg Config

	mu sync.Mutex
	// ctx is set while Run is running.
	ctx  context.Context //nolint:containedctx // the life of the goroutines, not of a call
	live map[machine.OutboxRow]*sender
	// subs contains the running goroutine of each subscription whose events are sent.
	subs  map[machine.SubscriptionKey]*sender
	tasks sync.WaitGroup
}

// sender is a running goroutine, which sends one outbox row or the events of one subscription.
type sender struct {
	stop context.CancelFunc
	// changed is a channel of capacity 1. A value in it means that the delegation may have changed.
	changed chan struct{}
	// done is closed when the goroutine of a subscription has ended.
	done chan struct{}
}

// New checks the configuration. It starts no goroutine.
func New(cfg Config) (*Outbox, error) {
	if cfg.Delegations == nil || cfg.Subscriptions == nil {
		return nil, errors.New("deliver: Delegations and Subscriptions are required")
	}
	return &Outbox{cfg: cfg.withDefaults(), live: make(map[machine.OutboxRow]*sender), subs: make(map[machine.SubscriptionKey]*sender)}, nil
}

// Run sends messages until ctx ends: those that are in the store when it starts, and those of new commits
// ([Outbox.OnCommit]). When Run returns, also after an error, none of its goroutines is left.
func (o *Outbox) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	o.mu.Lock()
	o.ctx = ctx
	o.mu.Unlock()
	err := errors.Join(o.serveStoredRows(ctx), o.serveStoredSubscriptions(ctx))
	if err == nil {
		<-ctx.Done()
	}
	stop()
	o.mu.Lock()
	o.ctx = nil
	o.mu.Unlock()
	o.tasks.Wait()
	return err
}

// serveStoredRows starts a goroutine for each delegation and each cancellation that is in the store when the
// outbox starts.
func (o *Outbox) serveStoredRows(ctx context.Context) error {
	for _, kind := range []machine.OutboxKind{machine.OutboxDelegation, machine.OutboxCancel} {
		rows, err := patient(ctx, o, func() ([]machine.OutboxRow, error) { return o.cfg.Delegations.Outbox(ctx, kind, scanPage) })
		if err != nil {
			return err
		}
		for _, row := range rows {
			o.begin(row)
		}
	}
	return nil
}

// serveStoredSubscriptions starts a goroutine for each subscription that is in the store when the outbox starts.
func (o *Outbox) serveStoredSubscriptions(ctx context.Context) error {
	for kind := range o.cfg.Feeds {
		subs, err := patient(ctx, o, func() ([]machine.Subscription, error) { return o.cfg.Subscriptions.Subscriptions(ctx, kind, "") })
		if err != nil {
			return err
		}
		for i := range subs {
			if !subs[i].Done {
				o.Serve(subs[i].SubscriptionKey)
			}
		}
	}
	return nil
}

// patient reads from the store with the function read. While the store is unavailable, it repeats the call. If ctx ends,
// it drops the error.
func patient[T any](ctx context.Context, o *Outbox, read func() ([]T, error)) ([]T, error) {
	for pause := time.Duration(0); ; {
		got, err := read()
		if err == nil || ctx.Err() != nil {
			return got, nil
		}
		if away, ok := errors.AsType[*machine.Error](err); !ok || away.Code != machine.CodeUnavailable {
			return nil, fmt.Errorf("deliver: %w", err)
		}
		o.cfg.Log.Log(ctx, slog.LevelWarn, "delivery blocked by internal error, retrying", "operation", string(Reading), "error", err)
		pause = o.sleep(ctx, pause)
	}
}

// OnCommit implements [runtime.Observer]. It starts a goroutine for each delegation and cancellation that the commit
// added, and stops the goroutines of the rows that the commit removed. It wakes the delegations that an answer or the end
// of a pause concerns. It never blocks.
func (o *Outbox) OnCommit(c *runtime.Commit) {
	b := c.Batch
	for i := range b.OutboxRemoved {
		o.end(withNamespace(b, b.OutboxRemoved[i]))
	}
	for i := range b.OutboxAdded {
		o.begin(withNamespace(b, b.OutboxAdded[i]))
	}
	switch input := b.Input.Command.(type) {
	case machine.SendInput:
		if input.Step != 0 {
			o.wake(b.State, input.Step)
		}
	case machine.Resume:
		o.wake(b.State, 0)
	}
}

// withNamespace returns a row of a batch with the run's namespace, because the rows of a batch may not contain
// it.
func withNamespace(b *machine.Batch, row machine.OutboxRow) machine.OutboxRow {
	row.Namespace = b.State.Namespace
	return row
}

// begin starts a goroutine that sends an outbox row. If this goroutine is already running, begin does
// nothing.
func (o *Outbox) begin(row machine.OutboxRow) {
	if o.cfg.Directory == nil || row.Kind != machine.OutboxDelegation && row.Kind != machine.OutboxCancel {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ctx == nil || o.live[row] != nil {
		return
	}
	ctx, stop := context.WithCancel(o.ctx)
	s := &sender{stop: stop, changed: make(chan struct{}, 1)}
	o.live[row] = s
	o.tasks.Go(func() {
		defer o.forget(row, s)
		if row.Kind == machine.OutboxCancel {
			o.callOff(ctx, row)
			return
		}
		if untilDue(ctx, row) {
			(&delegation{o: o, row: row, changed: s.changed}).run(ctx)
		}
	})
}

// untilDue waits until the time row.Due. It returns false if ctx ends first.
func untilDue(ctx context.Context, row machine.OutboxRow) bool {
	left := time.Until(time.Unix(0, row.Due))
	if left <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (o *Outbox) forget(row machine.OutboxRow, s *sender) {
	s.stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.live[row] == s {
		delete(o.live, row)
	}
}

// end stops the goroutine that sends an outbox row, because the row is no longer needed.
func (o *Outbox) end(row machine.OutboxRow) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.live[row]; s != nil {
		s.stop()
	}
}

// wake makes the goroutine of a step's delegation read its state again. If step is 0, wake does this
// for all delegations of the run.
func (o *Outbox) wake(s *machine.State, step uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for row, sender := range o.live {
		if row.RunID == s.RunID && (step == 0 || row.Step == step) && row.Namespace == s.Namespace {
			select {
			case sender.changed <- struct{}{}:
			default:
			}
		}
	}
}
