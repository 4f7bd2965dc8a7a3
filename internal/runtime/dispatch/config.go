package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
	"github.com/pawl-dev/pawl/internal/runtime/render"
)

// Defaults of [Config].
const (
	DefaultLease         = 60 * time.Second
	DefaultStepGrace     = 5 * time.Second
	DefaultRestartGrace  = 20 * time.Second
	DefaultMaxWorkers    = 10_000
	DefaultMaxWorkerWork = 256

	DefaultMaxMessageBytes = 4 << 20
)

// Engine is what the room needs of the way of a transition.
type Engine interface {
	// Admit resolves a namespace for a caller that has one of the scopes.
	Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error)
	// Health is nil while inputs are taken, else why they are not.
	Health() error
	// Find resolves the address of a run that a principal may see.
	Find(ref runtime.RunRef) (runtime.RunKey, error)
	// Current is a run's newest state and its program.
	Current(ctx context.Context, key runtime.RunKey) (*machine.State, *packcache.Program, error)
	// ApplyInternal makes an input of the engine's own.
	ApplyInternal(ctx context.Context, key runtime.RunKey, command machine.Command) (runtime.Answer, error)
	// WithRunLock calls do in the run's own turn: after the commits that were told of before.
	WithRunLock(key runtime.RunKey, do func() error) error
	// TokenOut is the open turn of a run whose token a caller was given; 0 = none.
	TokenOut(key runtime.RunKey) uint64
}

// Store is what the room reads, and the one fact that it writes.
type Store interface {
	// ReadyRuns lists runs in the ready index after the given run id.
	ReadyRuns(ctx context.Context, ns uint32, after string, limit int) ([]string, error)
	// Outbox lists rows of a kind with Due <= now, earliest first.
	Outbox(ctx context.Context, kind machine.OutboxKind, now int64, limit int) ([]machine.OutboxRow, error)
	// HoldStep stores in the row of a step's outgoing work which worker it goes to;
	// [machine.ErrNoStep] if there is no such row any more. StepHolder reads it back.
	HoldStep(ctx context.Context, row machine.OutboxRow, holder machine.StepHolder) error
	StepHolder(ctx context.Context, row machine.OutboxRow) (machine.StepHolder, error)
	// ListRuns returns heads in order of creation, see the way's.
	ListRuns(ctx context.Context, ns uint32, filter machine.RunFilter, after string, limit int) ([]*machine.State, string, error)
	// ListPacks orders by id and version.
	ListPacks(ctx context.Context, ns uint32, after string, limit int) ([]machine.PackRow, string, error)
}

// Limits let steps begin.
type Limits interface {
	// Step says whether a pending step may be handed out now; if not, then is called in a
	// goroutine of its own once it may be asked again. Its caller makes sure that the step
	// is pending until it returns.
	Step(key runtime.RunKey, s *machine.State, step *machine.ToolStep, then func()) bool
	// Requeue says that nobody has an attempt of a pending step: it has no place.
	Requeue(key runtime.RunKey, step uint32, attempt int)
}

// Config is everything that a [Dispatcher] needs. Engine, Turns, Past, Packs, Store, Clock and IDs are
// required; zero fields of the rest take their default.
type Config struct {
	Engine Engine
	// Turns renders what is handed out, Past reads the steps, Packs what packs declare.
	Turns *render.Renderer
	Past  *history.Reader
	Packs *packcache.Cache
	Store Store
	Clock runtime.Clock
	IDs   runtime.IDs

	// Allow is the operator's list of tools: it is asked again when a call leaves.
	Allow policy.Allowlist
	// Limits are the operator's; nil = steps are handed out as soon as they can be.
	Limits Limits
	// Off: no workers are taken (WORKERS_OFF).
	Off bool
	// OnVolatileChange wakes those who watch a run for what is no record: a turn was handed out, a
	// piece of its output came. It must not wait. Default: nobody.
	OnVolatileChange func(key runtime.RunKey)
	// Lease is how long a worker holds a turn without a heartbeat, where the pack
	// does not say (x_pawl.lease_sec). Default 60 s.
	Lease time.Duration
	// StepGrace is how long a step waits for the worker that lost its connection
	// with it, before its outcome counts as unknown. Default 5 s.
	StepGrace time.Duration
	// RestartGrace is how long, from the room's making, a step waits for the worker
	// that had it when an earlier process ended. Workers have to notice and to try
	// again with growing pauses. Default 20 s.
	RestartGrace time.Duration
	// MaxWorkers bounds the connected workers of a namespace. Default 10 000.
	MaxWorkers int
	// Quotas may bound them further; nil = nothing does.
	Quotas *quota.Limits
	// MaxWorkerTurns and MaxWorkerSteps bound what one worker holds at once.
	// Default 256 each.
	MaxWorkerTurns, MaxWorkerSteps int
	// MaxMessageBytes is the largest message that a worker can register with. Default 4 MiB.
	MaxMessageBytes int
}

func (c Config) withDefaults() Config {
	c.Lease = cmp.Or(c.Lease, DefaultLease)
	c.StepGrace = cmp.Or(c.StepGrace, DefaultStepGrace)
	c.RestartGrace = cmp.Or(c.RestartGrace, DefaultRestartGrace)
	c.MaxWorkers = cmp.Or(c.MaxWorkers, DefaultMaxWorkers)
	c.MaxMessageBytes = cmp.Or(c.MaxMessageBytes, DefaultMaxMessageBytes)
	c.MaxWorkerTurns = cmp.Or(c.MaxWorkerTurns, DefaultMaxWorkerWork)
	c.MaxWorkerSteps = cmp.Or(c.MaxWorkerSteps, DefaultMaxWorkerWork)
	if c.OnVolatileChange == nil {
		c.OnVolatileChange = func(runtime.RunKey) {}
	}
	return c
}

// validate lists all faults at once.
func (c *Config) validate() error {
	var faults []error
	if c.Engine == nil || c.Turns == nil || c.Past == nil || c.Packs == nil || c.Store == nil || c.Clock == nil || c.IDs == nil {
		faults = append(faults, errors.New("the configuration needs Engine, Turns, Past, Packs, Store, Clock and IDs"))
	}
	for _, bound := range []struct {
		name string
		n    int64
	}{
		{"Lease", int64(c.Lease)}, {"StepGrace", int64(c.StepGrace)}, {"RestartGrace", int64(c.RestartGrace)},
		{"MaxWorkers", int64(c.MaxWorkers)}, {"MaxWorkerTurns", int64(c.MaxWorkerTurns)}, {"MaxWorkerSteps", int64(c.MaxWorkerSteps)}, {"MaxMessageBytes", int64(c.MaxMessageBytes)},
	} {
		if bound.n < 0 {
			faults = append(faults, fmt.Errorf("%s is %d; want 0 (the default) or more", bound.name, bound.n))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("work: configuration: %w", err)
	}
	return nil
}
