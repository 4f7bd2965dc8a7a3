package runtime

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/budget"
	"github.com/pawl-dev/pawl/internal/runtime/effects"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// Engine executes the inputs of all runs of one store, one input of a run at a time. Its creator attaches observers,
// then calls Run, and at the end Drain. Safe for concurrent use.
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
	// history reads earlier states and records of runs.
	history *history.Reader
	// effects finds which step has a business key (a key that all calls with the same effect share), and loads payloads of
	// earlier steps.
	effects *effects.Index
	// renderer renders the open turns of runs for their executors.
	renderer *Renderer
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
		history:  history.New(cfg.Store),
		runs:     quota.NewRuns(cfg.Quotas, cfg.Store, cfg.MaxRunsInFlight),
	}
	e.renderer = newRenderer(e.history, cfg.Clock)
	e.effects = effects.New(cfg.Store, e.history, e.programs)
	e.terms = validate.Terms{
		Limits: cfg.Limits, DefaultWallTime: cfg.DefaultWallTime, MaxWallTime: cfg.MaxWallTime,
		MaxVariableBytes: cfg.MaxVariableBytes, MaxLabels: cfg.MaxLabels, TraceShare: cfg.TraceShare, Models: cfg.Models, Providers: cfg.Providers,
	}
	cfg.Store.ReplayWith(e.replayTail)
	e.timers = newTimerShard(e)
	return e, nil
}

// Run fires due timers until ctx ends, the engine drains or the store fails. It returns nil, or an error that wraps
// [machine.ErrIndeterminate]. After this error the process must end, because only a restart can find out from the
// journal what was committed.
func (e *Engine) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var loops sync.WaitGroup
	loops.Go(func() { e.timers.run(ctx) })
	for _, run := range e.hooks.Background {
		loops.Go(func() { run(ctx) })
	}
	defer loops.Wait()
	defer stop() // runs before loops.Wait, so that the loops end
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

// Close drains the engine and waits as long as necessary. It does not close the store.
func (e *Engine) Close() error {
	return e.Drain(context.Background())
}

// Failed returns a channel that is closed when the outcome of a commit is unknown. From then on the engine refuses
// every input with UNAVAILABLE COMMIT_UNKNOWN, and the process should end.
func (e *Engine) Failed() <-chan struct{} { return e.limiter.Failed() }

// Health returns nil if the engine accepts inputs. Otherwise the error says why it does not.
func (e *Engine) Health() error { return e.limiter.Check() }

// Namespace returns the number of a namespace. For an unknown name the error is NOT_FOUND.
func (e *Engine) Namespace(name string) (uint32, error) { return e.cfg.Namespaces.Number(name) }

// namespaceOf returns the number of the namespace of a call. A namespace that the principal may not use gives the same error
// as an unknown one, so that callers cannot find out which namespaces exist.
func (e *Engine) namespaceOf(call Call) (uint32, error) {
	return e.cfg.Namespaces.NumberWithin(call.Namespace, call.Principal.Namespaces)
}

// Namespaces lists the names of the configured namespaces, sorted.
func (e *Engine) Namespaces() []string { return e.cfg.Namespaces.Names() }

// NamespaceName returns the name of the namespace with the number. It returns "" if the configuration has none.
func (e *Engine) NamespaceName(number uint32) string { return e.cfg.Namespaces.Name(number) }

// Find returns the key of a run, if the principal may use the namespace and may see runs. It does not check whether the run exists.
func (e *Engine) Find(ref RunRef) (RunKey, error) {
	ns, err := e.namespaceOf(ref.Call)
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

// Head returns the newest committed state of a run, from the cache or from the store.
func (e *Engine) Head(ctx context.Context, key RunKey) (*machine.State, error) {
	if s := e.runTable.cachedState(key); s != nil {
		return s, nil
	}
	s, err := e.store.Head(ctx, key.Namespace, key.ID)
	if errors.Is(err, machine.ErrNoRun) {
		return nil, history.NotFoundError(err)
	}
	if err != nil {
		return nil, fmt.Errorf("runtime: load run %s: %w", key.ID, err)
	}
	return s, nil
}

// RunNotFound returns the error for a run that does not exist or that the caller may not see.
func RunNotFound() error { return history.NoRun() }

// Defaults of [Config].
const (
	DefaultQueueLimit       = 256
	DefaultCacheBytes       = 64 << 20
	DefaultMaxVariableBytes = 256 << 10
	DefaultMaxLabels        = 64
	DefaultMaxRunsInFlight  = 1_000_000
	DefaultMaxInputs        = 1024
	DefaultTimersInFlight   = 256
)

// DefaultNamespace is the namespace of calls that do not name a namespace. Its number is 0.
const DefaultNamespace = validate.DefaultNamespace

// Config configures an [Engine]. Store, Clock and IDs are required. All other fields are optional, and their zero
// values select the defaults.
type Config struct {
	Store Store
	Clock Clock
	IDs   IDs

	// Limits are copied into every run at its start. Limits that are 0 have the defaults of [machine.Limits].
	Limits machine.Limits
	// DefaultWallTime is the wall time of a run if neither its pack nor its start sets one. MaxWallTime is the longest
	// wall time of any run. 0 means none. Both are fixed at a run's start.
	DefaultWallTime, MaxWallTime time.Duration
	// AllowTools are the names of the tools that runs may call. "*" allows every tool. The default, an empty list,
	// allows no tool.
	AllowTools []string
	// Namespaces assigns each namespace a number that is never reused. The namespace "default" always
	// exists and has the number 0.
	Namespaces validate.Namespaces
	// Pack has the options for reading registered documents.
	Pack pack.Options

	// Models returns the models that the sidecar itself can call, the default model first. If it is nil or returns no
	// model, the sidecar executes no turns.
	Models func() []string
	// Providers maps the provider keys in packs to names of Models. If it is nil, packs can use only the key "default",
	// which means the first model.
	Providers map[string]string
	// QueueLimit bounds the inputs that wait for one run. Default 256.
	QueueLimit int
	// CacheBytes bounds the memory for cached run states. Default 64 MiB.
	CacheBytes int64
	// MaxVariableBytes bounds the variables of a run. Default 256 KiB.
	MaxVariableBytes int
	// MaxLabels bounds the labels of a run. Default 64.
	MaxLabels int
	// MaxRunsInFlight bounds the runs that have not ended. Default 1 000 000.
	MaxRunsInFlight int
	// Quotas bounds how many runs and other things a namespace and a principal may have. If it is nil, there are no
	// quotas.
	Quotas *quota.Limits
	// Accounts are the operator's budgets over many runs. If it is nil, there are none.
	Accounts *budget.Ledger
	// Local reports whether the agent of a pack is another member of that pack in this store, and not at an address
	// that the operator configures. If Local is nil, this is unknown, and the usage of the agent is charged to the
	// step.
	Local func(namespace uint32, pack, agent string) bool
	// Repeatable reports whether a second call of a tool does no harm, as a server says that the operator trusts. The
	// function must not block. If it is nil, no tool is repeatable.
	Repeatable func(tool string) bool
	// Prices are the operator's prices of models. They apply to models that a pack does not price. If it is nil, there
	// are none.
	Prices *budget.Prices
	// MaxInputs bounds the inputs in flight, including those that wait for their commit. Inputs that start new work are
	// rejected above this number. Default 1024.
	MaxInputs int
	// TimersInFlight bounds the due timers that are fired at once. Default 256.
	TimersInFlight int

	// TraceShare is the share of runs, between 0 and 1, that begin a trace of their own if their caller sent no trace
	// context. Default 0.
	TraceShare float64
}

func (c Config) withDefaults() Config {
	c.QueueLimit = orDefault(c.QueueLimit, DefaultQueueLimit)
	c.CacheBytes = orDefault(c.CacheBytes, DefaultCacheBytes)
	c.MaxVariableBytes = orDefault(c.MaxVariableBytes, DefaultMaxVariableBytes)
	c.MaxLabels = orDefault(c.MaxLabels, DefaultMaxLabels)
	c.MaxRunsInFlight = orDefault(c.MaxRunsInFlight, DefaultMaxRunsInFlight)
	c.MaxInputs = orDefault(c.MaxInputs, DefaultMaxInputs)
	c.TimersInFlight = orDefault(c.TimersInFlight, DefaultTimersInFlight)
	c.Namespaces = c.Namespaces.WithDefault()
	if c.Quotas == nil {
		c.Quotas = quota.New(c.Namespaces)
	}
	return c
}

func orDefault[N int | int64 | time.Duration](n, def N) N {
	if n == 0 {
		return def
	}
	return n
}

// validate returns one error with all faults of the configuration.
func (c Config) validate() error {
	var faults []error
	for _, part := range []struct {
		name    string
		missing bool
	}{{"Store", c.Store == nil}, {"Clock", c.Clock == nil}, {"IDs", c.IDs == nil}} {
		if part.missing {
			faults = append(faults, fmt.Errorf("%s is required", part.name))
		}
	}
	for _, bound := range []struct {
		name string
		n    int64
	}{
		{"QueueLimit", int64(c.QueueLimit)}, {"CacheBytes", c.CacheBytes},
		{"MaxVariableBytes", int64(c.MaxVariableBytes)}, {"MaxLabels", int64(c.MaxLabels)},
		{"MaxRunsInFlight", int64(c.MaxRunsInFlight)}, {"MaxInputs", int64(c.MaxInputs)},
		{"TimersInFlight", int64(c.TimersInFlight)},
		{"DefaultWallTime", int64(c.DefaultWallTime)}, {"MaxWallTime", int64(c.MaxWallTime)},
	} {
		if bound.n < 0 {
			faults = append(faults, fmt.Errorf("%s is %d; want 0 (the default) or more", bound.name, bound.n))
		}
	}
	if !(c.TraceShare >= 0 && c.TraceShare <= 1) {
		faults = append(faults, fmt.Errorf("TraceShare is %v; want 0 to 1", c.TraceShare))
	}
	return errors.Join(append(faults, c.Namespaces.Validate()...)...)
}

// Allowlist returns AllowTools in the form that package policy uses.
func (c Config) Allowlist() policy.Allowlist { return policy.NewAllowlist(c.AllowTools) }

// Clock provides the time for the engine. Tests and replays replace it.
type Clock interface {
	// Now returns the time of the wall clock, which an operator may set forward or back.
	Now() time.Time
	// Elapsed returns the time since a fixed moment, for measuring durations. It uses a monotonic clock, which an
	// operator cannot set.
	Elapsed() time.Duration
	// After returns a channel that receives one value when d has passed, measured by Elapsed.
	After(d time.Duration) <-chan time.Time
}

// IDs makes new identifiers. Tests replace it in order to get repeatable identifiers.
type IDs interface {
	// RunID returns a ULID for a run that starts at the given time.
	RunID(at time.Time) string
	// Token returns an unguessable turn token.
	Token() string
}

// Store keeps the runs. It has all methods that the engine and the packages around it need; each of these packages
// declares an interface with the methods that it calls. The central write is: append this batch to the run's journal if
// the run's last seq is Prev. A read sees every commit that was acknowledged before the read began.
//
// Errors: [machine.ErrSeqConflict], [machine.ErrConsumed] and [machine.ErrEffectTaken] for failed preconditions (the batch was not
// stored); *[machine.Error] for limits (DISK_LOW, a batch over 8 MiB); [machine.ErrIndeterminate] if it is unknown whether the commit
// happened. After that the store is permanently read-only, and the process must end.
type Store interface {
	Commit(ctx context.Context, batch *machine.Batch) (machine.Committed, error)

	// ReplayWith gives the store a function that computes newer states. It is called once, before any state is read.
	// The store may store the state of a run less often than its entries. It then calls replay with the stored state
	// and the entries after it, and replay returns the state after these entries.
	ReplayWith(replay func(ctx context.Context, head *machine.State, tail []machine.Entry) (*machine.State, error))

	// Head returns the newest state of a run. Error: [machine.ErrNoRun].
	Head(ctx context.Context, ns uint32, run string) (*machine.State, error)
	// Entries returns a run's entries that contain records with seq >= from, in order.
	Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error)
	// Entry returns the entry of a run that contains the record seq. Error: [machine.ErrNoRecord].
	Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error)
	// Checkpoint returns a stored state of a run: the newest one with a seq that is not greater than the given seq. It
	// returns nil if there is none, so that a replay begins at the first record. The distance between two checkpoints
	// bounds the cost of reading a past state.
	Checkpoint(ctx context.Context, ns uint32, run string, seq uint64) (*machine.State, error)
	// Journal returns entries of all runs of a namespace, in cursor order, beginning after the cursor `after`. It also
	// returns the cursor up to which it has read.
	Journal(ctx context.Context, ns uint32, after uint64, page machine.Page) ([]machine.Entry, uint64, error)
	// Tail returns the cursor of the newest entry of a namespace.
	Tail(ctx context.Context, ns uint32) (uint64, error)
	// Epoch returns the permanent identifier of this store. A cursor with another epoch comes from another store and is
	// invalid.
	Epoch() [16]byte

	// FindRequestID returns the row of a used idempotency id. It returns false if the id was not used.
	FindRequestID(ctx context.Context, ns uint32, key machine.Dedupe) (machine.Dedupe, bool, error)
	// Effect returns the row of a business key, which all calls with the same effect have in common. It returns false if
	// no step has the key. The commit of a batch that contains the key of another step fails with
	// [machine.ErrEffectTaken].
	Effect(ctx context.Context, ns uint32, key [32]byte) (machine.Effect, bool, error)
	// ArtifactVersions lists the writes of one artifact with seq <= atSeq, in order. If newestOnly is true, it returns
	// only the last of them.
	ArtifactVersions(ctx context.Context, ns uint32, run, name string, atSeq uint64, newestOnly bool) ([]machine.ArtifactVersion, error)
	// ArtifactVersionsAfter lists the writes of one artifact with after < seq <= atSeq, in order.
	ArtifactVersionsAfter(ctx context.Context, ns uint32, run, name string, after, atSeq uint64) ([]machine.ArtifactVersion, error)
	// MessageRows lists the rows of a state's conversation from `from` (inclusive) to next (exclusive).
	MessageRows(ctx context.Context, ns uint32, run, state string, from, next uint64) ([]machine.MessageRow, error)

	// DueTimers returns at most limit timers with Due <= now, the earliest first. next is the due time of the timer
	// that follows them, or 0 if there is none.
	DueTimers(ctx context.Context, now int64, limit int) (due []machine.Timer, next int64, err error)
	// ReadyRuns lists the ids of runs with a ready turn, as stored in the ready index, beginning after the given id.
	ReadyRuns(ctx context.Context, ns uint32, after string, limit int) ([]string, error)
	// Outbox lists the rows of one kind in the outbox (stored work that still has to be sent) with Due <= now, the
	// earliest first.
	Outbox(ctx context.Context, kind machine.OutboxKind, now int64, limit int) ([]machine.OutboxRow, error)
	// OutboxOf lists the same rows, but only those of one namespace.
	OutboxOf(ctx context.Context, ns uint32, kind machine.OutboxKind, now int64, limit int) ([]machine.OutboxRow, error)
	// DropOutbox removes a row of the kind OutboxCancel (a stored request to cancel a delegation) from the outbox. A row
	// that does not exist is no error.
	DropOutbox(ctx context.Context, row machine.OutboxRow) error

	// HoldStep stores to which worker a step is about to be sent, in the step's row of the outbox. It fails with [machine.ErrNoStep] if
	// the row does not exist any more. StepHolder returns the stored worker.
	HoldStep(ctx context.Context, row machine.OutboxRow, holder machine.StepHolder) error
	StepHolder(ctx context.Context, row machine.OutboxRow) (machine.StepHolder, error)

	// ListRuns returns the newest states of runs in the order of their creation, beginning after the given run id. ""
	// means the first run. It also returns the id after which the next page begins, or "" if this was the last page.
	ListRuns(ctx context.Context, ns uint32, filter machine.RunFilter, after string, limit int) ([]*machine.State, string, error)

	// Tasks calls visit with the newest state of each A2A task of an owner. The tasks are ordered by the time of their
	// status, the newest first, and then by run id. Tasks stops when visit returns false, or after limit tasks, which
	// bounds the memory of the call. The owner "" selects the tasks of all owners. A contextID selects only the tasks
	// of that context.
	Tasks(ctx context.Context, ns uint32, owner, contextID string, limit int, visit func(*machine.State) bool) error
	// Held lists the calls and events that wait for a person: at most limit rows of [machine.HeldIndex], ordered by time,
	// beginning after the given place. The zero place means the first row.
	Held(ctx context.Context, ns uint32, after machine.HeldPlace, newest bool, limit int) ([]machine.HeldPlace, error)
	// Decisions returns entries with a decision about a held call, the newest first. It examines a bounded number of entries, so a page
	// may be short although more follow.
	Decisions(ctx context.Context, ns uint32, search machine.DecisionSearch) (machine.DecisionPage, error)
	// Usage calls visit with the rollups of usage of a namespace in the order of their days, until visit returns false. It
	// also returns from when on they are complete.
	Usage(ctx context.Context, ns uint32, search machine.UsageSearch, visit func(*machine.UsageRow) bool) (machine.UsageSince, error)

	// CountRuns counts the runs of a namespace that are in any of the statuses.
	CountRuns(ctx context.Context, ns uint32, statuses []machine.Status) (int, error)

	// PutPack registers a pack. Registering the same bytes a second time returns the existing row. If other bytes have
	// the same name and version, the error is a *[machine.Error] PACK_VERSION_TAKEN.
	PutPack(ctx context.Context, ns uint32, put machine.PackPut) (machine.PackRow, error)
	// Pack returns the pack that a reference names: "id", "id@version" or "sha256:<hex>". Error: [machine.ErrNoPack].
	Pack(ctx context.Context, ns uint32, ref string) (machine.PackRow, error)
	// ListPacks lists packs, ordered by id and version.
	ListPacks(ctx context.Context, ns uint32, after string, limit int) ([]machine.PackRow, string, error)

	// Failed returns a channel that is closed when the outcome of a commit is unknown.
	Failed() <-chan struct{}
}

// Commit is a committed input, as observers receive it. They must not change it, because the engine and all observers
// share its parts.
type Commit struct {
	Key RunKey
	// Batch is the batch that was stored. Entry contains the same data in the form in which readers of the journal get
	// it.
	Batch *machine.Batch
	Entry machine.Entry
	// Graph is the control flow of the run.
	Graph *machine.Graph
	// Holder is the worker that made the request under its lease. It is nil if a caller or the engine made it. Token is
	// the token of the request, or "".
	Holder LeaseHolder
	Token  string
}

// Observer receives each commit once, after its sync. [Hooks] says in which order observers are called and which work
// waits for them.
type Observer interface {
	OnCommit(c *Commit)
}

// ObserverFunc makes a function an [Observer].
type ObserverFunc func(c *Commit)

// OnCommit calls f.
func (f ObserverFunc) OnCommit(c *Commit) { f(c) }

// Hooks are the functions that the engine calls after commits and other changes. Each list is called in its order. They
// must be set with [Engine.Attach] before the first input.
type Hooks struct {
	// OnCommitLocked are called after the sync, while the run's execution slot is still held. So they receive the
	// commits of a run in order. They block only this run. They must not wait for an input of any run.
	OnCommitLocked []Observer
	// OnCommit are called after the run's execution slot was released and when the new state can be read. They block
	// only the caller of the input. They may receive two commits of the same run in any order.
	OnCommit []Observer
	// OnVolatileChange are called when a run has changed without a record: its turn was given to an executor.
	OnVolatileChange []func(key RunKey)
	// Served report whether a worker currently serves a run with the execution CALLER. If so, the tokens of callers for
	// this run are not valid. These functions must not block.
	Served []func(key RunKey) bool
	// Background are functions that run in goroutines of their own while [Engine.Run] runs. Each must return when its
	// ctx ends.
	Background []func(ctx context.Context)
}

// Attach adds hooks to the engine. It must be called before the first input.
func (e *Engine) Attach(h Hooks) {
	e.hooks.OnCommitLocked = append(e.hooks.OnCommitLocked, h.OnCommitLocked...)
	e.hooks.OnCommit = append(e.hooks.OnCommit, h.OnCommit...)
	e.hooks.OnVolatileChange = append(e.hooks.OnVolatileChange, h.OnVolatileChange...)
	e.hooks.Served = append(e.hooks.Served, h.Served...)
	e.hooks.Background = append(e.hooks.Background, h.Background...)
}

// notifyChanged calls the OnVolatileChange hooks for a run.
func (e *Engine) notifyChanged(key RunKey) {
	for _, hook := range e.hooks.OnVolatileChange {
		hook(key)
	}
}

// leased reports whether workers execute the turns of a run under leases, so that tokens of callers are not valid.
func (e *Engine) leased(key RunKey, s *machine.State) bool {
	return s.Execution.Leased() || slices.ContainsFunc(e.hooks.Served, func(served func(RunKey) bool) bool { return served(key) })
}

// commitEvent returns the commit of this execution, as observers receive it.
func (t *execution) commitEvent() *Commit {
	t.notified = Commit{
		Key: t.op.key, Batch: t.batch, Entry: t.entry, Graph: t.program.Graph, Holder: t.op.holder, Token: t.op.token,
	}
	return &t.notified
}

// SystemClock is the [Clock] that uses the clocks of the computer.
type SystemClock struct{}

// processStart is the time at which the process started, with the monotonic clock.
var processStart = time.Now()

// Now returns the current time.
func (SystemClock) Now() time.Time { return time.Now() }

// Elapsed returns the time since the process started.
func (SystemClock) Elapsed() time.Duration { return time.Since(processStart) }

// After returns a channel that delivers one value when d has passed.
func (SystemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// SystemIDs is the [IDs] that makes ULIDs, which sort by time, and tokens of 128 random bits. Safe for concurrent use.
type SystemIDs struct {
	mu      sync.Mutex
	entropy io.Reader
}

// NewSystemIDs returns SystemIDs that use the random source of the operating system.
func NewSystemIDs() *SystemIDs {
	return &SystemIDs{entropy: ulid.Monotonic(rand.Reader, 0)}
}

// RunID returns a new ULID. ULIDs of the same millisecond sort in the order of the calls.
func (s *SystemIDs) RunID(at time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, err := ulid.New(ulid.Timestamp(at), s.entropy)
	if err != nil {
		// The monotonic random part for this millisecond has overflowed. A new random part is used instead.
		id = ulid.MustNew(ulid.Timestamp(at), rand.Reader)
	}
	return id.String()
}

// Token returns a random token of 22 characters in base64url.
func (s *SystemIDs) Token() string {
	var word [16]byte
	_, _ = rand.Read(word[:])
	return base64.RawURLEncoding.EncodeToString(word[:])
}
