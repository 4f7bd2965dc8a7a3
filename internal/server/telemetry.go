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

// observers are the parts that observe the sidecar until it ends: the log of runs, and the metrics. If
// the metrics are off, they are nil and cause no work.
type observers struct {
	log     *telemetry.RunLog
	metrics *telemetry.Metrics
	export  *telemetry.MetricExport
}

// newObservers makes what the configuration asks for.
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

// send exports the metrics that are not exported yet. The store must still be open.
func (o *observers) send() error {
	if o.export == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), finalExportTimeout)
	defer cancel()
	return wrap("telemetry", o.export.Stop(ctx))
}

// finalExportTimeout limits the last export of metrics and traces, because the collector may be
// unavailable. handoverExportTimeout limits the last export of traces when the next owner waits for the
// store.
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

// hooks returns functions that measure the time of the store's synced transactions. The committer calls
// both functions for one group at a time.
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

// observation connects the observers to one store. The metrics read figures from the store, and the
// traces of the store's runs are exported.
type observation struct {
	*observers
	// graphs are those of the observed runtime.
	graphs telemetry.Graphs
	// tracer is nil while traces are off.
	tracer *telemetry.Tracer
	loops  sync.WaitGroup
	halt   context.CancelFunc
}

// over puts the observers between engine and store.
func (o *observers) over(opts options, s *store.Store, conf *runtime.Config) (w *observation, err error) {
	w = &observation{observers: o, halt: func() {}}
	if o.metrics != nil {
		conf.Store = telemetry.Timed{Store: s, Metrics: o.metrics}
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

// position returns the file that stores the position in the journal up to which traces are exported. It
// returns "" if there is no directory, because then no position is stored.
func position(dir string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "traces.cursor")
}

// observe tells of a commit.
func (w *observation) observe(b *machine.Batch) {
	w.log.Observe(b)
	if w.metrics != nil {
		w.metrics.Observe(b, w.graphs)
	}
	if w.tracer != nil {
		w.tracer.Observe(b)
	}
}

// figures is the runtime as metrics read it.
type figures struct{ *services.Runtime }

// Work implements [telemetry.Source].
func (f figures) Work() dispatch.Stats { return f.Runtime.Work.Stats() }

// Outbox implements [telemetry.Source].
func (f figures) Outbox(ctx context.Context, kind machine.OutboxKind, limit int) ([]machine.OutboxRow, error) {
	return f.Delegations.Outbox(ctx, kind, limit)
}

// Quotas implements [telemetry.Source].
func (f figures) Quotas() []quota.Figure { return f.Runtime.Quotas.Figures() }

// Limits implements [telemetry.Source].
func (f figures) Limits() []ratelimit.Total { return f.Admission.Totals() }

// start counts and exports until stop.
func (w *observation) start(engine *services.Runtime, s *store.Store) {
	var ctx context.Context
	ctx, w.halt = context.WithCancel(context.Background())
	w.loops.Go(func() { w.log.Run(ctx) })
	if w.metrics != nil {
		unwatch := w.metrics.Watch(figures{engine}, s.Sizes)
		w.loops.Go(func() {
			defer unwatch()
			w.metrics.Run(ctx)
		})
	}
	if w.tracer != nil {
		w.loops.Go(func() { _ = w.tracer.Run(ctx) })
	}
}

// stop exports the traces that are not exported yet and ends the observation. The store must still be
// open.
func (w *observation) stop() {
	w.halt()
	w.loops.Wait()
	if w.tracer != nil {
		_ = w.tracer.Close(context.Background()) // what it had to send it has sent
	}
}
