package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/effects"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
	"github.com/pawl-dev/pawl/internal/runtime/render"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// Engine executes the inputs of all runs of one store, one input of a run at a time. The code that creates it attaches observers, calls
// Run, and then Drain, in this order. Safe for concurrent use.
type Engine struct {
	cfg      Config
	store    Store
	allow    policy.Allowlist
	terms    validate.Terms
	hooks    Hooks
	limiter  *inflightLimiter
	runTable *runTable
	programs *packcache.Cache
	timers   *timerShard
	runs     *quota.Runs
	// past reads earlier states and records of runs.
	past *history.Reader
	// effects finds the step that has a business key.
	effects *effects.Index
	// shown renders turns.
	shown *render.Renderer
}

// New returns an engine for an open store. It starts no goroutine. The engine accepts inputs
// immediately, but timers fire only while [Engine.Run] runs.
func New(cfg Config) (*Engine, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("runtime: configuration: %w", err)
	}
	cfg = cfg.withDefaults()
	e := &Engine{
		cfg: cfg, store: cfg.Store, allow: cfg.Allowlist(), limiter: newInflightLimiter(cfg.MaxInputs, cfg.Clock),
		runTable: newRunTable(cfg.QueueLimit, cfg.CacheBytes),
		programs: packcache.NewCache(cfg.Store, cfg.Pack),
		past:     history.New(cfg.Store),
		runs:     quota.NewRuns(cfg.Quotas, cfg.Store, cfg.MaxRunsInFlight),
	}
	e.shown = render.New(e.past, cfg.Clock)
	e.effects = effects.New(cfg.Store, e.past, e.programs)
	e.terms = validate.Terms{
		Limits: cfg.Limits, DefaultWallTime: cfg.DefaultWallTime, MaxWallTime: cfg.MaxWallTime,
		MaxVariableBytes: cfg.MaxVariableBytes, MaxLabels: cfg.MaxLabels, TraceShare: cfg.TraceShare, Models: cfg.Models,
	}
	cfg.Store.ReplayWith(e.replayTail)
	e.timers = newTimerShard(e)
	return e, nil
}

// Run fires due timers until ctx ends, the engine drains or the store fails. It returns nil, or an
// error that wraps [machine.ErrIndeterminate]. After this error the process must end. Only the next
// start can find out from the journal what was committed.
func (e *Engine) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var loops sync.WaitGroup
	loops.Go(func() { e.timers.run(ctx) })
	for _, run := range e.hooks.Background {
		loops.Go(func() { run(ctx) })
	}
	defer loops.Wait()
	defer stop()
	select {
	case <-e.store.Failed():
		e.limiter.Fail()
	case <-e.limiter.Failed():
	case <-e.limiter.Empty():
		return nil
	case <-ctx.Done():
		return nil
	}
	return fmt.Errorf("runtime: %w", machine.ErrIndeterminate)
}

// Drain makes the engine refuse new inputs (UNAVAILABLE DRAINING) and stops the timers. It returns when every accepted input has its
// answer, or when ctx ends. Reads are still served.
func (e *Engine) Drain(ctx context.Context) error {
	if err := e.limiter.Drain(ctx); err != nil {
		return fmt.Errorf("runtime: drain: %w", err)
	}
	return nil
}

// Close drains without a time limit. It does not close the store.
func (e *Engine) Close() error {
	return e.Drain(context.Background())
}

// Failed returns a channel that is closed when the outcome of a commit is unknown. After that, the
// engine refuses every input with UNAVAILABLE COMMIT_UNKNOWN, and the process should end.
func (e *Engine) Failed() <-chan struct{} { return e.limiter.Failed() }

// Health returns nil if the engine accepts inputs. Otherwise it returns the reason why the engine does
// not accept them.
func (e *Engine) Health() error { return e.limiter.Check() }

// Namespace returns the number of a namespace. For an unknown name the error is NOT_FOUND.
func (e *Engine) Namespace(name string) (uint32, error) { return e.cfg.Namespaces.Number(name) }

// within returns the number of the namespace of a call. The error for a namespace that the principal
// may not use is the same as for an unknown namespace.
func (e *Engine) within(call Call) (uint32, error) {
	return e.cfg.Namespaces.Within(call.Namespace, call.Principal.Namespaces)
}

// Namespaces lists the configured names in order.
func (e *Engine) Namespaces() []string { return e.cfg.Namespaces.Names() }

// NamespaceName returns the name of the namespace with the number. It returns "" if the configuration has no such namespace.
func (e *Engine) NamespaceName(number uint32) string { return e.cfg.Namespaces.Name(number) }

// Find returns the key of a run in a namespace that the principal may see. It does not read the run.
func (e *Engine) Find(ref RunRef) (RunKey, error) {
	ns, err := e.within(ref.Call)
	if err != nil {
		return RunKey{}, err
	}
	if ref.RunID == "" {
		return RunKey{}, &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "RUN_ID_REQUIRED", Field: "run_id", Message: "must not be empty",
		}
	}
	if !ref.Principal.MaySeeRuns() && ref.Worker == nil {
		return RunKey{}, RunNotFound()
	}
	return RunKey{Namespace: ns, ID: ref.RunID}, nil
}

// Head returns a run's newest state.
func (e *Engine) Head(ctx context.Context, key RunKey) (*machine.State, error) {
	if s := e.runTable.cached(key); s != nil {
		return s, nil
	}
	s, err := e.store.Head(ctx, key.Namespace, key.ID)
	if errors.Is(err, machine.ErrNoRun) {
		return nil, history.Absent(err)
	}
	if err != nil {
		return nil, fmt.Errorf("runtime: load run %s: %w", key.ID, err)
	}
	return s, nil
}

// RunNotFound returns the error for a run that does not exist or that the caller may not see.
func RunNotFound() error { return history.NoRun() }
