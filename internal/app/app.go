package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"

	"github.com/pawl-dev/pawl/internal/audit"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/deliver"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/internal/model"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/account"
	"github.com/pawl-dev/pawl/internal/runtime/allowance"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/schedule"
	"github.com/pawl-dev/pawl/internal/runtime/tariff"
	"github.com/pawl-dev/pawl/internal/runtime/work"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/telemetry"
	"github.com/pawl-dev/pawl/internal/ui"
)

// options are what an app is built from.
type options struct {
	config config.Config
	rights grpcapi.Rights
	clock  runtime.Clock
	log    *slog.Logger
	// models are what the sidecar asks itself.
	models *model.Table
	// schedules are those of the file at the start.
	schedules []*schedule.Schedule
	// audit is nil where there is none; the app closes it.
	audit *audit.Log
}

// app is a running sidecar: store, engine and server.
type app struct {
	opts   options
	store  *store.Store
	engine *house.House
	server *grpcapi.Server
	// sends is nil while A2A is off: delegations then wait.
	sends     *delegations
	box       *deliver.Outbox
	observers *observers
	// prices are the operator's, of models.
	prices *tariff.Table
	// accounts are the operator's, over runs.
	accounts *account.Ledger
	// own proves that the sidecar is the sidecar, where it executes turns itself.
	own       string
	executors *executors
	// ended gets the errors of the engine's and the server's loops.
	ended chan error
	// loops is how many of them run; halt ends the engine's.
	loops int
	halt  context.CancelFunc
}

// open builds everything and binds the addresses; nothing is served yet.
func open(opts options) (*app, error) {
	storage, err := opts.storage()
	if err != nil {
		return nil, err
	}
	if opts.audit, err = openAudit(opts.config); err != nil {
		return nil, err
	}
	watching := newObservers(opts)
	storage.Hooks = watching.hooks()
	s, err := store.Open(storage)
	if refused, ok := errors.AsType[*DatabaseError](err); ok {
		err = refused
	}
	if err != nil {
		return nil, errors.Join(err, watching.stop(), closeAudit(opts.audit))
	}
	a, err := build(opts, s, watching)
	if err != nil {
		return nil, errors.Join(err, watching.stop(), s.Close(), closeAudit(opts.audit))
	}
	return a, nil
}

// storage says where the store is.
func (o options) storage() (store.Options, error) {
	if !o.config.Store.IsZero() {
		return databaseOf(o.config).served(o.config, o.log)
	}
	key, err := readKey(o.config.EncryptionKeyFile)
	return store.Options{Dir: o.config.Data, EncryptionKey: key, DataKeyAge: o.config.DataKeyAge, Logger: o.log}, err
}

// build makes everything over an open store, which stays its caller's on an error.
func build(opts options, s *store.Store, watching *observers) (a *app, err error) {
	namespaces, err := numbered(opts, s)
	if err != nil {
		return nil, err
	}
	opts.log = slog.New(telemetry.WithTraces(opts.log.Handler(), tracesIn(s, namespaces)))
	models, err := readModels(opts.config, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	opts.models = model.NewTable(models)
	a = &app{opts: opts, store: s, observers: watching, own: executing(opts.config), ended: make(chan error, 6)}
	conf := houseConfig(opts, s)
	conf.Models = opts.models.Names
	conf.Namespaces, conf.Quotas = namespaces, allowance.New(namespaces)
	quotas, err := readQuotas(opts.config, conf.Namespaces.Names())
	if err != nil {
		return nil, err
	}
	conf.Quotas.Replace(quotas)
	if err = errors.Join(a.reckon(&conf), a.scheduling(&conf, watching.metrics)); err != nil {
		return nil, err
	}
	if conf.Retention, err = retention(opts, watching.metrics); err != nil {
		return nil, err
	}
	conf.Ends = endsOf(opts, conf.Namespaces.Name, s, watching.metrics)
	if err = watching.attach(opts, s, &conf.Config); err != nil {
		return nil, err
	}
	if a.engine, err = newHouse(opts.config, conf); err != nil {
		return nil, err
	}
	a.engine.Attach(runtime.Hooks{Published: []runtime.Follower{runtime.FollowerFunc(func(c *runtime.Commit) {
		a.box.Observe(c.Batch)
		watching.observe(c.Batch)
	})}})
	if opts.config.A2A {
		if a.sends, err = newDelegations(opts, a.engine); err != nil {
			return nil, errors.Join(err, a.engine.Close())
		}
	}
	records := &recordFeed{}
	if a.box, err = newOutbox(opts, a.engine, a.sends, records, watching.metrics); err != nil {
		return nil, errors.Join(err, a.engine.Close())
	}
	serving := serverConfig(opts, a.engine, a.box, watching.page(), watching.metrics)
	serving.Own = a.own
	serving.Store = &depotOf{store: s, paced: true}
	if a.server, err = grpcapi.New(serving); err != nil {
		return nil, errors.Join(err, a.engine.Close())
	}
	records.server = a.server
	return a, nil
}

// numbered are the numbers of the configured namespaces. Those that the store has
// besides are kept and not served.
func numbered(opts options, s *store.Store) (map[string]uint32, error) {
	names := slices.DeleteFunc(slices.Clone(opts.config.Namespaces), func(name string) bool { return name == runtime.DefaultNamespace })
	stored, err := s.NumberNamespaces(context.Background(), names)
	if err != nil {
		return nil, err
	}
	served := map[string]uint32{runtime.DefaultNamespace: 0}
	for _, name := range names {
		served[name] = stored[name]
	}
	for name := range stored {
		if _, ok := served[name]; !ok {
			opts.log.Warn("a namespace has data and is not configured: it is kept and not served", "namespace", name)
		}
	}
	return served, nil
}

func houseConfig(opts options, s *store.Store) house.Config {
	limits := opts.config.Limits
	return house.Config{
		Config: engineConfig(opts, s),
		Work: work.Config{
			Lease:          opts.config.Lease,
			StepGrace:      opts.config.StepGrace,
			RestartGrace:   opts.config.RestartGrace,
			MaxWorkers:     limits.Workers,
			MaxWorkerTurns: limits.WorkerTurns,
			MaxWorkerSteps: limits.WorkerSteps,
		},
		WatchBytes: int64(limits.WatchBytes), Archive: s, Subscriptions: s, Deletions: s, Blobs: s, MaxBlobBytes: int64(opts.config.Limits.BlobBytes), BlobGrace: opts.config.BlobGrace,
		Telling: opts.config.A2A,
	}
}

func engineConfig(opts options, s *store.Store) runtime.Config {
	limits := opts.config.Limits
	return runtime.Config{
		Store: s,
		Clock: opts.clock,
		IDs:   house.NewSystemIDs(),
		Limits: machine.Limits{
			MaxTransitions:      limits.MaxTransitions,
			MaxArtifactBytes:    int64(limits.ArtifactBytes),
			MaxRunArtifactBytes: int64(limits.RunArtifactBytes),
			MaxMessageBytes:     int64(limits.ConversationBytes),
			MaxQueuedInputs:     limits.QueuedInputs,
		},
		AllowTools:      opts.config.AllowTools,
		DefaultWallTime: opts.config.WallTime,
		MaxWallTime:     opts.config.MaxWallTime,
		Pack: pack.Options{
			Limits: pack.Limits{Bytes: int(limits.PackBytes)}, Strict: opts.config.Strict, RequireBounded: opts.config.RequireBounded,
		},
		QueueLimit:       limits.RunQueue,
		CacheBytes:       int64(limits.CacheBytes),
		MaxVariableBytes: int(limits.VariablesBytes),
		MaxLabels:        limits.Labels,
		MaxRunsInFlight:  limits.RunsInFlight,
		MaxInputs:        limits.Inputs,
	}
}

func serverConfig(opts options, rooms *house.House, box *deliver.Outbox, metrics http.Handler, counts grpcapi.Counts) grpcapi.Config {
	c := opts.config
	return grpcapi.Config{
		House:             rooms,
		Failed:            rooms.Failed(),
		Log:               opts.log,
		Listen:            c.Listen,
		Socket:            c.Socket,
		HTTP:              c.HTTP,
		HTTPHosts:         c.HTTPHosts,
		Metrics:           c.Metrics,
		MetricsPage:       metrics,
		HTTPOrigins:       c.HTTPOrigins,
		Page:              ui.Handler(),
		PagePath:          ui.Path,
		InsecureBind:      c.InsecureBind,
		TLSCert:           c.TLSCert,
		TLSKey:            c.TLSKey,
		TLSClientCA:       c.TLSClientCA,
		Certificates:      opts.rights.Certificates,
		Tokens:            opts.rights.Tokens,
		Issuers:           opts.rights.Issuers,
		Guest:             agentsGuest(opts, rooms, box),
		Deliveries:        box,
		Counts:            counts,
		Audit:             opts.audit,
		MaxMessageBytes:   int(c.Limits.MessageBytes),
		RequestsPerSecond: float64(c.Limits.RequestsPerSecond),
		Channelz:          c.Channelz,
		MaxStreams:        c.Limits.Streams,
	}
}

// start runs the engine's timers, the server and the executors.
func (a *app) start() error {
	var ctx context.Context
	ctx, a.halt = context.WithCancel(context.Background())
	a.loops = 6
	a.observers.start(a.engine, a.store)
	go func() { a.ended <- a.engine.Run(ctx) }()
	go func() { a.ended <- a.server.Serve() }()
	go func() { a.ended <- a.send(ctx) }()
	go func() { a.ended <- a.engine.Blobs.Run(ctx) }()
	go func() { a.ended <- a.engine.Retain.Run(ctx) }()
	go func() { a.ended <- a.engine.Schedules.Run(ctx) }()
	return a.execute()
}

// stop drains and closes in this order: the server takes no new calls, ends
// streams and lets calls under way finish; the engine answers what it has
// accepted; the store syncs and closes. The context bounds the first two.
func (a *app) stop(ctx context.Context) error {
	a.executors.end()
	errs := []error{wrap("server", a.server.Shutdown(ctx)), a.stopEngine(ctx)}
	for ; a.loops > 0; a.loops-- {
		errs = append(errs, <-a.ended)
	}
	return errors.Join(append(errs, a.observers.stop(), wrap("store", a.store.Close()), wrap("audit", closeAudit(a.opts.audit)))...)
}

// stopEngine ends the engine's loop whether or not it could drain in time.
func (a *app) stopEngine(ctx context.Context) error {
	defer a.halt()
	if err := a.engine.Drain(ctx); err != nil {
		return wrap("engine", err)
	}
	return wrap("engine", a.engine.Close())
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("close %s: %w", what, err)
	}
	return nil
}
