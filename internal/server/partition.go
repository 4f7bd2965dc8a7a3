package server

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/internal/delivery"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/budget"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/telemetry"
)

// partition is an open store, or one open partition of a store, with the runtime and all other parts
// that work on it.
type partition struct {
	opts    options
	files   *files
	store   *store.Store
	runtime *services.Runtime
	// sends finds the agents of delegations. It is nil while A2A is off. Delegations then stay in the
	// store.
	sends   *delegations
	box     *delivery.Outbox
	records *recordFeed
	watch   *observation
	// prices are the operator's prices of models.
	prices *budget.Prices
	// accounts are the operator's accounts.
	accounts *budget.Ledger
	// ended receives the results of the background loops. loops is the number of running loops. cancel
	// ends them.
	ended  chan error
	loops  int
	cancel context.CancelFunc
}

// openPartition opens the store and builds all parts that use it. The background loops of the partition
// begin with start.
func openPartition(opts options, files *files, storage store.Options, watching *observers) (*partition, error) {
	storage.Hooks = watching.hooks()
	s, err := store.Open(storage)
	if refused, ok := errors.AsType[*DatabaseError](err); ok {
		err = refused
	}
	if err != nil {
		return nil, err
	}
	t := &partition{opts: opts, files: files, store: s, records: &recordFeed{}, watch: &observation{cancel: func() {}}, ended: make(chan error, 5)}
	if err := t.build(watching); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// build builds the runtime of the partition and the parts that use it. If it returns an error, the
// caller must close the store.
func (t *partition) build(watching *observers) error {
	namespaces, err := numbered(t.opts, t.store)
	if err != nil {
		return err
	}
	conf, err := t.configure(namespaces, watching)
	if err != nil {
		return err
	}
	if t.watch, err = watching.wrapStore(t.opts, t.store, &conf.Config); err != nil {
		return err
	}
	conf.Work.OnFailure = func(f dispatch.Failure) { t.watch.workerFailed(conf.Namespaces.Name(f.Namespace), &f) }
	if t.runtime, err = services.New(conf); err != nil {
		return err
	}
	t.watch.graphs = func(ctx context.Context, s *machine.State) (*machine.Graph, error) {
		return t.runtime.Graph(ctx, t.runtime.NamespaceName(s.Namespace), s)
	}
	t.runtime.Admission.Replace(t.files.limits)
	if t.opts.config.A2A {
		if t.sends, err = newDelegations(t.opts, t.files.remotes, t.runtime); err != nil {
			return errors.Join(err, t.runtime.Close())
		}
	}
	if t.box, err = newOutbox(t.opts, t.runtime, t.sends, t.records, watching.metrics); err != nil {
		return errors.Join(err, t.runtime.Close())
	}
	t.runtime.Attach(runtime.Hooks{OnCommit: append([]runtime.Observer{t.box}, t.watch.commits()...)})
	return nil
}

// configure returns the configuration of the runtime with the contents of the operator's files.
func (t *partition) configure(namespaces map[string]uint32, watching *observers) (services.Config, error) {
	conf := runtimeConfig(t.opts, t.store)
	conf.Models, conf.Providers, conf.Local = t.opts.models.Names, t.opts.models.Providers(), t.local
	conf.Repeatable = t.opts.repeatable()
	conf.Namespaces, conf.Quotas = namespaces, quota.New(namespaces)
	conf.Quotas.Replace(t.files.quotas)
	t.scheduling(&conf, watching.metrics)
	err := t.loadAccounts(&conf)
	if err != nil {
		return conf, err
	}
	if conf.Retention, err = retentionPolicy(t.opts, watching.metrics); err != nil {
		return conf, err
	}
	conf.Ends = endsOf(t.opts, conf.Namespaces.Name, t.store, watching.metrics)
	return conf, nil
}

// start starts the background work of the partition: timers, deliveries, the removal of unused blobs,
// retention and schedules.
func (t *partition) start() {
	var ctx context.Context
	ctx, t.cancel = context.WithCancel(context.Background())
	t.watch.start(t.runtime, t.store)
	for _, run := range []func(context.Context) error{t.runtime.Run, t.send, t.runtime.Blobs.Run, t.runtime.Retain.Run, t.runtime.Schedules.Run} {
		t.loops++
		go func() { t.ended <- run(ctx) }()
	}
}

// drain answers the accepted calls and then ends the background loops. ctx limits only the wait for the
// calls.
func (t *partition) drain(ctx context.Context) error {
	errs := []error{t.stopRuntime(ctx)}
	for ; t.loops > 0; t.loops-- {
		errs = append(errs, <-t.ended)
	}
	return errors.Join(errs...)
}

func (t *partition) stopRuntime(ctx context.Context) error {
	if t.cancel != nil {
		defer t.cancel()
	}
	if err := t.runtime.Drain(ctx); err != nil {
		return wrap("engine", err)
	}
	return wrap("engine", t.runtime.Close())
}

// runContext returns the namespace and the trace of a run. Both are "" if the run is not in this partition.
func (t *partition) runContext(ctx context.Context, run string) telemetry.RunContext {
	for _, name := range t.runtime.Namespaces() {
		if ns, err := t.runtime.Namespace(name); err == nil {
			if state, err := t.store.Head(ctx, ns, run); err == nil {
				return telemetry.RunContext{Namespace: name, Trace: telemetry.TraceOf(state)}
			}
		}
	}
	return telemetry.RunContext{}
}

// close syncs and closes the store.
func (t *partition) close() error {
	t.watch.stop()
	return wrap("store", t.store.Close())
}
