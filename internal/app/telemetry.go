package app

import (
	"context"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/admission"
	"github.com/pawl-dev/pawl/internal/runtime/allowance"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/work"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/telemetry"
)

// observers are what watches the sidecar from outside: the log of runs, metrics and
// traces. The latter two are nil while they are off, and then cost nothing.
type observers struct {
	log     *telemetry.RunLog
	metrics *telemetry.Metrics
	tracer  *telemetry.Tracer
	export  *telemetry.MetricExport
	loops   sync.WaitGroup
	halt    context.CancelFunc
}

// newObservers makes what the configuration asks for.
func newObservers(opts options) *observers {
	o := &observers{log: telemetry.NewRunLog(opts.log)}
	if opts.config.Metrics != "" || opts.config.OTLPEndpoint != "" {
		o.metrics = telemetry.NewMetrics()
	}
	return o
}

// page serves the metrics; nil while they are off.
func (o *observers) page() http.Handler {
	if o.metrics == nil {
		return nil
	}
	return o.metrics.Handler()
}

// hooks time the store's synced transactions. The committer calls both, one group at
// a time.
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

// attach puts the observers between engine and store.
func (o *observers) attach(opts options, s *store.Store, conf *runtime.Config) (err error) {
	if o.metrics != nil {
		conf.Store = telemetry.Timed{Store: s, Metrics: o.metrics}
	}
	if opts.config.OTLPEndpoint == "" {
		return nil
	}
	conf.TraceShare = opts.config.TraceSample
	o.tracer, err = telemetry.NewTracer(context.Background(), telemetry.TracerConfig{
		Journal: s, Endpoint: opts.config.OTLPEndpoint, Log: opts.log, Counts: o.metrics,
		Position: position(opts.config.Data),
	})
	if err != nil {
		return err
	}
	o.export, err = telemetry.ExportMetrics(context.Background(), opts.config.OTLPEndpoint, o.metrics, opts.log)
	return err
}

// position is the file of the place in the journal; "": without a directory none is kept.
func position(dir string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "traces.cursor")
}

// observe tells of a commit.
func (o *observers) observe(b *machine.Batch) {
	o.log.Observe(b)
	if o.metrics != nil {
		o.metrics.Observe(b)
	}
	if o.tracer != nil {
		o.tracer.Observe(b)
	}
}

// figures is the house as metrics ask it.
type figures struct{ *house.House }

// Work implements [telemetry.Source].
func (f figures) Work() work.Stats { return f.House.Work.Stats() }

// Outbox implements [telemetry.Source].
func (f figures) Outbox(ctx context.Context, kind machine.OutboxKind, limit int) ([]machine.OutboxRow, error) {
	return f.Delegations.Outbox(ctx, kind, limit)
}

// Quotas implements [telemetry.Source].
func (f figures) Quotas() []allowance.Figure { return f.House.Quotas.Figures() }

// Limits implements [telemetry.Source].
func (f figures) Limits() []admission.Total { return f.Admission.Totals() }

// start counts and exports until stop.
func (o *observers) start(rooms *house.House, s *store.Store) {
	var ctx context.Context
	ctx, o.halt = context.WithCancel(context.Background())
	o.loops.Go(func() { o.log.Run(ctx) })
	if o.metrics != nil {
		o.metrics.Watch(figures{rooms}, s.Sizes)
		o.loops.Go(func() {
			o.metrics.Run(ctx, func(ctx context.Context, s *machine.State) (*machine.Graph, error) {
				return rooms.Graph(ctx, rooms.NamespaceName(s.Namespace), s)
			})
		})
	}
	if o.tracer != nil {
		o.loops.Go(func() { _ = o.tracer.Run(ctx) })
	}
}

// stop exports what is left and ends; the store is still open.
func (o *observers) stop() error {
	var err error
	if o.export != nil {
		ctx, cancel := context.WithTimeout(context.Background(), lastExport)
		err = o.export.Stop(ctx)
		cancel()
	}
	if o.halt != nil {
		o.halt()
	}
	o.loops.Wait()
	return wrap("telemetry", err)
}

// lastExport bounds the metrics' last way to a collector that may be gone.
const lastExport = 5 * time.Second

// tracesIn finds the traces of runs for the log.
func tracesIn(s *store.Store, namespaces map[string]uint32) func(ctx context.Context, run string) string {
	return func(ctx context.Context, run string) string {
		for _, ns := range namespaces {
			if state, err := s.Head(ctx, ns, run); err == nil {
				return telemetry.TraceOf(state)
			}
		}
		return ""
	}
}
