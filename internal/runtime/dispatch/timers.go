package dispatch

import (
	"container/heap"
	"context"
	"math"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
)

// timers calls functions after a delay, each in its own goroutine. The calls are kept only in memory.
// They are used for leases and grace periods, never for the durable timers of a run. Changes of the
// wall clock do not affect them. Safe for concurrent use.
type timers struct {
	clock runtime.Clock
	mu    sync.Mutex
	heap  timerHeap
	// until is the time at which the loop wakes without a signal, as a value of the clock's Elapsed.
	until time.Duration
	// wake wakes the loop if a new timer is due earlier than all others.
	wake chan struct{}
}

// timer is one scheduled call. The mutex of its timers guards its fields.
type timer struct {
	// due is the time at which the timer fires, as a value of the clock's Elapsed.
	due   time.Duration
	fire  func()
	index int
}

const never = time.Duration(math.MaxInt64)

func newTimers(clock runtime.Clock) *timers {
	return &timers{clock: clock, until: never, wake: make(chan struct{}, 1)}
}

// set returns a timer that calls fire after the given delay.
func (a *timers) set(after time.Duration, fire func()) *timer {
	a.mu.Lock()
	defer a.mu.Unlock()
	al := &timer{due: a.clock.Elapsed() + after, fire: fire}
	heap.Push(&a.heap, al)
	a.first(al)
	return al
}

// move reschedules a timer to the given delay from now. It returns false if the timer has fired or
// was cancelled.
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

// cancel cancels a timer. It ignores nil and timers that have fired.
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

// run fires timers until ctx ends.
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

// fireDue fires the timers that are due. It returns the time until the next timer. It returns false if
// no timer is left.
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

// timerHeap is ordered by due time. A timer that is not in the heap has index -1.
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
