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

// Engine is the part of the runtime engine that the dispatcher uses.
type Engine interface {
	// Admit checks that the caller has one of the scopes, and returns the number of the namespace of the call.
	Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error)
	// Health returns nil while the engine accepts inputs. Otherwise the error says why it does not.
	Health() error
	// Find returns the key of a run that the principal may see.
	Find(ref runtime.RunRef) (runtime.RunKey, error)
	// Current returns the newest state of a run and its compiled pack.
	Current(ctx context.Context, key runtime.RunKey) (*machine.State, *packcache.Program, error)
	// ApplyInternal applies an input that the sidecar itself makes.
	ApplyInternal(ctx context.Context, key runtime.RunKey, command machine.Command) (runtime.Answer, error)
	// WithRunLock calls do while no input of the run is executed. Observers have already received all earlier commits
	// of the run.
	WithRunLock(key runtime.RunKey, do func() error) error
	// TokenOut returns the seq of a run's open turn if a caller has a token for it. Otherwise it returns 0.
	TokenOut(key runtime.RunKey) uint64
}

// Store is the part of the store that the dispatcher uses. The dispatcher writes only which worker has a step.
type Store interface {
	// ReadyRuns lists the ids of runs with a ready turn, as stored in the ready index, beginning after the given id.
	ReadyRuns(ctx context.Context, ns uint32, after string, limit int) ([]string, error)
	// OutboxOf lists the rows of one namespace and kind in the outbox (stored work that still has to be sent) with
	// Due <= now, the earliest first.
	OutboxOf(ctx context.Context, ns uint32, kind machine.OutboxKind, now int64, limit int) ([]machine.OutboxRow, error)
	// HoldStep stores to which worker a step is sent, in the step's row of the outbox. It returns [machine.ErrNoStep] if
	// the row no longer exists. StepHolder returns the stored worker.
	HoldStep(ctx context.Context, row machine.OutboxRow, holder machine.StepHolder) error
	StepHolder(ctx context.Context, row machine.OutboxRow) (machine.StepHolder, error)
	// ListRuns returns the newest states of runs in the order of their creation, see [runtime.Store].
	ListRuns(ctx context.Context, ns uint32, filter machine.RunFilter, after string, limit int) ([]*machine.State, string, error)
	// ListPacks lists packs, ordered by id and version.
	ListPacks(ctx context.Context, ns uint32, after string, limit int) ([]machine.PackRow, string, error)
}

// Limits are the operator's rate limits. They decide when a pending step may be sent to a worker.
type Limits interface {
	// Step reports whether a pending step may be sent now. If not, it later calls the function `then` in a goroutine of
	// its own, and the caller may then call Step a second time. The step must stay pending until Step returns.
	Step(key runtime.RunKey, s *machine.State, step *machine.ToolStep, then func()) bool
	// Requeue frees the rate-limit capacity of an attempt of a pending step, because no worker executes the attempt.
	Requeue(key runtime.RunKey, step uint32, attempt int)
}

// Config configures a [Dispatcher]. Engine, Turns, Past, Packs, Store, Clock and IDs are required. All other fields are
// optional, and their zero values select the defaults.
type Config struct {
	Engine Engine
	// Turns renders the turns that are sent to workers. Past reads steps. Packs reads which names packs declare.
	Turns *runtime.Renderer
	Past  *history.Reader
	Packs *packcache.Cache
	Store Store
	Clock runtime.Clock
	IDs   runtime.IDs

	// Allow is the operator's allowlist of tools. The engine checks it when a call is requested, and the dispatcher
	// checks it when the call is sent.
	Allow policy.Allowlist
	// SidecarTool reports whether the sidecar itself executes the calls of a tool, so that no other worker gets them.
	// If it is nil, the sidecar executes none.
	SidecarTool func(tool string) bool
	// Limits are the operator's rate limits. If it is nil, every step is sent as soon as it is ready.
	Limits Limits
	// Off means that workers may not connect. Connect then returns the error WORKERS_OFF.
	Off bool
	// OnVolatileChange is called when a run changes without a new record, because a turn was assigned
	// or output of a turn arrived. It must not block. It may be nil.
	OnVolatileChange func(key runtime.RunKey)
	// OnFailure is called when a connected worker has failed or lost a turn or step, and when a turn or step was lost
	// because its worker disconnected. It must not block. It may be nil.
	OnFailure func(f Failure)
	// Lease is how long a worker keeps a turn without a heartbeat. The pack can set another time with x_pawl.lease_sec. Default 60 s.
	Lease time.Duration
	// StepGrace is how long a step waits for its disconnected worker to reconnect. After that the outcome of the step is unknown. Default 5
	// s.
	StepGrace time.Duration
	// RestartGrace is how long a step waits after the start of this process for the worker that had it in an earlier
	// process. It is longer than StepGrace because workers reconnect with backoff. Default 20 s.
	RestartGrace time.Duration
	// MaxWorkers bounds the connected workers of a namespace. Default 10 000.
	MaxWorkers int
	// Quotas may lower MaxWorkers for a namespace. If it is nil, there are no quotas.
	Quotas *quota.Limits
	// MaxWorkerTurns and MaxWorkerSteps bound the turns and steps that one worker has at once. Default 256 each.
	MaxWorkerTurns, MaxWorkerSteps int
	// MaxMessageBytes is the largest message that a worker can send to register. Default 4 MiB.
	MaxMessageBytes int
}

// withDefaults returns the configuration with the default for each field that is not set.
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
	if c.OnFailure == nil {
		c.OnFailure = func(Failure) {}
	}
	return c
}

// validate checks the configuration and returns all errors at once.
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
		return fmt.Errorf("dispatch: configuration: %w", err)
	}
	return nil
}
