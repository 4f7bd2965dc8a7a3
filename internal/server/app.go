package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/audit"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/mcp"
	"github.com/pawl-dev/pawl/internal/model"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/telemetry"
	"github.com/pawl-dev/pawl/internal/ui"
)

// options are the settings of an app.
type options struct {
	config config.Config
	rights grpcapi.Rights
	clock  runtime.Clock
	log    *slog.Logger
	// models are the models that the sidecar itself calls.
	models *model.Table
	// mcp are the clients of the MCP servers, by name. They connect when they are first used.
	mcp map[string]*mcp.Client
	// audit is the audit log. It is nil if there is none. The app closes it.
	audit *audit.Log
	// servesNamespace reports whether the partition contains a namespace. If it is nil, the store is not divided
	// and contains all namespaces.
	servesNamespace func(namespace string) bool
}

// app is a running sidecar: the server and all parts that the server needs.
type app struct {
	opts      options
	server    *grpcapi.Server
	observers *observers
	// partitions are the partitions that this sidecar has open. There are none while other sidecars own
	// all partitions.
	partitions partitions
	files      atomic.Pointer[files]
	// reading protects the reloadable files. It is locked while they are read again and applied to the
	// open partitions. The opening of a partition locks it for reading, so that the partition gets the
	// newest files.
	reading sync.RWMutex
	// cluster is nil if this sidecar does not share its store.
	cluster *clusterMember
	// ownSecret is the secret with which the sidecar authenticates to itself. It is "" if the sidecar
	// executes neither turns nor tools.
	ownSecret string
	executors *executors
	// serveErrors receives the error of the server.
	serveErrors chan error
}

// open builds a sidecar and binds its addresses. It does not serve yet.
func open(ctx context.Context, opts options) (a *app, err error) {
	if a, err = newApp(opts); err != nil {
		return nil, err
	}
	if err = a.build(ctx); err != nil {
		for _, t := range a.partitions.all() {
			err = errors.Join(err, t.drain(context.Background()), t.close())
		}
		if a.cluster != nil {
			err = errors.Join(err, a.cluster.stop(context.Background()))
		}
		return nil, errors.Join(err, a.observers.send(), closeAudit(a.opts.audit))
	}
	return a, nil
}

// newApp creates the parts that every sidecar has, even if other sidecars own all partitions of its
// store.
func newApp(opts options) (*app, error) {
	files, err := readFiles(opts.config)
	if err != nil {
		return nil, err
	}
	opts.models = model.NewTable(files.models, opts.config.Bindings())
	if err := checkMCPFiles(opts.config); err != nil {
		return nil, err
	}
	if opts.audit, err = openAudit(opts.config); err != nil {
		return nil, err
	}
	a := &app{ownSecret: executing(opts.config), serveErrors: make(chan error, 1)}
	opts.log = slog.New(telemetry.WithRuns(opts.log.Handler(), a.runContext))
	opts.mcp = mcpClients(opts.config, opts.log)
	a.opts = opts
	a.files.Store(files)
	if a.observers, err = newObservers(opts); err != nil {
		return nil, errors.Join(err, closeAudit(opts.audit))
	}
	return a, nil
}

// runContext returns the namespace and the trace id of a run for log lines. Both are "" if no open partition has the run.
func (a *app) runContext(ctx context.Context, run string) telemetry.RunContext {
	for _, t := range a.partitions.all() {
		if of := t.runContext(ctx, run); of.Namespace != "" {
			return of
		}
	}
	return telemetry.RunContext{}
}

// build builds the server. Without a cluster it opens the store first. In a cluster it builds the
// router, which sends calls to the owners of the partitions.
func (a *app) build(ctx context.Context) error {
	if a.opts.config.PeerListen != "" {
		return a.buildShared(ctx)
	}
	storage, alone, err := a.opts.storage()
	if err != nil {
		return err
	}
	t, err := openPartition(a.opts, a.files.Load(), storage, a.observers)
	if err != nil {
		return err
	}
	a.partitions.put(0, t)
	if err := alone.checkUnpartitioned(ctx); err != nil {
		return err
	}
	serving := a.serverConfig()
	serving.Runtime, serving.Failed = t.runtime, t.runtime.Failed()
	serving.Plugin = a2aPlugin[*grpcapi.Server](t)
	serving.Deliveries, serving.Store = t.box, &storeAdmin{store: t.store, limited: true}
	if a.server, err = grpcapi.New(serving); err != nil {
		return err
	}
	t.records.services = a.server.Own()
	a.observeServer()
	return nil
}

// buildShared joins the cluster and builds the server with the router, which sends calls to the owners
// of the partitions.
func (a *app) buildShared(ctx context.Context) (err error) {
	if err = a.share(ctx); err != nil {
		return err
	}
	serving := a.serverConfig()
	serving.Router, serving.Spaces, serving.Quotas = a.cluster.router, a.cluster.spaces, a.cluster.quotas
	serving.Plugin = routedA2APlugin(a.opts)
	if a.server, err = grpcapi.New(serving); err != nil {
		return err
	}
	a.observeServer()
	return nil
}

// observeServer adds the readiness of the server and the expiry of its certificate to the metrics.
func (a *app) observeServer() {
	a.observers.metrics.Readiness(a.server.Readiness)
	if a.opts.config.TLSCert != "" {
		a.observers.metrics.Certificate(a.server.CertificateExpiry)
	}
}

// storage returns the options with which the store is opened. If the store is in a database, alone
// describes this database and is filled when the store is opened. If the store is in a directory, alone
// is nil.
func (o options) storage() (store.Options, *standaloneStore, error) {
	if !o.config.Store.IsZero() {
		return databaseOf(o.config).openStandalone(o.config, o.log)
	}
	key, err := readKey(o.config.EncryptionKeyFile)
	return store.Options{Dir: o.config.Data, EncryptionKey: key, DataKeyAge: o.config.DataKeyAge, Logger: o.log, UsageLabels: o.config.UsageLabels}, nil, err
}

// numbered returns the numbers of the configured namespaces. The store keeps other namespaces, but the
// sidecar does not serve them.
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
			opts.log.Warn("namespace not configured, its data is kept but not served", "namespace", name)
		}
	}
	return served, nil
}

// runtimeConfig returns the configuration of the runtime of one partition for the sidecar's settings.
func runtimeConfig(opts options, s *store.Store) services.Config {
	limits := opts.config.Limits
	return services.Config{
		Config: engineConfig(opts, s),
		Work: dispatch.Config{
			Lease:          opts.config.Lease,
			StepGrace:      opts.config.StepGrace,
			RestartGrace:   opts.config.RestartGrace,
			SidecarTool:    mcpTool(opts.config),
			MaxWorkers:     limits.Workers,
			MaxWorkerTurns: limits.WorkerTurns,
			MaxWorkerSteps: limits.WorkerSteps,

			MaxMessageBytes: int(limits.MessageBytes),
		},
		WatchBytes: int64(limits.WatchBytes), Archive: s, Subscriptions: s, Deletions: s, Blobs: s, MaxBlobBytes: int64(opts.config.Limits.BlobBytes), BlobGrace: opts.config.BlobGrace,
		NotifiesAgents: opts.config.A2A,
	}
}

// engineConfig returns the configuration of the engine for the sidecar's settings.
func engineConfig(opts options, s *store.Store) runtime.Config {
	limits := opts.config.Limits
	return runtime.Config{
		Store: s,
		Clock: opts.clock,
		IDs:   runtime.NewSystemIDs(),
		Limits: machine.Limits{
			MaxTransitions:      limits.MaxTransitions,
			MaxArtifactBytes:    int64(limits.ArtifactBytes),
			MaxRunArtifactBytes: int64(limits.RunArtifactBytes),
			MaxMessageBytes:     int64(limits.ConversationBytes),
			MaxQueuedInputs:     limits.QueuedInputs,
		},
		AllowTools:       opts.config.AllowTools,
		DefaultWallTime:  opts.config.WallTime,
		MaxWallTime:      opts.config.MaxWallTime,
		Pack:             packOptions(opts.config),
		QueueLimit:       limits.RunQueue,
		CacheBytes:       int64(limits.CacheBytes),
		MaxVariableBytes: int(limits.VariablesBytes),
		MaxLabels:        limits.Labels,
		MaxRunsInFlight:  limits.RunsInFlight,
		MaxInputs:        limits.Inputs,
	}
}

func packOptions(c config.Config) pack.Options {
	return pack.Options{
		Limits: pack.Limits{Bytes: int(c.Limits.PackBytes)}, Strict: c.Strict, RequireBounded: c.RequireBounded,
		Providers: slices.Sorted(maps.Keys(c.Bindings())),
	}
}

// serverConfig returns the configuration of the server.
func (a *app) serverConfig() grpcapi.Config {
	opts, c := a.opts, a.opts.config
	return grpcapi.Config{
		Log:               opts.log,
		Listen:            c.Listen,
		Socket:            c.Socket,
		HTTP:              c.HTTP,
		HTTPHosts:         c.HTTPHosts,
		Metrics:           c.Metrics,
		MetricsPage:       a.observers.page(),
		HTTPOrigins:       c.HTTPOrigins,
		Page:              ui.Handler(),
		PagePath:          ui.Path,
		MCP:               opts.mcpHandler(),
		InsecureBind:      c.InsecureBind,
		TLSCert:           c.TLSCert,
		TLSKey:            c.TLSKey,
		TLSClientCA:       c.TLSClientCA,
		Certificates:      opts.rights.Certificates,
		Tokens:            opts.rights.Tokens,
		Issuers:           opts.rights.Issuers,
		Counts:            a.observers.metrics,
		Own:               a.ownSecret,
		Links:             grpcapi.LinkConfig{URL: c.LinkURL, Expiry: c.LinkExpiry, Now: opts.clock.Now},
		LinkKeys:          opts.rights.LinkKeys,
		Audit:             opts.audit,
		MaxMessageBytes:   int(c.Limits.MessageBytes),
		RequestsPerSecond: float64(c.Limits.RequestsPerSecond),
		Channelz:          c.Channelz,
		MaxStreams:        c.Limits.Streams,
	}
}

// start starts the server and the executors. It also starts the background work of the partition or, in
// a cluster, the node.
func (a *app) start() error {
	if a.cluster == nil {
		a.partitions.single().start()
	} else {
		a.cluster.start(a.server)
	}
	go func() { a.serveErrors <- a.server.Serve() }()
	return a.execute()
}

// stop drains and closes the parts in order. First the executors end. Then the server stops accepting
// calls, ends streams and waits for running calls. Then the runtime answers the calls that it has
// accepted. Then the store syncs and closes. ctx limits the steps of the server and the runtime. A node
// of a cluster has another order, see endShared.
func (a *app) stop(ctx context.Context) error {
	end := a.end
	if a.cluster != nil {
		end = a.endShared
	}
	return errors.Join(end(ctx), wrap("audit", closeAudit(a.opts.audit)))
}

// end drains and closes a sidecar that is not a node of a cluster.
func (a *app) end(ctx context.Context) error {
	a.executors.end()
	errs := []error{wrap("server", a.server.Shutdown(ctx))}
	t := a.partitions.single()
	errs = append(errs, t.drain(ctx), <-a.serveErrors, a.observers.send())
	return errors.Join(append(errs, t.close())...)
}

// endShared drains and closes a node of a cluster. The node first hands over its partitions, and
// forwards calls until this is done. When ctx ends, it closes the partitions that it still has.
func (a *app) endShared(ctx context.Context) error {
	errs := []error{a.cluster.drain(ctx)}
	a.executors.end()
	a.cluster.router.Drain()
	errs = append(errs, wrap("server", a.server.Shutdown(ctx)), <-a.serveErrors, a.observers.send())
	return errors.Join(append(errs, a.cluster.stop(ctx))...)
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("close %s: %w", what, err)
	}
	return nil
}
