package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

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

// scanPage is the maximum number of rows that are read when the outbox starts.
const scanPage = 1 << 20

// Config configures an [Outbox]. Delegations and Subscriptions are required. Zero values of the other fields
// mean their defaults.
type Config struct {
	Delegations   Delegations
	Subscriptions Subscriptions
	// Directory finds the agents. If it is nil, delegations wait.
	Directory Directory
	// Feeds provide the events of subscriptions, by kind. A subscription whose kind has no feed gets no
	// deliveries.
	Feeds map[machine.SubscriptionKind]Feed
	// Post delivers one event. Default: an HTTP POST that can reach only public addresses.
	Post Poster
	// Tries is the number of attempts after which a delivery becomes a dead letter. Default 12, which
	// takes 17 min.
	Tries int
	// MaxRetry is the longest pause between two attempts of a delivery. Default 10 min.
	MaxRetry time.Duration
	// Counts counts the outcomes of deliveries. It may be nil.
	Counts Counts
	// Log receives errors that are not returned to a caller. Default: the log is discarded.
	Log *slog.Logger
	// Pause is the first pause and MaxPause the longest pause before an unreachable agent is tried
	// again. Defaults 250 ms and 30 s.
	Pause    time.Duration
	MaxPause time.Duration
	// GiveUp is how long an agent may be unreachable before the step fails. Default 5 min.
	GiveUp time.Duration
	// Follow is the longest time for which one stream of a task stays open. After that the stream is
	// opened again, so that a broken connection is noticed. Default 10 min.
	Follow time.Duration
}

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

// Outbox sends the messages and events that are in the store. It is created with [New].
type Outbox struct {
	cfg Config

	mu sync.Mutex
	// ctx is set while Run is running.
	ctx  context.Context //nolint:containedctx // the life of the goroutines, not of a call
	live map[machine.OutboxRow]*sender
	// subs are the subscriptions whose events are currently delivered.
	subs  map[machine.SubscriptionKey]*sender
	tasks sync.WaitGroup
}

// sender is the running goroutine of one row or one subscription.
type sender struct {
	stop context.CancelFunc
	// news contains at most one token. The token means that the delegation may have changed.
	news chan struct{}
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

// Run sends until ctx ends. It first sends the stored items, and then the items that are passed to
// [Outbox.Observe].
func (o *Outbox) Run(ctx context.Context) error {
	o.mu.Lock()
	o.ctx = ctx
	o.mu.Unlock()
	if err := errors.Join(o.stored(ctx), o.subscribed(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	o.mu.Lock()
	o.ctx = nil
	o.mu.Unlock()
	o.tasks.Wait()
	return nil
}

// stored starts the delegations and cancellations that are in the store.
func (o *Outbox) stored(ctx context.Context) error {
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

// subscribed starts the deliveries of the subscriptions in the store.
func (o *Outbox) subscribed(ctx context.Context) error {
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

// patient calls read repeatedly while the store is unavailable. If ctx has ended, it returns no items.
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

// Observe starts and stops senders after a commit. It never blocks.
func (o *Outbox) Observe(b *machine.Batch) {
	for i := range b.OutboxRemoved {
		o.end(named(b, b.OutboxRemoved[i]))
	}
	for i := range b.OutboxAdded {
		o.begin(named(b, b.OutboxAdded[i]))
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

// named returns a row with its namespace. The rows of a batch may not contain it.
func named(b *machine.Batch, row machine.OutboxRow) machine.OutboxRow {
	row.Namespace = b.State.Namespace
	return row
}

// begin starts the sender of a row. If it is already running, begin does nothing.
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
	s := &sender{stop: stop, news: make(chan struct{}, 1)}
	o.live[row] = s
	o.tasks.Go(func() {
		defer o.forget(row, s)
		if row.Kind == machine.OutboxCancel {
			o.callOff(ctx, row)
			return
		}
		if untilDue(ctx, row) {
			(&delegation{o: o, row: row, news: s.news}).run(ctx)
		}
	})
}

// untilDue waits until a row is due. It returns false if the row is no longer needed.
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

// end stops the sender of a row that is no longer needed.
func (o *Outbox) end(row machine.OutboxRow) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.live[row]; s != nil {
		s.stop()
	}
}

// wake makes the delegation of a step read its state again. If step is 0, it does this for all
// delegations of a run.
func (o *Outbox) wake(s *machine.State, step uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for row, sender := range o.live {
		if row.RunID == s.RunID && (step == 0 || row.Step == step) && row.Namespace == s.Namespace {
			select {
			case sender.news <- struct{}{}:
			default:
			}
		}
	}
}
