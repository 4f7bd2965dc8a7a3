package dispatch

import (
	"container/heap"
	"context"
	"math"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
)

// timers calls functions after a while, each in a goroutine of its own. They are
// memory: leases and the wait for lost workers, never a run's own timers. That the
// wall clock is set does not move them.
type timers struct {
	clock runtime.Clock
	mu    sync.Mutex
	heap  timerHeap
	// until is what the clock's Elapsed is when the loop wakes by itself.
	until time.Duration
	// wake tells the loop that an alarm is due before that.
	wake chan struct{}
}

// timer is one call to come. Its fields are guarded by the mutex of its alarms.
type timer struct {
	// due is what the clock's Elapsed is then.
	due   time.Duration
	fire  func()
	index int
}

const never = time.Duration(math.MaxInt64)

func newTimers(clock runtime.Clock) *timers {
	return &timers{clock: clock, until: never, wake: make(chan struct{}, 1)}
}

// set calls fire after a while.
func (a *timers) set(after time.Duration, fire func()) *timer {
	a.mu.Lock()
	defer a.mu.Unlock()
	al := &timer{due: a.clock.Elapsed() + after, fire: fire}
	heap.Push(&a.heap, al)
	a.first(al)
	return al
}

// move makes an alarm due after a while from now. False: it was fired or cancelled.
func (a *timers) move(al *timer, after time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if al == nil || al.index < 0 {
		return false
	}
	al.due = a.clock.Elapsed() + after
	heap.Fix(&a.heap, al.index)
	a.first(al)
	return true
}

// cancel takes an alarm back; nil and those that were fired are ignored.
func (a *timers) cancel(al *timer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if al != nil && al.index >= 0 {
		heap.Remove(&a.heap, al.index)
	}
}

func (a *timers) first(al *timer) {
	if al.index != 0 || al.due >= a.until {
		return
	}
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run fires alarms until ctx ends.
func (a *timers) run(ctx context.Context) {
	for {
		var sleep <-chan time.Time
		if pause, more := a.fireDue(); more {
			sleep = a.clock.After(pause)
		}
		select {
		case <-sleep:
		case <-a.wake:
		case <-ctx.Done():
			return
		}
	}
}

// fireDue fires what is due and says how long to sleep, if anything is left.
func (a *timers) fireDue() (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Elapsed()
	for len(a.heap) > 0 {
		if next := a.heap[0]; next.due > now {
			a.until = next.due
			return next.due - now, true
		}
		go heap.Pop(&a.heap).(*timer).fire()
	}
	a.until = never
	return 0, false
}

// timerHeap is ordered by due time; an alarm that is not in it has index -1.
type timerHeap []*timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].due < h[j].due }

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *timerHeap) Push(x any) {
	al := x.(*timer)
	al.index = len(*h)
	*h = append(*h, al)
}

func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	al := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	al.index = -1
	return al
}
