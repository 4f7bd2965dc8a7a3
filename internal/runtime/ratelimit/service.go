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

// Engine is the part of the runtime engine that the rate limiter uses.
type Engine interface {
	// Apply applies an input.
	Apply(ctx context.Context, req runtime.Request) (runtime.Answer, error)
	// Find returns the key of a run that the principal may see.
	Find(ref runtime.RunRef) (runtime.RunKey, error)
	// Current returns the newest state of a run and its program.
	Current(ctx context.Context, key runtime.RunKey) (*machine.State, *packcache.Program, error)
	// WithRunLock calls do while it holds the lock of the run.
	WithRunLock(key runtime.RunKey, do func() error) error
	// Health returns nil if the engine accepts inputs. Otherwise it returns the reason why the engine
	// does not accept them.
	Health() error
	// NamespaceName returns the name of a namespace. NamespaceNumbers returns the numbers of all
	// namespaces.
	NamespaceName(number uint32) string
	NamespaceNumbers() []uint32
}

// Store is the part of the store that the rate limiter reads after a restart.
type Store interface {
	Tail(ctx context.Context, ns uint32) (uint64, error)
	Journal(ctx context.Context, ns uint32, after uint64, page machine.Page) ([]machine.Entry, uint64, error)
	ListRuns(ctx context.Context, ns uint32, filter machine.RunFilter, after string, limit int) ([]*machine.State, string, error)
	Outbox(ctx context.Context, kind machine.OutboxKind, now int64, limit int) ([]machine.OutboxRow, error)
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
	// on reports whether a table with limits was set. Only then does the service follow commits.
	on atomic.Bool
	// draining is closed when the server drains. After that no call may wait.
	draining chan struct{}
	drain    sync.Once
	// wake wakes the loop before the time due.
	wake chan struct{}

	mu      sync.Mutex
	limiter *Limiter
	// waiters are the reservations that have waiting callers, or callers that are about to use them.
	waiters map[ID]*waiter
	// runs maps each run to its reservations.
	runs map[runtime.RunKey]map[ID]struct{}
	// due is the time of the next call of [Limiter.Admit]. [never] means that no time is set.
	due time.Duration
	// known is closed when the past usage has been restored. looking reports whether the restore has
	// started. tails are the journal positions up to which the restore reads. Later records arrive
	// through OnCommit.
	known   chan struct{}
	looking bool
	tails   map[uint32]uint64
	// providerLimits are limits that providers reported with answers that are not yet committed.
	providerLimits map[answerOf]*ProviderLimits
	// later are the functions that are called when the past usage has been restored.
	later []func()
}

// waiter is a reservation with waiting callers.
type waiter struct {
	done    chan struct{}
	callers int
	// turn and attempt identify the execution that requests the call.
	turn    uint64
	attempt int
	// then is called instead of waking callers.
	then func()
	// over reports whether the wait ended without a grant because the execution ended. In this case
	// callers repeat their request: either the engine refuses it, or the next execution has its own
	// reservation. over is set before done is closed.
	over bool
}

// New returns a Service without limits; see [Service.Replace].
func New(cfg Config) (*Service, error) {
	if cfg.Engine == nil || cfg.Store == nil || cfg.Clock == nil {
		return nil, errors.New("ratelimit: Engine, Store and Clock are required")
	}
	return &Service{
		cfg: cfg, wake: make(chan struct{}, 1), limiter: NewLimiter(nil), waiters: map[ID]*waiter{}, runs: map[runtime.RunKey]map[ID]struct{}{}, providerLimits: map[answerOf]*ProviderLimits{},
		due: never, known: make(chan struct{}), draining: make(chan struct{}),
	}, nil
}

// Replace applies a new table of limits.
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

// Run restores the past usage. Then it starts waiting calls when they may begin. It returns when ctx
// ends.
func (r *Service) Run(ctx context.Context) {
	for {
		r.look(ctx)
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

// admit starts the waiting calls that may begin. The caller holds the mutex.
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

// notifyWaiter wakes the callers of a granted reservation.
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

// RequestModel applies a request to a model. Before that, it waits until the limits allow the call or
// ctx ends.
//
// Errors: the errors of Apply; RESOURCE_EXHAUSTED LIMIT_QUEUE_FULL.
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
		w, err := r.enter(ctx, ask, state)
		if err != nil {
			return runtime.Answer{}, err
		}
		if !w.over {
			defer r.releaseWaiter(ask.ID, w)
			return r.cfg.Engine.Apply(ctx, req)
		}
		r.releaseWaiter(ask.ID, w)
	}
}

// answerOf identifies the outcome of one attempt of a call.
type answerOf struct {
	key     runtime.RunKey
	step    uint32
	attempt int
}

// AnswerModel applies the outcome of a model call. limits are the limits that the provider reported. They
// are nil if it reported none. pause is how long the executor must wait before the next attempt, if
// there is one.
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

// requestFor returns the limiter's request for a model call. wanted is false if the engine will refuse
// the call or will answer it from a record.
func (r *Service) requestFor(ctx context.Context, req *runtime.Request, cmd *machine.RequestModel) (ask Request, s *machine.State, wanted bool) {
	key, err := r.cfg.Engine.Find(req.RunRef)
	if err != nil || cmd.Model == nil {
		return ask, nil, false
	}
	s, _, err = r.cfg.Engine.Current(ctx, key)
	if err != nil || foregone(s) || cmd.TurnSeq != 0 && cmd.TurnSeq != s.Turn.Seq || cmd.Attempt != 0 && cmd.Attempt != s.Turn.Attempt {
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

// foregone reports whether no model call can begin in a state.
func foregone(s *machine.State) bool { return s.Status.Terminal() || s.Paused || s.Turn == nil }

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

// maxQueue bounds the waiting calls.
const maxQueue = 100_000

// enter waits until the call is granted. If it returns no error, the caller must later call
// [Service.releaseWaiter].
func (r *Service) enter(ctx context.Context, ask Request, s *machine.State) (*waiter, error) {
	select {
	case <-r.known:
	case <-r.draining:
		return nil, going()
	case <-ctx.Done():
		return nil, r.gone(ctx)
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
	w.by(s.Turn)
	w.callers++
	r.mu.Unlock()
	return w, r.await(ctx, ask.ID, w)
}

// by stores the latest execution that requests the call. An earlier execution may have requested the
// call before it learned that it has ended.
func (w *waiter) by(turn *machine.Turn) {
	if turn.Seq > w.turn || turn.Seq == w.turn && turn.Attempt > w.attempt {
		w.turn, w.attempt = turn.Seq, turn.Attempt
	}
}

// await waits until the reservation is granted.
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
			err = going()
			back()
		case <-ctx.Done():
			err = r.gone(ctx)
			back()
		}
	}
	r.releaseWaiter(id, w)
	return err
}

// Drain ends all waits, because the server is shutting down.
func (r *Service) Drain() { r.drain.Do(func() { close(r.draining) }) }

func going() error {
	return &machine.Error{Code: machine.CodeUnavailable, Reason: "DRAINING", Message: "the server is shutting down; repeat the request with the same id at its successor", RetryAfter: int64(time.Second)}
}

// gone returns the reason why a caller stopped waiting.
func (r *Service) gone(ctx context.Context) error {
	if err := r.cfg.Engine.Health(); err != nil {
		return err
	}
	return fmt.Errorf("wait for the operator's limits: %w", context.Cause(ctx))
}

// ofRun adds a reservation to its run.
func (r *Service) ofRun(id ID) {
	key := runtime.RunKey{Namespace: id.Namespace, ID: id.Run}
	if r.runs[key] == nil {
		r.runs[key] = map[ID]struct{}{}
	}
	r.runs[key][id] = struct{}{}
}

// releaseWaiter ends a caller's use of a reservation. If the call was not recorded until then, it is
// released. If the wait was ended in the meantime, the reservation belongs to a later execution and is
// not released.
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

// release ends a reservation.
func (r *Service) release(id ID) {
	r.limiter.Release(r.now(), id)
	key := runtime.RunKey{Namespace: id.Namespace, ID: id.Run}
	if delete(r.runs[key], id); len(r.runs[key]) == 0 {
		delete(r.runs, key)
	}
}

// Step reports whether a pending step may be sent now. If not, Step later calls the function then in a
// separate goroutine. The caller may then call Step again. The caller must ensure that the step does
// not end before Step returns.
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
		r.release(ask.ID) // It may have been limited before.
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

// Requeue records that no worker has an attempt of a pending step. If the attempt had a slot, the slot
// becomes free, because the tool never began.
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
	case <-r.known:
		return true
	default:
		return false
	}
}

// waitKey is the context key of [OnWait].
type waitKey struct{}

// OnWait returns a context that contains the function begin. begin is called before a call waits. The
// function end that begin returns is called when the wait ends. If begin returns an error, the call
// fails with this error.
func OnWait(ctx context.Context, begin func() (end func(), err error)) context.Context {
	return context.WithValue(ctx, waitKey{}, begin)
}

func waiting(ctx context.Context) (end func(), err error) {
	if begin, ok := ctx.Value(waitKey{}).(func() (func(), error)); ok {
		return begin()
	}
	return func() {}, nil
}
