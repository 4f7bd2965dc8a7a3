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
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
	"github.com/pawl-dev/pawl/internal/runtime/query"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
	"github.com/pawl-dev/pawl/internal/runtime/ratelimit"
	"github.com/pawl-dev/pawl/internal/runtime/retention"
	"github.com/pawl-dev/pawl/internal/runtime/schedule"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/runtime/timetravel"
	"github.com/pawl-dev/pawl/internal/runtime/waiting"
)

// Config configures a [Runtime]: the engine, and the services around it. Zero fields take the
// default of the service that uses them.
type Config struct {
	runtime.Config

	// TailBytes bounds the most recent journal entries that are kept in memory for streams of records (watches), in
	// bytes.
	TailBytes int64
	// WatchBytes bounds the journal entries that all streams of records (watches) together hold until their readers
	// take them, in bytes.
	WatchBytes int64
	// Heartbeat is the longest time after which a stream of records (a watch) sends something, even if there is no
	// record.
	Heartbeat time.Duration

	// Archive verifies, exports and imports runs. If it is nil, these operations are refused.
	Archive timetravel.Archive
	// Blobs stores values that are too large for journals. If it is nil, there are no blobs.
	Blobs blob.Store
	// MaxBlobBytes bounds the size of one blob, in bytes.
	MaxBlobBytes int64
	// BlobGrace is how long a blob is kept after its last upload although no run refers to it.
	BlobGrace time.Duration

	// Subscriptions stores the subscriptions and their positions. If it is nil, Store stores them.
	Subscriptions subscription.Store
	// Deletions deletes runs. If it is nil, Store deletes them, if it can.
	Deletions retention.Store
	// Retention is the operator's policy for the deletion of runs. The zero value keeps all runs.
	Retention retention.Policy
	// Ends says how long unused subscriptions are kept. The zero value keeps all subscriptions.
	Ends Ends
	// NotifiesAgents reports whether the sidecar sends a cancellation to an agent when a run no longer needs its delegation.
	NotifiesAgents bool

	// ScheduleStore stores which scheduled times were processed. If it is nil, there are no schedules.
	// OnScheduleResult receives the outcome of each scheduled time. Starts returns the reason why schedules may not
	// start runs now, or nil.
	ScheduleStore    schedule.Store
	OnScheduleResult func(schedule.Result)
	Starts           func() error

	// Work is the operator's configuration for workers. [New] sets the fields of it that depend on the engine and the
	// store.
	Work dispatch.Config
}

// Ends are the retention times of unused subscriptions.
type Ends = subscription.RetentionConfig

// Watches is the service for streams of records.
type Watches = streams.Service

// Views is the service for queries about runs.
type Views = query.Service

// Runtime is the engine with the services around it. [New] sets its fields once. The caller of New owns them.
type Runtime struct {
	*runtime.Engine
	*Watches
	*Views
	// Registry registers packs and returns them.
	*packs.Registry

	// Quotas are the limits for all services.
	Quotas *quota.Limits

	// Admission limits calls of models and tools by the operator's rate limits.
	Admission     *ratelimit.Service
	Blobs         *blob.Service
	Delegations   *delegation.Service
	Subscriptions *subscription.Service
	Retain        *retention.Service
	TimeTravel    *timetravel.Service
	Work          *dispatch.Dispatcher
	// Waits says what runs wait for.
	Waits *waiting.Service
	// Schedules starts runs by the operator's schedules.
	Schedules *schedule.Scheduler
}

// New creates the engine, then the services on top of it. It starts no goroutine. If the engine refuses its
// configuration, New returns this error at once. Otherwise it returns one error with the faults of all
// services.
func New(cfg Config) (*Runtime, error) {
	if cfg.Quotas == nil {
		cfg.Quotas = quota.New(cfg.Namespaces.WithDefault())
	}
	engine, err := runtime.New(cfg.Config)
	if err != nil {
		return nil, err
	}
	h := &Runtime{Engine: engine, Quotas: cfg.Quotas, Registry: packs.New(packs.Config{
		Engine: engine, Store: cfg.Store, Programs: engine.Programs(), Clock: cfg.Clock, Options: cfg.Pack, Quotas: cfg.Quotas,
	})}
	h.Views = query.New(query.Config{
		Engine: engine, Store: cfg.Store, Past: engine.History(), Programs: engine.Programs(), Turns: engine.Turns(),
	})
	var errs [9]error
	h.TimeTravel, errs[0] = timetravel.New(timetravel.Config{
		Engine: engine, Store: cfg.Store, Past: engine.History(), Programs: engine.Programs(), Terms: engine.Terms(),
		Clock: cfg.Clock, Archive: cfg.Archive, PackLimits: cfg.Pack.Limits,
	})
	h.Blobs, errs[1] = blob.New(blob.Config{
		Engine: engine, Clock: cfg.Clock, IDs: cfg.IDs, Store: cfg.Blobs, MaxBytes: cfg.MaxBlobBytes, Grace: cfg.BlobGrace,
	})
	h.Subscriptions, errs[2] = subscription.New(subscription.Config{
		Engine: engine, Store: subscriptionsOf(cfg), Journal: cfg.Store, Clock: cfg.Clock, Quotas: cfg.Quotas, Retention: cfg.Ends,
	})
	h.Delegations, errs[3] = delegation.New(delegation.Config{
		Engine: engine, Store: cfg.Store, Past: engine.History(), Programs: engine.Programs(), Clock: cfg.Clock, Allow: cfg.Allowlist(),
	})
	h.Admission, errs[7] = ratelimit.New(ratelimit.Config{Engine: engine, Store: cfg.Store, Clock: cfg.Clock})
	h.Work, errs[4] = newWork(cfg, h)
	h.Waits = waiting.New(waiting.Config{Work: h.Work, Limits: h.Admission, Past: engine.History(), Clock: cfg.Clock})
	h.Watches, errs[5] = streams.New(streams.Config{
		Engine: engine, Store: cfg.Store, Past: engine.History(), Programs: engine.Programs(), Readers: h.Subscriptions, Clock: cfg.Clock,
		Live: h.Work, TailBytes: cfg.TailBytes, Bytes: cfg.WatchBytes, Heartbeat: cfg.Heartbeat,
	})
	h.Retain, errs[6] = retention.New(retention.Config{
		Engine: engine, Clock: cfg.Clock, Store: deletionsOf(cfg), Runs: cfg.Store, Archive: cfg.Archive, Policy: cfg.Retention, NotifiesAgents: cfg.NotifiesAgents,
		Also:    func(ctx context.Context) error { return h.Subscriptions.Forget(ctx) },
		Deleted: h.forget,
	})
	h.Schedules, errs[8] = schedule.New(schedule.Config{
		Engine: engine, Clock: cfg.Clock, Store: cfg.ScheduleStore, Used: cfg.Store, OnResult: cfg.OnScheduleResult, Ready: cfg.Starts,
	})
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	engine.Attach(runtime.Hooks{
		OnCommitLocked: []runtime.Observer{h.Work, h.Admission}, OnCommit: []runtime.Observer{h.Watches},
		OnVolatileChange: []func(runtime.RunKey){h.NotifyChanged}, Served: []func(runtime.RunKey) bool{h.Work.Serves}, Background: []func(context.Context){h.Work.Run, h.Admission.Run},
	})
	return h, nil
}

// IsTurnAssigned reports whether an executor has received the open turn of a state. It implements a2a.Engine, as WaitingFor does.
func (h *Runtime) IsTurnAssigned(s *machine.State) bool { return h.Work.IsTurnAssigned(s) }

// WaitingFor returns what a run waits for now. g is the graph of its pack.
func (h *Runtime) WaitingFor(ctx context.Context, s *machine.State, g *machine.Graph) *waiting.Reason {
	return h.Waits.ReasonFor(ctx, s, g)
}

// forget removes a run that was deleted or erased from all caches.
func (h *Runtime) forget(key runtime.RunKey) {
	h.Engine.History().Forget(key)
	h.Watches.Forget(key)
	h.Work.Forget(key)
}

// Close drains the engine without a time limit, then ends all watches.
func (h *Runtime) Close() error {
	err := h.Engine.Close()
	h.Watches.End()
	return err
}

// deletionsOf returns the store that deletes runs. It returns nil if runs are not deleted.
func deletionsOf(cfg Config) retention.Store {
	if cfg.Deletions != nil {
		return cfg.Deletions
	}
	deletes, _ := cfg.Store.(retention.Store)
	return deletes
}

// subscriptionsOf returns the store of the subscriptions. It returns nil if there is none.
func subscriptionsOf(cfg Config) subscription.Store {
	if cfg.Subscriptions != nil {
		return cfg.Subscriptions
	}
	kept, _ := cfg.Store.(subscription.Store)
	return kept
}

func newWork(cfg Config, h *Runtime) (*dispatch.Dispatcher, error) {
	conf := cfg.Work
	conf.Engine, conf.Store, conf.Quotas = h.Engine, cfg.Store, cfg.Quotas
	conf.Turns, conf.Past, conf.Packs = h.Turns(), h.Engine.History(), h.Programs()
	conf.Clock, conf.IDs, conf.Limits, conf.Allow = cfg.Clock, cfg.IDs, h.Admission, cfg.Allowlist()
	conf.OnVolatileChange = func(key runtime.RunKey) { h.NotifyChanged(key) } // h.Watches, which has the method, is created later
	return dispatch.New(conf)
}
