package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
)

// Engine is the part of the runtime engine that a [Service] uses.
type Engine interface {
	// Apply executes one input of a run.
	Apply(ctx context.Context, req runtime.Request) (runtime.Answer, error)
	// Find returns the key of a run that the principal may see.
	Find(ref runtime.RunRef) (runtime.RunKey, error)
	// Current returns the newest state of a run and its compiled pack.
	Current(ctx context.Context, key runtime.RunKey) (*machine.State, *packcache.Program, error)
	// WithRunLock calls do while no input of the run is executed.
	WithRunLock(key runtime.RunKey, do func() error) error
	// Health returns nil if the engine accepts inputs. Otherwise the error says why it does not.
	Health() error
	// NamespaceName returns the name of a namespace by its number. NamespaceNumbers returns the numbers
	// of all namespaces.
	NamespaceName(number uint32) string
	NamespaceNumbers() []uint32
}

// Store is the part of the store that a [Service] reads after a restart.
type Store interface {
	Tail(ctx context.Context, ns uint32) (uint64, error)
	Journal(ctx context.Context, ns uint32, after uint64, page machine.Page) ([]machine.Entry, uint64, error)
	ListRuns(ctx context.Context, ns uint32, filter machine.RunFilter, after string, limit int) ([]*machine.State, string, error)
	OutboxOf(ctx context.Context, ns uint32, kind machine.OutboxKind, now int64, limit int) ([]machine.OutboxRow, error)
	StepHolder(ctx context.Context, row machine.OutboxRow) (machine.StepHolder, error)
}

// Config configures a [Service]. All fields are required.
type Config struct {
	Engine Engine
	Store  Store
	Clock  runtime.Clock
}

// Service applies a [Limiter] to all runs of a sidecar. While it holds its own lock, it takes no other
// lock. It may be called under the locks of runs. Safe for concurrent use.
type Service struct {
	cfg Config
	// on reports whether there was ever a table with limits. Without one the service ignores commits.
	on atomic.Bool
	// draining is closed when the server drains. From then on no call may wait.
	draining chan struct{}
	drain    sync.Once
	// wake wakes the loop before the time due.
	wake chan struct{}

	mu      sync.Mutex
	limiter *Limiter
	// waiters are the calls for which a caller waits, or is about to use the permission.
	waiters map[ID]*waiter
	// runs maps each run to the ids of its calls.
	runs map[runtime.RunKey]map[ID]struct{}
	// due is the time at which [Limiter.Admit] must be called next. [never] means that there is no such
	// time.
	due time.Duration
	// restored is closed when the past usage has been restored. looking reports whether this has started.
	// tails are the positions of the journal up to which the past is read; later records arrive through
	// OnCommit.
	restored chan struct{}
	looking  bool
	tails    map[uint32]uint64
	// providerLimits are the limits that providers reported with answers that are not committed yet.
	providerLimits map[answerOf]*ProviderLimits
	// later are functions to call when the past usage has been restored.
	later []func()
}

// waiter is a call for which one or more callers wait.
type waiter struct {
	done    chan struct{}
	callers int
	// turn and attempt identify the execution of the turn that requests the call.
	turn    uint64
	attempt int
	// then is a function to call when the call may begin, instead of waking callers. It is nil if callers
	// wait.
	then func()
	// abandoned reports whether the wait ended without permission, because the execution of the turn ended.
	// Callers then repeat their request: the engine refuses it, or the next execution of the turn has its
	// own wait. abandoned is set before done is closed.
	abandoned bool
}

// New returns a Service without limits. [Service.Replace] sets them.
func New(cfg Config) (*Service, error) {
	if cfg.Engine == nil || cfg.Store == nil || cfg.Clock == nil {
		return nil, errors.New("ratelimit: Engine, Store and Clock are required")
	}
	return &Service{
		cfg: cfg, wake: make(chan struct{}, 1), limiter: NewLimiter(nil), waiters: map[ID]*waiter{}, runs: map[runtime.RunKey]map[ID]struct{}{}, providerLimits: map[answerOf]*ProviderLimits{},
		due: never, restored: make(chan struct{}), draining: make(chan struct{}),
	}, nil
}

// Replace replaces the table of limits.
func (r *Service) Replace(table *Table) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limiter.Replace(r.now(), table)
	if len(table.Limits) > 0 {
		r.on.Store(true)
	}
	r.admit()
	r.wakeLoop()
}

func (r *Service) now() time.Duration { return r.cfg.Clock.Elapsed() }

func (r *Service) wakeLoop() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run restores the usage of the last minute. Then it lets waiting calls begin when the limits allow it.
// It returns when ctx ends.
func (r *Service) Run(ctx context.Context) {
	for {
		r.restorePast(ctx)
		var sleep <-chan time.Time
		r.mu.Lock()
		r.admit()
		if r.due != never {
			sleep = r.cfg.Clock.After(max(r.due-r.now(), 0))
		}
		r.mu.Unlock()
		select {
		case <-sleep:
		case <-r.wake:
		case <-ctx.Done():
			return
		}
	}
}

// admit lets those waiting calls begin that the limits allow now. The caller holds the mutex.
func (r *Service) admit() {
	now := r.now()
	begun, again := r.limiter.Admit(now)
	for _, id := range begun {
		r.notifyWaiter(id)
	}
	due := never
	if again != never {
		due = now + again
	}
	if due < r.due {
		r.wakeLoop()
	}
	r.due = due
}

// notifyWaiter wakes the callers that wait for a call that may now begin, or calls the function of the
// waiter.
func (r *Service) notifyWaiter(id ID) {
	w := r.waiters[id]
	if w == nil {
		return
	}
	if w.then != nil {
		delete(r.waiters, id)
		go w.then()
		return
	}
	close(w.done)
}

// RequestModel waits until the limits allow a call of a model, and then applies the request for it to the run. It
// returns if ctx ends first.
//
// Errors: the errors of Apply; RESOURCE_EXHAUSTED LIMIT_QUEUE_FULL; UNAVAILABLE DRAINING.
func (r *Service) RequestModel(ctx context.Context, req runtime.Request) (runtime.Answer, error) {
	cmd, ok := req.Command.(machine.RequestModel)
	if !ok || !r.on.Load() {
		return r.cfg.Engine.Apply(ctx, req)
	}
	for {
		ask, state, wanted := r.requestFor(ctx, &req, &cmd)
		if !wanted {
			return r.cfg.Engine.Apply(ctx, req)
		}
		w, err := r.awaitLimits(ctx, ask, state)
		if err != nil {
			return runtime.Answer{}, err
		}
		if !w.abandoned {
			defer r.releaseWaiter(ask.ID, w)
			return r.cfg.Engine.Apply(ctx, req)
		}
		r.releaseWaiter(ask.ID, w)
	}
}

// answerOf identifies the outcome of one attempt of a model call.
type answerOf struct {
	key     runtime.RunKey
	step    uint32
	attempt int
}

// AnswerModel applies the outcome of a model call. limits are the limits that the provider reported, or
// nil if it reported none. pause is how long the executor must wait before the next attempt, if there is
// one.
func (r *Service) AnswerModel(ctx context.Context, req runtime.Request, limits *ProviderLimits) (answer runtime.Answer, pause time.Duration, err error) {
	cmd, ok := req.Command.(machine.AnswerModel)
	key, found := r.cfg.Engine.Find(req.RunRef)
	if !ok || found != nil || !r.on.Load() {
		answer, err = r.cfg.Engine.Apply(ctx, req)
		return answer, 0, err
	}
	at := answerOf{key: key, step: cmd.Step, attempt: cmd.Attempt}
	if limits != nil {
		r.mu.Lock()
		r.providerLimits[at] = limits
		r.mu.Unlock()
	}
	answer, err = r.cfg.Engine.Apply(ctx, req)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.providerLimits, at)
	if id, ok := r.ofStep(key, cmd.Step); ok {
		pause = max(0, r.limiter.reservations[id].startedAt-r.now())
	}
	return answer, pause, err
}

// requestFor returns the request to the limiter for a model call. wanted is false if the call need not
// wait, because the engine will refuse it or answer it from a record.
func (r *Service) requestFor(ctx context.Context, req *runtime.Request, cmd *machine.RequestModel) (ask Request, s *machine.State, wanted bool) {
	key, err := r.cfg.Engine.Find(req.RunRef)
	if err != nil || cmd.Model == nil {
		return ask, nil, false
	}
	s, _, err = r.cfg.Engine.Current(ctx, key)
	if err != nil || cannotCall(s) || cmd.TurnSeq != 0 && cmd.TurnSeq != s.Turn.Seq || cmd.Attempt != 0 && cmd.Attempt != s.Turn.Attempt {
		return ask, nil, false
	}
	name := rules.ModelKey(s, cmd)
	for i := range s.Steps {
		if p := &s.Steps[i]; p.Key == name && p.Status == machine.StepStatusOK {
			return ask, nil, false
		}
	}
	return Request{
		ID:   ID{Namespace: key.Namespace, Run: key.ID, Key: name},
		Call: r.call(s, cmd.Model.Model, ""), Tokens: tokensOf(&cmd.Bound),
	}, s, true
}

// cannotCall reports whether no model call can begin in this state of a run.
func cannotCall(s *machine.State) bool { return s.Status.Terminal() || s.Paused || s.Turn == nil }

func tokensOf(u *machine.Usage) int64 {
	if n := u.InputTokens + u.OutputTokens; n >= 0 {
		return n
	}
	return 1<<63 - 1
}

func (r *Service) call(s *machine.State, model, tool string) Call {
	call := Call{Model: model, Tool: tool, Namespace: r.cfg.Engine.NamespaceName(s.Namespace), Pack: s.PackID}
	call.Labels = make(map[string]string, len(s.Labels))
	for _, l := range s.Labels {
		call.Labels[l.Key] = l.Value
	}
	return call
}

// maxQueue bounds the number of waiting calls.
const maxQueue = 100_000

// awaitLimits waits until the limits allow the call. If it returns no error, the caller must later call
// [Service.releaseWaiter].
func (r *Service) awaitLimits(ctx context.Context, ask Request, s *machine.State) (*waiter, error) {
	select {
	case <-r.restored:
	case <-r.draining:
		return nil, shutdownError()
	case <-ctx.Done():
		return nil, r.abandonedError(ctx)
	}
	r.mu.Lock()
	w := r.waiters[ask.ID]
	if w == nil {
		if len(r.waiters) >= maxQueue {
			r.mu.Unlock()
			return nil, &machine.Error{
				Code: machine.CodeResourceExhausted, Reason: "LIMIT_QUEUE_FULL", Message: "too many calls wait for the operator's limits",
				Limit: maxQueue, Got: maxQueue + 1, RetryAfter: int64(time.Second),
			}
		}
		w = &waiter{done: make(chan struct{})}
		r.waiters[ask.ID] = w
		r.ofRun(ask.ID)
		if granted, _ := r.limiter.Acquire(r.now(), ask); granted {
			close(w.done)
		} else {
			r.admit()
		}
	}
	w.setExecution(s.Turn)
	w.callers++
	r.mu.Unlock()
	return w, r.await(ctx, ask.ID, w)
}

// setExecution stores which execution of the turn requests the call now. An earlier execution may have requested
// it before it learned that it has ended.
func (w *waiter) setExecution(turn *machine.Turn) {
	if turn.Seq > w.turn || turn.Seq == w.turn && turn.Attempt > w.attempt {
		w.turn, w.attempt = turn.Seq, turn.Attempt
	}
}

// await waits until the call may begin, or until the wait ends for another reason.
func (r *Service) await(ctx context.Context, id ID, w *waiter) error {
	select {
	case <-w.done:
		return nil
	default:
	}
	back, err := waiting(ctx)
	if err == nil {
		select {
		case <-w.done:
			back()
			return nil
		case <-r.draining:
			err = shutdownError()
			back()
		case <-ctx.Done():
			err = r.abandonedError(ctx)
			back()
		}
	}
	r.releaseWaiter(id, w)
	return err
}

// Drain ends all waits of callers with an error, because the server is shutting down.
func (r *Service) Drain() { r.drain.Do(func() { close(r.draining) }) }

func shutdownError() error {
	return &machine.Error{Code: machine.CodeUnavailable, Reason: "DRAINING", Message: "the server is shutting down; repeat the request with the same id at its successor", RetryAfter: int64(time.Second)}
}

// abandonedError returns the error for a caller that stopped waiting because its context ended.
func (r *Service) abandonedError(ctx context.Context) error {
	if err := r.cfg.Engine.Health(); err != nil {
		return err
	}
	return fmt.Errorf("wait for the operator's limits: %w", context.Cause(ctx))
}

// ofRun notes that a call belongs to its run.
func (r *Service) ofRun(id ID) {
	key := runtime.RunKey{Namespace: id.Namespace, ID: id.Run}
	if r.runs[key] == nil {
		r.runs[key] = map[ID]struct{}{}
	}
	r.runs[key][id] = struct{}{}
}

// releaseWaiter must be called when a caller no longer waits for a call and has finished its request. If
// the last caller leaves and the call was not recorded, the call is released. If the wait ended without
// permission, the call may belong to a later execution and stays.
func (r *Service) releaseWaiter(id ID, w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.callers--; w.callers > 0 || r.waiters[id] != w {
		return
	}
	delete(r.waiters, id)
	if !r.limiter.Recorded(id) {
		r.release(id)
		r.admit()
	}
}

// release removes a call from the limiter.
func (r *Service) release(id ID) {
	r.limiter.Release(r.now(), id)
	key := runtime.RunKey{Namespace: id.Namespace, ID: id.Run}
	if delete(r.runs[key], id); len(r.runs[key]) == 0 {
		delete(r.runs, key)
	}
}

// Step reports whether a pending step may be sent now. If not, it later calls the function `then` in a
// goroutine of its own, and the caller may then call Step again. The caller must ensure that the step
// does not end before Step returns.
func (r *Service) Step(key runtime.RunKey, s *machine.State, step *machine.ToolStep, then func()) bool {
	if !r.on.Load() {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isKnown() {
		r.later = append(r.later, then)
		return false
	}
	ask := Request{ID: stepID(key, step), Call: r.call(s, "", step.Tool), Step: step.Step}
	delete(r.waiters, ask.ID)
	granted, limited := r.limiter.Acquire(r.now(), ask)
	if !limited {
		r.release(ask.ID) // a limit may have applied to the step before
		return true
	}
	r.ofRun(ask.ID)
	if !granted {
		r.admit()
		granted = r.limiter.reservations[ask.ID].granted
	}
	if granted {
		r.limiter.MarkRecorded(r.now(), ask, step.Step)
		return true
	}
	r.waiters[ask.ID] = &waiter{then: then}
	return false
}

// Requeue notes that no worker executes an attempt of a pending step. If the attempt was counted as in
// progress, it is not any more, because the tool never began.
func (r *Service) Requeue(key runtime.RunKey, step uint32, attempt int) {
	if !r.on.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.runs[key] {
		t := r.limiter.reservations[id]
		if t == nil || !t.granted || t.step != step || t.Call.Tool == "" || id.Attempt != attempt {
			continue
		}
		delete(r.waiters, id)
		r.limiter.Requeue(r.now(), id)
		r.admit()
		return
	}
}

func stepID(key runtime.RunKey, p *machine.ToolStep) ID {
	return ID{Namespace: key.Namespace, Run: key.ID, Key: p.Key, Attempt: p.Attempt}
}

func (r *Service) isKnown() bool {
	select {
	case <-r.restored:
		return true
	default:
		return false
	}
}

// waitKey is the context key of the function that [OnWait] stores.
type waitKey struct{}

// OnWait returns a context that makes the calls made with it report their waits for the limits: begin is called before
// a wait, and the function end that it returns is called when the wait ends. If begin returns an error, the call fails
// with it.
func OnWait(ctx context.Context, begin func() (end func(), err error)) context.Context {
	return context.WithValue(ctx, waitKey{}, begin)
}

func waiting(ctx context.Context) (end func(), err error) {
	if begin, ok := ctx.Value(waitKey{}).(func() (func(), error)); ok {
		return begin()
	}
	return func() {}, nil
}
