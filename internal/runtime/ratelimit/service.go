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

// Engine is what the room needs of the way of a transition.
type Engine interface {
	// Apply takes an input through the way.
	Apply(ctx context.Context, req runtime.Request) (runtime.Answer, error)
	// Find resolves the address of a run that a principal may see.
	Find(ref runtime.RunRef) (runtime.RunKey, error)
	// Current is a run's newest state and its program.
	Current(ctx context.Context, key runtime.RunKey) (*machine.State, *packcache.Program, error)
	// WithRunLock calls do in the run's own turn.
	WithRunLock(key runtime.RunKey, do func() error) error
	// Health is nil while inputs are taken, else why they are not.
	Health() error
	// NamespaceName is the name of a namespace, NamespaceNumbers are all of them.
	NamespaceName(number uint32) string
	NamespaceNumbers() []uint32
}

// Store is what is read after a restart.
type Store interface {
	Tail(ctx context.Context, ns uint32) (uint64, error)
	Journal(ctx context.Context, ns uint32, after uint64, page machine.Page) ([]machine.Entry, uint64, error)
	ListRuns(ctx context.Context, ns uint32, filter machine.RunFilter, after string, limit int) ([]*machine.State, string, error)
	Outbox(ctx context.Context, kind machine.OutboxKind, now int64, limit int) ([]machine.OutboxRow, error)
	StepHolder(ctx context.Context, row machine.OutboxRow) (machine.StepHolder, error)
}

// Config is what a [Service] needs; all of it is required.
type Config struct {
	Engine Engine
	Store  Store
	Clock  runtime.Clock
}

// Service keeps a [Limiter] for all runs of a sidecar. It takes no lock of others while it holds its
// own, and is called in the turns of runs. Safe for concurrent use.
type Service struct {
	cfg Config
	// on: there is a table with limits, and commits are followed.
	on atomic.Bool
	// draining is closed when nobody is to wait any more.
	draining chan struct{}
	drain    sync.Once
	// wake tells the loop that there is something to do earlier than it knows of.
	wake chan struct{}

	mu      sync.Mutex
	limiter *Limiter
	// waiters are those of tickets that somebody waits for, or is about to use.
	waiters map[ID]*waiter
	// runs has the tickets of each run.
	runs map[runtime.RunKey]map[ID]struct{}
	// due is when the desk is to be asked again, [never] = not by time.
	due time.Duration
	// known is closed once it is known what was before; nil: nobody looks yet. Up to tails
	// the journal says it, behind them commits do.
	known   chan struct{}
	looking bool
	tails   map[uint32]uint64
	// providerLimits is what providers told with answers that are on their way.
	providerLimits map[answerOf]*ProviderLimits
	// later are told once it is known.
	later []func()
}

// waiter is a ticket that callers wait for.
type waiter struct {
	done    chan struct{}
	callers int
	// turn and attempt are the execution that asks.
	turn    uint64
	attempt int
	// then is told in place of callers.
	then func()
	// over: it ended without a place, since that execution did. Who waited asks anew: the way
	// refuses it, or the next execution is its own. Set before done is closed.
	over bool
}

// New makes a room without limits; see [Service.Replace].
func New(cfg Config) (*Service, error) {
	if cfg.Engine == nil || cfg.Store == nil || cfg.Clock == nil {
		return nil, errors.New("ratelimit: Engine, Store and Clock are required")
	}
	return &Service{
		cfg: cfg, wake: make(chan struct{}, 1), limiter: NewLimiter(nil), waiters: map[ID]*waiter{}, runs: map[runtime.RunKey]map[ID]struct{}{}, providerLimits: map[answerOf]*ProviderLimits{},
		due: never, known: make(chan struct{}), draining: make(chan struct{}),
	}, nil
}

// Replace puts another table in force.
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

// Run looks for what was before, then lets those begin whose time has come, until ctx ends.
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

// admit lets those begin that may; the mutex is held.
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

// notifyWaiter tells who waits for a ticket.
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

// RequestModel is Apply for a call of a model: it waits before it is asked for, as long as the
// caller does.
//
// Errors: as of Apply; RESOURCE_EXHAUSTED LIMIT_QUEUE_FULL.
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

// answerOf names what came of an attempt of a call.
type answerOf struct {
	key     runtime.RunKey
	step    uint32
	attempt int
}

// AnswerModel is Apply for what came of a call of a model, with what the provider told of its
// limits; nil = nothing. pause is how long the limits ask the executor to wait before the next
// attempt, where one follows.
func (r *Service) AnswerModel(ctx context.Context, req runtime.Request, told *ProviderLimits) (answer runtime.Answer, pause time.Duration, err error) {
	cmd, ok := req.Command.(machine.AnswerModel)
	key, found := r.cfg.Engine.Find(req.RunRef)
	if !ok || found != nil || !r.on.Load() {
		answer, err = r.cfg.Engine.Apply(ctx, req)
		return answer, 0, err
	}
	at := answerOf{key: key, step: cmd.Step, attempt: cmd.Attempt}
	if told != nil {
		r.mu.Lock()
		r.providerLimits[at] = told
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

// requestFor is what a request asks for. wanted is false for one that the way refuses, or answers
// from the record.
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

// foregone: no call of a model begins in a state.
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

// maxQueue bounds the calls that wait.
const maxQueue = 100_000

// enter waits for a place. Without an error [Service.releaseWaiter] must follow.
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

// by notes the latest execution that asks: another one may have asked before it was told that
// it is over.
func (w *waiter) by(turn *machine.Turn) {
	if turn.Seq > w.turn || turn.Seq == w.turn && turn.Attempt > w.attempt {
		w.turn, w.attempt = turn.Seq, turn.Attempt
	}
}

// await waits until a place is the caller's.
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

// Drain lets nobody wait any more: a server is going, perhaps one of several.
func (r *Service) Drain() { r.drain.Do(func() { close(r.draining) }) }

func going() error {
	return &machine.Error{Code: machine.CodeUnavailable, Reason: "DRAINING", Message: "the server is shutting down; repeat the request with the same id at its successor", RetryAfter: int64(time.Second)}
}

// gone is why a caller waits no longer.
func (r *Service) gone(ctx context.Context) error {
	if err := r.cfg.Engine.Health(); err != nil {
		return err
	}
	return fmt.Errorf("wait for the operator's limits: %w", context.Cause(ctx))
}

// ofRun notes a ticket of a run.
func (r *Service) ofRun(id ID) {
	key := runtime.RunKey{Namespace: id.Namespace, ID: id.Run}
	if r.runs[key] == nil {
		r.runs[key] = map[ID]struct{}{}
	}
	r.runs[key][id] = struct{}{}
}

// releaseWaiter ends a caller's use of a ticket. What was not recorded by then is given back, unless
// the wait was ended meanwhile: what has that name now is of a later execution.
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

// release ends a ticket.
func (r *Service) release(id ID) {
	r.limiter.Release(r.now(), id)
	key := runtime.RunKey{Namespace: id.Namespace, ID: id.Run}
	if delete(r.runs[key], id); len(r.runs[key]) == 0 {
		delete(r.runs, key)
	}
}

// Step says whether a pending step may be handed out now; if not, then is called in a
// goroutine of its own once it may be asked again. Whoever calls it makes sure that the step is
// not told to be over meanwhile.
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
		r.release(ask.ID) // it may have been before
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

// Requeue says that nobody has an attempt of a pending step: if it had a place, that is free,
// since its tool never began.
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

// waitKey is that of what a context tells of waiting.
type waitKey struct{}

// OnWait returns a context whose calls say so before they wait; what begin returns is called
// when they are through. An error of begin is theirs.
func OnWait(ctx context.Context, begin func() (end func(), err error)) context.Context {
	return context.WithValue(ctx, waitKey{}, begin)
}

func waiting(ctx context.Context) (end func(), err error) {
	if begin, ok := ctx.Value(waitKey{}).(func() (func(), error)); ok {
		return begin()
	}
	return func() {}, nil
}
