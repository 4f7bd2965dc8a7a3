package ratelimit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// bubbleClock is that of a bubble.
type bubbleClock struct{ began time.Time }

func (c bubbleClock) Now() time.Time                         { return time.Now() }
func (c bubbleClock) Elapsed() time.Duration                 { return time.Since(c.began) }
func (c bubbleClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// full is a room whose one place is taken.
func full(t *testing.T) (r *Service, leave func()) {
	t.Helper()
	r = &Service{
		cfg: Config{Clock: bubbleClock{time.Now()}}, wake: make(chan struct{}, 1), limiter: NewLimiter(nil), waiters: map[ID]*waiter{},
		runs: map[runtime.RunKey]map[ID]struct{}{}, due: never, known: make(chan struct{}), draining: make(chan struct{}),
	}
	close(r.known)
	r.Replace(tableOf(t, &Limit{ID: "models", Source: "model", Concurrent: 1}))
	other := Request{ID: ID{Run: "other", Key: "k"}, Call: Call{Model: "gpt"}}
	w, err := r.enter(t.Context(), other, in(1))
	if err != nil {
		t.Fatal(err)
	}
	return r, func() { r.releaseWaiter(other.ID, w) }
}

// in is a run in an execution of its turn.
func in(attempt int) *machine.State {
	return &machine.State{RunID: "run", Status: machine.Running, Turn: &machine.Turn{Seq: 1, Attempt: attempt}}
}

var asked = Request{ID: ID{Run: "run", Key: "k"}, Call: Call{Model: "gpt"}}

// entered asks in an execution, and tells when it is let go on.
func entered(t *testing.T, r *Service, attempt int) <-chan *waiter {
	t.Helper()
	done := make(chan *waiter, 1)
	go func() {
		w, err := r.enter(t.Context(), asked, in(attempt))
		if err != nil {
			t.Error(err)
		}
		done <- w
	}()
	synctest.Wait()
	return done
}

// moved is told that the run has come to an execution.
func moved(r *Service, attempt int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over(runtime.RunKey{ID: "run"}, in(attempt))
}

// TestALateOneTakesNobodysPlace: who waited for an execution that is over, and goes only when
// the next one has asked under the same name, takes nothing of that one's.
func TestALateOneTakesNobodysPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, leave := full(t)
		first := entered(t, r, 1)
		moved(r, 2)
		late := <-first
		if !late.over {
			t.Fatal("the execution is over, and who waited is told to begin")
		}
		second := entered(t, r, 2)
		r.releaseWaiter(asked.ID, late)
		synctest.Wait()
		if len(second) > 0 || r.waiters[asked.ID] == nil {
			t.Fatal("the next execution does not wait any more")
		}
		leave()
		if w := <-second; w.over || !r.limiter.reservations[asked.ID].granted {
			t.Error("it has no place")
		}
	})
}

// TestTheNextExecutionWaitsOn: it asked before anybody was told that the one before is over.
func TestTheNextExecutionWaitsOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, leave := full(t)
		first, second := entered(t, r, 1), entered(t, r, 2)
		moved(r, 2)
		synctest.Wait()
		if len(first)+len(second) > 0 {
			t.Fatal("it goes on without a place")
		}
		leave()
		for _, done := range []<-chan *waiter{first, second} {
			if w := <-done; w.over {
				t.Error("it is told that it is over")
			}
		}
	})
}
