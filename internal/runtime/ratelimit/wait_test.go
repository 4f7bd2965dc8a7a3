package ratelimit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// bubbleClock is the clock of a synctest bubble.
type bubbleClock struct{ began time.Time }

func (c bubbleClock) Now() time.Time                         { return time.Now() }
func (c bubbleClock) Elapsed() time.Duration                 { return time.Since(c.began) }
func (c bubbleClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// newFullService returns a service whose one place is taken, and a function that frees the place.
func newFullService(t *testing.T) (r *Service, leave func()) {
	t.Helper()
	r = &Service{
		cfg: Config{Clock: bubbleClock{time.Now()}}, wake: make(chan struct{}, 1), limiter: NewLimiter(nil), waiters: map[ID]*waiter{},
		runs: map[runtime.RunKey]map[ID]struct{}{}, due: never, restored: make(chan struct{}), draining: make(chan struct{}),
	}
	close(r.restored)
	r.Replace(tableOf(t, &Limit{ID: "models", Source: "model", Concurrent: 1}))
	other := Request{ID: ID{Run: "other", Key: "k"}, Call: Call{Model: "gpt"}}
	w, err := r.awaitLimits(t.Context(), other, stateInAttempt(1))
	if err != nil {
		t.Fatal(err)
	}
	return r, func() { r.releaseWaiter(other.ID, w) }
}

// stateInAttempt returns a run whose turn is in the attempt.
func stateInAttempt(attempt int) *machine.State {
	return &machine.State{RunID: "run", Status: machine.Running, Turn: &machine.Turn{Seq: 1, Attempt: attempt}}
}

var testRequest = Request{ID: ID{Run: "run", Key: "k"}, Call: Call{Model: "gpt"}}

// enterAsync asks for a place in an attempt. The channel receives the waiter when the wait is over.
func enterAsync(t *testing.T, r *Service, attempt int) <-chan *waiter {
	t.Helper()
	done := make(chan *waiter, 1)
	go func() {
		w, err := r.awaitLimits(t.Context(), testRequest, stateInAttempt(attempt))
		if err != nil {
			t.Error(err)
		}
		done <- w
	}()
	synctest.Wait()
	return done
}

// commitAttempt notifies the service that the run is in the attempt now.
func commitAttempt(r *Service, attempt int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.releaseEnded(runtime.RunKey{ID: "run"}, stateInAttempt(attempt))
}

// TestALateOneTakesNobodysPlace: a waiter of an execution that is over returns only after the next
// execution has asked under the same name. It takes nothing from the next execution.
func TestALateOneTakesNobodysPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, leave := newFullService(t)
		first := enterAsync(t, r, 1)
		commitAttempt(r, 2)
		late := <-first
		if !late.abandoned {
			t.Fatal("the execution is over, and who waited is told to begin")
		}
		second := enterAsync(t, r, 2)
		r.releaseWaiter(testRequest.ID, late)
		synctest.Wait()
		if len(second) > 0 || r.waiters[testRequest.ID] == nil {
			t.Fatal("the next execution does not wait any more")
		}
		leave()
		if w := <-second; w.abandoned || !r.limiter.reservations[testRequest.ID].granted {
			t.Error("it has no place")
		}
	})
}

// TestTheNextExecutionWaitsOn: an execution asks for a place before the service is notified that
// the execution before is over. It keeps waiting until a place is free.
func TestTheNextExecutionWaitsOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, leave := newFullService(t)
		first, second := enterAsync(t, r, 1), enterAsync(t, r, 2)
		commitAttempt(r, 2)
		synctest.Wait()
		if len(first)+len(second) > 0 {
			t.Fatal("it goes on without a place")
		}
		leave()
		for _, done := range []<-chan *waiter{first, second} {
			if w := <-done; w.abandoned {
				t.Error("it is told that it is over")
			}
		}
	})
}
