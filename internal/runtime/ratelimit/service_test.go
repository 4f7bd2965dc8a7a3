package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/expr"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
	"github.com/pawl-dev/pawl/internal/runtime/ratelimit"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/test/testkit"
)

// rig is the way with its rooms over a store in memory; its clock is that of the bubble.
type rig struct {
	*services.Runtime
	t     *testing.T
	store *testkit.Store
	table *ratelimit.Table
	stop  func()
	// broken are the next reads of runs that fail.
	broken atomic.Int32
}

// unsteady is a store whose reads of runs break now and then, as of a database whose connection
// is cut.
type unsteady struct {
	*testkit.Store
	broken *atomic.Int32
}

func (s unsteady) Head(ctx context.Context, ns uint32, run string) (*machine.State, error) {
	if s.broken.Add(-1) >= 0 {
		return nil, errors.New("the connection is cut")
	}
	return s.Store.Head(ctx, ns, run)
}

func newRig(t *testing.T, limits ...*ratelimit.Limit) *rig {
	language, err := ratelimit.Language()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range limits {
		if l.Key, err = language.Compile(l.Source, expr.Text); err != nil {
			t.Fatal(err)
		}
	}
	r := &rig{t: t, store: testkit.NewStore(), table: &ratelimit.Table{Tenant: "tenant", Limits: limits}}
	r.open()
	if _, err := r.RegisterPack(t.Context(), packs.RegisterRequest{
		Call: runtime.Call{Principal: runtime.Anonymous()}, Document: []byte(testkit.LoopPack),
	}); err != nil {
		t.Fatal(err)
	}
	return r
}

// open makes the next process on the same data.
func (r *rig) open() {
	h, err := services.New(services.Config{Config: runtime.Config{
		Store: unsteady{r.store, &r.broken}, Clock: runtime.SystemClock{}, IDs: runtime.NewSystemIDs(), AllowTools: []string{"*"},
	}, Subscriptions: r.store})
	if err != nil {
		r.t.Fatal(err)
	}
	r.Runtime = h
	h.Admission.Replace(r.table)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = h.Engine.Run(ctx)
	}()
	r.stop = func() { stop(); <-ended }
}

func (r *rig) restart() {
	r.stop()
	r.store = r.store.Reopen()
	r.open()
}

// turn is a run's open turn with a caller's token.
type turn struct {
	run, token string
	seq        uint64
}

func (r *rig) start(tenant string) turn {
	answer, err := r.StartRun(r.t.Context(), runtime.StartRequest{
		Call: runtime.Call{Principal: runtime.Anonymous()}, Pack: "loop", Execution: machine.Caller, Variables: []byte(`{"goal": "ship"}`),
		Labels: []machine.Label{{Key: "tenant", Value: tenant}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return turn{run: answer.RunID, token: answer.Turn.Token, seq: answer.State.Turn.Seq}
}

// ask asks for a round, and returns the number of its step.
func (r *rig) ask(ctx context.Context, at turn, round int, bound int64) (uint32, error) {
	answer, err := r.Admission.RequestModel(ctx, runtime.Request{RunRef: at.ref(), TurnToken: at.token, Command: machine.RequestModel{
		TurnSeq: at.seq, Attempt: 1, Round: round, Model: &machine.ModelRequest{Model: "gpt"}, Bound: machine.Usage{OutputTokens: bound},
	}})
	if err != nil {
		return 0, err
	}
	return answer.Steps[0].Step, nil
}

func (at turn) ref() runtime.RunRef {
	return runtime.RunRef{Call: runtime.Call{Principal: runtime.Anonymous()}, RunID: at.run}
}

func (r *rig) answer(at turn, step uint32, used int64) {
	if _, _, err := r.Admission.AnswerModel(context.Background(), runtime.Request{RunRef: at.ref(), TurnToken: at.token, Command: machine.AnswerModel{
		TurnSeq: at.seq, TurnAttempt: 1, Step: step, Attempt: 1, Answer: &machine.ModelAnswer{Finish: "stop"}, Usage: machine.Usage{OutputTokens: used},
	}}, nil); err != nil {
		r.t.Error(err)
	}
}

// strictProvider holds its callers to what it allows in any minute, however it is cut.
type strictProvider struct {
	mu               sync.Mutex
	requests, tokens int
	calls            []call
	taken, accepted  int
	refused          int
}

type call struct {
	at     time.Time
	tokens int
}

func (p *strictProvider) call(tokens int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, sum := time.Now(), tokens
	p.calls = slices.DeleteFunc(p.calls, func(c call) bool { return !c.at.Add(time.Minute).After(now) })
	for _, c := range p.calls {
		sum += c.tokens
	}
	if len(p.calls) >= p.requests || sum > p.tokens {
		p.refused++
		return
	}
	p.calls = append(p.calls, call{now, tokens})
	p.taken, p.accepted = p.taken+1, p.accepted+tokens
}

// TestProviderSeesNoTooMany: a provider of 60 requests and 30 000 tokens a minute refuses
// nothing in twenty minutes, and at least 95 % of what it allows is used, also where the
// process is ended and begun again in the midst of it.
func TestProviderSeesNoTooMany(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tokens, spread int
		restarts       int
		least          float64
	}{
		"requests": {tokens: 300, spread: 200, least: 0.95},
		"tokens":   {tokens: 600, spread: 100, least: 0.95},
		"both":     {tokens: 500, spread: 100, least: 0.95},
		// What is reserved for calls under way is not used: bounds far off cost their share.
		"bounds":   {tokens: 600, spread: 400, least: 0.90},
		"restarts": {tokens: 300, spread: 200, restarts: 4, least: 0.95},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &strictProvider{requests: 60, tokens: 30_000}
				const minutes = 20
				storm(t, p, c.tokens, c.spread, minutes*time.Minute, c.restarts)
				use := max(float64(p.taken)/(60*minutes), float64(p.accepted)/(30_000*minutes))
				t.Logf("%d calls and %d tokens in %d minutes, %d restarts: %.1f %% used, %d refused", p.taken, p.accepted, minutes, c.restarts, 100*use, p.refused)
				if p.refused != 0 || use < c.least {
					t.Errorf("%.3f is used, %d calls were refused", use, p.refused)
				}
			})
		})
	}
}

// storm has eight executors ask as fast as they may, for as long as it is said.
func storm(t *testing.T, p *strictProvider, tokens, spread int, long time.Duration, restarts int) {
	r := newRig(t, &ratelimit.Limit{ID: "gpt", Source: "model", PerMinute: 60, TokensPerMinute: 30_000})
	over := time.Now().Add(long)
	for phase := range restarts + 1 {
		ctx, cancel := context.WithDeadline(context.Background(), over.Add(-long*time.Duration(restarts-phase)/time.Duration(restarts+1)))
		var all sync.WaitGroup
		for i := range 8 {
			at := r.start(fmt.Sprint("tenant", i%3))
			rnd := rand.New(rand.NewPCG(uint64(i), uint64(phase)))
			all.Go(func() { r.execute(ctx, at, p, rnd, tokens, spread) })
		}
		all.Wait()
		cancel()
		if phase < restarts {
			r.restart()
		}
	}
	r.stop()
}

// execute asks round after round until ctx ends.
func (r *rig) execute(ctx context.Context, at turn, p *strictProvider, rnd *rand.Rand, tokens, spread int) {
	for round := 1; ctx.Err() == nil; round++ {
		step, err := r.ask(ctx, at, round, int64(tokens+spread))
		if err != nil {
			if ctx.Err() == nil {
				r.t.Error(err)
			}
			return
		}
		time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond)
		used := tokens - spread + rnd.IntN(2*spread)
		p.call(used)
		time.Sleep(time.Duration(500+rnd.IntN(2500)) * time.Millisecond)
		r.answer(at, step, int64(used))
	}
}

// TestPlacesAfterARestart: calls that are open when the process ends have their places in the
// next one, until they are over, also where reads of their runs fail at first.
func TestPlacesAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &ratelimit.Limit{ID: "gpt", Source: "model", Concurrent: 2})
		defer func() { r.stop() }()
		first, second := r.start("a"), r.start("a")
		for _, at := range []turn{first, second} {
			if _, err := r.ask(t.Context(), at, 1, 0); err != nil {
				t.Fatal(err)
			}
		}
		r.stop()
		r.store = r.store.Reopen()
		r.broken.Store(3)
		r.open()
		third := r.start("b")
		begun := make(chan error, 1)
		go func() {
			_, err := r.ask(context.Background(), third, 1, 0)
			begun <- err
		}()
		time.Sleep(time.Minute) // of the bubble
		synctest.Wait()
		key := runtime.RunKey{ID: third.run}
		if w := r.Admission.WaitingCalls(key); len(w) != 1 || w[0].Model != "gpt" || w[0].Limits[0] != "gpt" {
			t.Fatalf("it waits for %+v", w)
		}
		if f := r.Admission.Figures(); len(f) != 1 || f[0].Open != 2 {
			t.Fatalf("%+v", f)
		}
		// The token of the one that asked has gone with its process: the run ends.
		if _, err := r.Apply(t.Context(), runtime.Request{RunRef: first.ref(), Command: machine.Cancel{}}); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-begun:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("it has no place")
		}
		if w := r.Admission.WaitingCalls(key); len(w) != 0 {
			t.Errorf("it still waits for %+v", w)
		}
	})
}

// TestPlacesOfTurnsThatWaitForTheirRetry: a call that is open while its turn waits for the next
// attempt has its place in the next process as well.
func TestPlacesOfTurnsThatWaitForTheirRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &ratelimit.Limit{ID: "gpt", Source: "model", Concurrent: 1})
		defer func() { r.stop() }()
		first := r.start("a")
		if _, err := r.ask(t.Context(), first, 1, 0); err != nil {
			t.Fatal(err)
		}
		failed, err := r.Apply(t.Context(), runtime.Request{RunRef: first.ref(), TurnToken: first.token, Command: machine.FailTurn{
			TurnSeq: first.seq, Attempt: 1, Error: machine.Fault{Code: "X"}, Retryable: true,
		}})
		if err != nil || failed.State.Status != machine.Waiting || len(failed.State.Steps) != 1 || failed.State.Steps[0].Status != machine.StepStatusPending {
			t.Fatalf("%+v, %v", failed.State, err)
		}
		r.restart()
		second := r.start("b")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := r.ask(ctx, second, 1, 0); err == nil {
			t.Error("two calls are open where one may be")
		}
	})
}
