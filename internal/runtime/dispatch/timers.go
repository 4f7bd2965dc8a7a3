package dispatch

import (
	"container/heap"
	"context"
	"math"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
)

// timers calls functions after a delay, each in its own goroutine. It is used for leases and grace
// periods, and exists only in memory, unlike the durable timers of a run. Changes of the wall clock do
// not affect it. Safe for concurrent use.
type timers struct {
	clock runtime.Clock
	mu    sync.Mutex
	heap  timerHeap
	// until is the time at which the loop wakes by itself, as a value of Clock.Elapsed.
	until time.Duration
	// wake wakes the loop when a new or moved timer is due before all others.
	wake chan struct{}
}

// timer is one scheduled call. The mutex of the timers that it belongs to guards its fields.
type timer struct {
	// due is the time at which the function is called, as a value of Clock.Elapsed.
	due   time.Duration
	fire  func()
	index int
}

const never = time.Duration(math.MaxInt64)

func newTimers(clock runtime.Clock) *timers {
	return &timers{clock: clock, until: never, wake: make(chan struct{}, 1)}
}

// set schedules a call of fire after the given delay.
func (a *timers) set(after time.Duration, fire func()) *timer {
	a.mu.Lock()
	defer a.mu.Unlock()
	al := &timer{due: a.clock.Elapsed() + after, fire: fire}
	heap.Push(&a.heap, al)
	a.first(al)
	return al
}

// move reschedules a timer to the given delay from now. It returns false if the function was already
// called or the timer was cancelled.
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

// cancel cancels a timer. It does nothing if the timer is nil or its function was already called.
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

// run calls the functions of due timers until ctx ends.
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

// fireDue calls the functions of the timers that are due. It returns the time until the next timer,
// and false if no timer is left.
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

// timerHeap orders timers by due time. A timer that is not in the heap has the index -1.
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
