package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/bench/load/many"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// local is an engine on a store in this process, with the bench's packs.
type local struct {
	store   *recorder
	engine  *services.Runtime
	stopRun context.CancelFunc
	ended   chan error
}

// recorder keeps what the last commit wrote.
type recorder struct {
	*store.Store
	// keep says whether to; only while one goroutine commits.
	keep          bool
	ops           []layout.Op
	prev, records uint64
}

// Commit encodes the batch once more where it has to be kept.
func (r *recorder) Commit(ctx context.Context, batch *machine.Batch) (machine.Committed, error) {
	if r.keep {
		writes, err := r.Encode(batch)
		if err != nil {
			return machine.Committed{}, err
		}
		r.ops, r.prev, r.records = writes.Ops(), batch.Prev, uint64(len(batch.Records))
	}
	return r.Store.Commit(ctx, batch)
}

// localOptions say how a local engine differs from the sidecar's own.
type localOptions struct {
	// limits that are raised; zero fields are the defaults.
	limits machine.Limits
	// clockOffset sets the engine's clock back.
	clockOffset time.Duration
	// place has the store instead of the directory; nil = none.
	place *many.Location
}

// skewedClock is the machine's clock, set back.
type skewedClock struct {
	runtime.SystemClock
	offset time.Duration
}

func (c skewedClock) Now() time.Time { return c.SystemClock.Now().Add(-c.offset) }

// openLocal opens a store in dir and an engine over it. Its owner closes it.
func openLocal(ctx context.Context, dir string, opts localOptions) (*local, error) {
	options := store.Options{Dir: dir}
	if opts.place != nil {
		options.Engine = func(store.Options) (engine.Engine, error) { return opts.place.Engine() }
	}
	kept, err := store.Open(options)
	if err != nil {
		return nil, err
	}
	l := &local{store: &recorder{Store: kept}, ended: make(chan error, 1)}
	l.engine, err = services.New(services.Config{Config: runtime.Config{
		Store: l.store, Clock: skewedClock{offset: opts.clockOffset}, IDs: runtime.NewSystemIDs(), Limits: opts.limits,
	}})
	if err != nil {
		return nil, errors.Join(err, kept.Close())
	}
	runCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stopRun = stop
	go func() { l.ended <- l.engine.Run(runCtx) }()
	if err := l.register(ctx); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *local) close() error {
	err := l.engine.Close()
	l.stopRun()
	return errors.Join(err, <-l.ended, l.store.Close())
}

// localRun is one run, driven by one goroutine.
type localRun struct {
	engine *services.Runtime
	id     string
	// token of the open turn.
	token string
}

// start begins a run of a pack.
func (l *local) start(ctx context.Context, packID string) (*localRun, error) {
	answer, err := l.engine.StartRun(ctx, runtime.StartRequest{
		Call: call(), Pack: packID, Execution: machine.Caller,
	})
	if err != nil {
		return nil, err
	}
	return &localRun{engine: l.engine, id: answer.RunID, token: tokenOf(answer)}, nil
}

// emit moves the run on and writes value.
func (r *localRun) emit(ctx context.Context, id string, value []byte) error {
	answer, err := r.engine.EmitEvent(ctx, runtime.EmitRequest{
		RunRef: runtime.RunRef{Call: call(), RunID: r.id}, Event: eventName, EventID: id, TurnToken: r.token,
		Artifacts: []machine.ArtifactWrite{{Name: artifactName, Value: value}},
	})
	r.token = tokenOf(answer)
	return err
}

func tokenOf(answer runtime.Answer) string {
	if answer.Turn == nil {
		return ""
	}
	return answer.Turn.Token
}

func call() runtime.Call { return runtime.Call{Principal: runtime.Anonymous()} }

// eventID is the idempotency id of a client's n-th event; all have one length.
func eventID(client, n int) string { return fmt.Sprintf("client-%04d-%08d", client, n) }

// register puts the bench's packs into the store.
func (l *local) register(ctx context.Context) error {
	for _, id := range benchPacks {
		document, err := packDocument(id)
		if err != nil {
			return err
		}
		if _, err := l.engine.RegisterPack(ctx, packs.RegisterRequest{Call: call(), Document: document}); err != nil {
			return fmt.Errorf("pack %s: %w", id, err)
		}
	}
	return nil
}
