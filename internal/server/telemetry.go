package server

import (
	"context"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
	"github.com/pawl-dev/pawl/internal/runtime/ratelimit"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/telemetry"
)

// observers observe the whole sidecar until it ends: the log of runs, and the metrics. metrics and
// export are nil if they are not configured.
type observers struct {
	log     *telemetry.RunLog
	metrics *telemetry.Metrics
	export  *telemetry.MetricExport
}

// newObservers makes the log of runs and the configured metrics.
func newObservers(opts options) (*observers, error) {
	o := &observers{log: telemetry.NewRunLog(opts.log)}
	if opts.config.Metrics != "" || opts.config.OTLPEndpoint != "" {
		o.metrics = telemetry.NewMetrics()
	}
	var err error
	if opts.config.OTLPEndpoint != "" {
		o.export, err = telemetry.ExportMetrics(context.Background(), opts.config.OTLPEndpoint, o.metrics, opts.log)
	}
	return o, err
}

// send exports the metrics that are not exported yet. It must be called before the store is closed.
func (o *observers) send() error {
	if o.export == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), finalExportTimeout)
	defer cancel()
	return wrap("telemetry", o.export.Stop(ctx))
}

// finalExportTimeout limits the last export of metrics and traces at the end of the sidecar, because
// the collector may be unavailable. handoverExportTimeout limits the last export of a partition's
// traces, because the next owner waits for the partition.
const (
	finalExportTimeout    = 5 * time.Second
	handoverExportTimeout = 200 * time.Millisecond
)

// exportTimeout limits the export of the last traces when a partition is closed.
func exportTimeout(c config.Config) time.Duration {
	if c.PeerListen != "" {
		return handoverExportTimeout
	}
	return finalExportTimeout
}

// page returns the HTTP handler of the metrics. It returns nil if the metrics are off.
func (o *observers) page() http.Handler {
	if o.metrics == nil {
		return nil
	}
	return o.metrics.Handler()
}

// hooks returns functions that measure the time of the store's synced transactions. The committer calls the
// first function for one transaction, and the second one if it was stored, before the next transaction begins.
func (o *observers) hooks() store.Hooks {
	if o.metrics == nil {
		return store.Hooks{}
	}
	var began time.Time
	return store.Hooks{
		BeforeCommit: func(store.Group) error { began = time.Now(); return nil },
		AfterCommit: func(g store.Group) error {
			o.metrics.Synced(time.Since(began), g.Batches)
			return nil
		},
	}
}

// observation connects the observers to one open store. The metrics contain figures of the store, and
// the traces of its runs are exported.
type observation struct {
	*observers
	// graphs returns the workflow graphs of the observed runtime's runs.
	graphs telemetry.Graphs
	// tracer is nil while traces are off.
	tracer *telemetry.Tracer
	loops  sync.WaitGroup
	cancel context.CancelFunc
}

// wrapStore connects the observers to a store. If metrics are on, it wraps the store in conf, so that the time
// of each commit is measured. If an OTLP endpoint is configured, it also creates the tracer.
func (o *observers) wrapStore(opts options, s *store.Store, conf *runtime.Config) (w *observation, err error) {
	w = &observation{observers: o, cancel: func() {}}
	if o.metrics != nil {
		conf.Store = telemetry.TimedStore{Store: s, Metrics: o.metrics}
		if opts.config.Store.IsZero() {
			o.metrics.Disk(s.Space)
		}
	}
	if opts.config.OTLPEndpoint == "" {
		return w, nil
	}
	conf.TraceShare = opts.config.TraceSample
	w.tracer, err = telemetry.NewTracer(context.Background(), telemetry.TracerConfig{
		Journal: s, Endpoint: opts.config.OTLPEndpoint, Log: opts.log, Counts: o.metrics,
		Position: position(opts.config.Data), ShutdownTimeout: exportTimeout(opts.config),
	})
	return w, err
}

// position returns the path of the file that stores up to which journal record traces were exported.
// Without a data directory it returns "", and the position is not stored.
func position(dir string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "traces.cursor")
}

// commits returns the observers of the runtime's commits.
func (w *observation) commits() []runtime.Observer {
	all := []runtime.Observer{w.log}
	if w.metrics != nil {
		all = append(all, runtime.ObserverFunc(func(c *runtime.Commit) { w.metrics.Observe(c.Batch, w.graphs) }))
	}
	if w.tracer != nil {
		all = append(all, w.tracer)
	}
	return all
}

// workerFailed logs and counts a turn or step that a worker failed or lost.
func (w *observation) workerFailed(namespace string, f *dispatch.Failure) {
	w.log.WorkerFailed(namespace, f)
	w.metrics.WorkerFailed(f)
}

// figures is the runtime as metrics read it.
type figures struct{ *services.Runtime }

// Work implements [telemetry.Source].
func (f figures) Work(ctx context.Context) dispatch.Stats {
	var numbers []uint32
	for _, name := range f.Namespaces() {
		if number, err := f.Namespace(name); err == nil {
			numbers = append(numbers, number)
		}
	}
	return f.Runtime.Work.Stats(ctx, numbers)
}

// Outbox implements [telemetry.Source].
func (f figures) Outbox(ctx context.Context, kind machine.OutboxKind, limit int) ([]machine.OutboxRow, error) {
	return f.Delegations.Outbox(ctx, kind, limit)
}

// SubscriptionLags implements [telemetry.Source].
func (f figures) SubscriptionLags(ctx context.Context) (map[machine.SubscriptionKind]uint64, error) {
	return f.Subscriptions.Lags(ctx)
}

// Quotas implements [telemetry.Source].
func (f figures) Quotas() []quota.Figure { return f.Runtime.Quotas.Figures() }

// Limits implements [telemetry.Source].
func (f figures) Limits() []ratelimit.Total { return f.Admission.Totals() }

// start begins to write the log of runs, to collect metrics and to export traces. It ends when stop is called.
func (w *observation) start(engine *services.Runtime, s *store.Store) {
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(context.Background())
	w.loops.Go(func() { w.log.Run(ctx) })
	if w.metrics != nil {
		unwatch := w.metrics.Watch(figures{engine}, s)
		w.loops.Go(func() {
			defer unwatch()
			w.metrics.Run(ctx)
		})
	}
	if w.tracer != nil {
		w.loops.Go(func() { _ = w.tracer.Run(ctx) })
	}
}

// stop exports the traces that are not exported yet and ends the observation. It must be called before
// the store is closed.
func (w *observation) stop() {
	w.cancel()
	w.loops.Wait()
	if w.tracer != nil {
		_ = w.tracer.Close(context.Background()) // after Run, Close has nothing left to do
	}
}
