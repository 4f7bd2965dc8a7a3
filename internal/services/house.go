package services

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/delivery/delegation"
	"github.com/pawl-dev/pawl/internal/delivery/subscription"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/blob"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
	"github.com/pawl-dev/pawl/internal/runtime/query"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
	"github.com/pawl-dev/pawl/internal/runtime/ratelimit"
	"github.com/pawl-dev/pawl/internal/runtime/retention"
	"github.com/pawl-dev/pawl/internal/runtime/schedule"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/runtime/timetravel"
)

// Config is what a [House] is made of: the configuration of the way and, beside it, what
// only rooms are told. Zero fields take the default of the room that they are for.
type Config struct {
	runtime.Config

	// TailBytes bounds the recent entries held for watchers.
	TailBytes int64
	// WatchBytes bounds what all watches together hold of what was not yet taken.
	WatchBytes int64
	// Heartbeat is the longest silence of a watch.
	Heartbeat time.Duration

	// Archive proves, exports and imports runs; nil: it is not done here.
	Archive timetravel.Archive
	// Blobs keeps what is too large for journals; nil: there are none.
	Blobs blob.Store
	// MaxBlobBytes bounds one blob.
	MaxBlobBytes int64
	// BlobGrace is how long a blob is kept that nothing refers to.
	BlobGrace time.Duration

	// Subscriptions keeps who is told of records, and how far; nil: Store does.
	Subscriptions subscription.Store
	// Deletions deletes runs; nil: Store does, if it can.
	Deletions retention.Store
	// Retention is what the operator says of what is not kept; the zero value keeps it all.
	Retention retention.Policy
	// Ends say how long is kept what nobody asks for; the zero value keeps it all.
	Ends Ends
	// Telling: agents are told what is no longer wanted of them.
	Telling bool

	// Agenda keeps how far schedules are; nil: there are none. Instants is told what became
	// of their instants, Starts is nil or the reason why no run may begin by one now.
	Agenda   schedule.Store
	Instants func(schedule.Told)
	Starts   func() error

	// Work is what the operator says of workers; what the room needs of the way and of
	// the store is set by [New].
	Work dispatch.Config
}

// Ends say how long is kept what nobody asks for.
type Ends = subscription.Ends

// Watches is the room of those who read what happens.
type Watches = streams.Room

// Views is the room of what is asked about runs.
type Views = query.Room

// House is the way of a transition with the rooms around it. Its fields are set once,
// by [New], and belong to whoever made it.
type House struct {
	*runtime.Engine
	*Watches
	*Views
	// Registry takes packs and tells them.
	*packs.Registry

	// Quotas says who may have how much, to all of them.
	Quotas *quota.Book

	// Admission lets calls of models and tools begin.
	Admission     *ratelimit.Room
	Blobs         *blob.Room
	Delegations   *delegation.Room
	Subscriptions *subscription.Room
	Retain        *retention.Room
	Travel        *timetravel.Room
	Work          *dispatch.Room
	// Schedules fires what the operator's file says.
	Schedules *schedule.Room
}

// New builds the way, then the rooms over it; nothing is started. All faults of the
// configuration are reported at once.
func New(cfg Config) (*House, error) {
	if cfg.Quotas == nil {
		cfg.Quotas = quota.New(cfg.Namespaces.WithDefault())
	}
	engine, err := runtime.New(cfg.Config)
	if err != nil {
		return nil, err
	}
	h := &House{Engine: engine, Quotas: cfg.Quotas, Registry: packs.New(packs.Config{
		Way: engine, Store: cfg.Store, Programs: engine.Programs(), Clock: cfg.Clock, Options: cfg.Pack, Quotas: cfg.Quotas,
	})}
	h.Views = query.New(query.Config{
		Way: engine, Store: cfg.Store, Past: engine.Past(), Programs: engine.Programs(), Turns: engine.Turns(),
	})
	var errs [9]error
	h.Travel, errs[0] = timetravel.New(timetravel.Config{
		Way: engine, Store: cfg.Store, Past: engine.Past(), Programs: engine.Programs(), Terms: engine.Terms(),
		Clock: cfg.Clock, Archive: cfg.Archive, PackLimits: cfg.Pack.Limits,
	})
	h.Blobs, errs[1] = blob.New(blob.Config{
		Way: engine, Clock: cfg.Clock, IDs: cfg.IDs, Store: cfg.Blobs, MaxBytes: cfg.MaxBlobBytes, Grace: cfg.BlobGrace,
	})
	h.Subscriptions, errs[2] = subscription.New(subscription.Config{
		Way: engine, Store: subscriptionsOf(cfg), Journal: cfg.Store, Clock: cfg.Clock, Quotas: cfg.Quotas, Ends: cfg.Ends,
	})
	h.Delegations, errs[3] = delegation.New(delegation.Config{
		Way: engine, Store: cfg.Store, Past: engine.Past(), Programs: engine.Programs(), Clock: cfg.Clock, Allow: cfg.Allowlist(),
	})
	h.Admission, errs[7] = ratelimit.New(ratelimit.Config{Way: engine, Store: cfg.Store, Clock: cfg.Clock})
	h.Work, errs[4] = newWork(cfg, h)
	h.Watches, errs[5] = streams.New(streams.Config{
		Way: engine, Store: cfg.Store, Past: engine.Past(), Programs: engine.Programs(), Readers: h.Subscriptions, Clock: cfg.Clock,
		Live: h.Work, TailBytes: cfg.TailBytes, Bytes: cfg.WatchBytes, Heartbeat: cfg.Heartbeat,
	})
	h.Retain, errs[6] = retention.New(retention.Config{
		Way: engine, Clock: cfg.Clock, Store: deletionsOf(cfg), Runs: cfg.Store, Archive: cfg.Archive, Policy: cfg.Retention, Telling: cfg.Telling,
		Also:    func(ctx context.Context) error { return h.Subscriptions.Forget(ctx) },
		Deleted: h.forget,
	})
	h.Schedules, errs[8] = schedule.New(schedule.Config{
		Way: engine, Clock: cfg.Clock, Store: cfg.Agenda, Used: cfg.Store, Tell: cfg.Instants, Ready: cfg.Starts,
	})
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	engine.Attach(runtime.Hooks{
		InTurn: []runtime.Follower{h.Work, h.Admission}, Published: []runtime.Follower{h.Watches},
		Stirred: []func(runtime.RunKey){h.Stir}, Served: []func(runtime.RunKey) bool{h.Work.Serves}, Loops: []func(context.Context){h.Work.Run, h.Admission.Run},
	})
	return h, nil
}

// forget lets go of what is remembered of a run that was deleted or erased.
func (h *House) forget(key runtime.RunKey) {
	h.Engine.Past().Forget(key)
	h.Watches.Forget(key)
}

// Close drains the way without a limit of time, then ends all watches.
func (h *House) Close() error {
	err := h.Engine.Close()
	h.Watches.End()
	return err
}

// deletionsOf is what deletes runs; nil: nothing does.
func deletionsOf(cfg Config) retention.Store {
	if cfg.Deletions != nil {
		return cfg.Deletions
	}
	deletes, _ := cfg.Store.(retention.Store)
	return deletes
}

// subscriptionsOf is what keeps the subscriptions; nil: nothing does.
func subscriptionsOf(cfg Config) subscription.Store {
	if cfg.Subscriptions != nil {
		return cfg.Subscriptions
	}
	kept, _ := cfg.Store.(subscription.Store)
	return kept
}

func newWork(cfg Config, h *House) (*dispatch.Room, error) {
	conf := cfg.Work
	conf.Way, conf.Store, conf.Quotas = h.Engine, cfg.Store, cfg.Quotas
	conf.Turns, conf.Past, conf.Packs = h.Turns(), h.Engine.Past(), h.Programs()
	conf.Clock, conf.IDs, conf.Limits, conf.Allow = cfg.Clock, cfg.IDs, h.Admission, cfg.Allowlist()
	conf.Stir = func(key runtime.RunKey) { h.Stir(key) } // made after this room
	return dispatch.New(conf)
}
