package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/telemetry"
)

// observers are what watches the sidecar from outside: the log of runs, metrics and
// traces. The latter two are nil while they are off, and then cost nothing.
type observers struct {
	log      *telemetry.RunLog
	metrics  *telemetry.Metrics
	tracer   *telemetry.Tracer
	export   *telemetry.MetricExport
	listener net.Listener
	server   *http.Server
	loops    sync.WaitGroup
	halt     context.CancelFunc
}

// openObservers binds the listener of the metrics.
func openObservers(opts options) (*observers, error) {
	o := &observers{log: telemetry.NewRunLog(opts.log)}
	addr := opts.config.Metrics
	if addr == "" && opts.config.OTLPEndpoint == "" {
		return o, nil
	}
	o.metrics = telemetry.NewMetrics()
	if addr == "" {
		return o, nil
	}
	var err error
	if o.listener, err = new(net.ListenConfig).Listen(context.Background(), "tcp", addr); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", o.metrics.Handler())
	o.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	return o, nil
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
		Position: filepath.Join(opts.config.Data, "traces.cursor"),
	})
	if err != nil {
		return err
	}
	o.export, err = telemetry.ExportMetrics(context.Background(), opts.config.OTLPEndpoint, o.metrics, opts.log)
	return err
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

// start serves and exports until stop.
func (o *observers) start(engine *runtime.Engine, s *store.Store) {
	var ctx context.Context
	ctx, o.halt = context.WithCancel(context.Background())
	o.loops.Go(func() { o.log.Run(ctx) })
	if o.metrics != nil {
		o.metrics.Watch(engine, s.Sizes)
		o.loops.Go(func() {
			o.metrics.Run(ctx, func(ctx context.Context, s *machine.State) (*machine.Graph, error) { return engine.Graph(ctx, "", s) })
		})
	}
	if o.server != nil {
		o.loops.Go(func() { _ = o.server.Serve(o.listener) })
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
	if o.server != nil {
		err = errors.Join(err, o.server.Close(), ignoreClosed(o.listener.Close()))
	}
	if o.halt != nil {
		o.halt()
	}
	o.loops.Wait()
	return wrap("telemetry", err)
}

// lastExport bounds the metrics' last way to a collector that may be gone.
const lastExport = 5 * time.Second

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// addr is where metrics are served; "" = nowhere.
func (o *observers) addr() string {
	if o.listener == nil {
		return ""
	}
	return o.listener.Addr().String()
}

// tracesIn finds the traces of runs for the log.
func tracesIn(s *store.Store) func(ctx context.Context, run string) string {
	return func(ctx context.Context, run string) string {
		state, err := s.Head(ctx, 0, run)
		if err != nil {
			return ""
		}
		return telemetry.TraceOf(state)
	}
}
