package dispatch

import (
	"container/heap"
	"context"
	"math"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
)

// alarms calls functions after a while, each in a goroutine of its own. They are
// memory: leases and the wait for lost workers, never a run's own timers. That the
// wall clock is set does not move them.
type alarms struct {
	clock runtime.Clock
	mu    sync.Mutex
	heap  alarmHeap
	// until is what the clock's Elapsed is when the loop wakes by itself.
	until time.Duration
	// wake tells the loop that an alarm is due before that.
	wake chan struct{}
}

// alarm is one call to come. Its fields are guarded by the mutex of its alarms.
type alarm struct {
	// due is what the clock's Elapsed is then.
	due   time.Duration
	fire  func()
	index int
}

const never = time.Duration(math.MaxInt64)

func newAlarms(clock runtime.Clock) *alarms {
	return &alarms{clock: clock, until: never, wake: make(chan struct{}, 1)}
}

// set calls fire after a while.
func (a *alarms) set(after time.Duration, fire func()) *alarm {
	a.mu.Lock()
	defer a.mu.Unlock()
	al := &alarm{due: a.clock.Elapsed() + after, fire: fire}
	heap.Push(&a.heap, al)
	a.first(al)
	return al
}

// move makes an alarm due after a while from now. False: it was fired or cancelled.
func (a *alarms) move(al *alarm, after time.Duration) bool {
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
func (a *alarms) cancel(al *alarm) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if al != nil && al.index >= 0 {
		heap.Remove(&a.heap, al.index)
	}
}

func (a *alarms) first(al *alarm) {
	if al.index != 0 || al.due >= a.until {
		return
	}
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run fires alarms until ctx ends.
func (a *alarms) run(ctx context.Context) {
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
func (a *alarms) fireDue() (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Elapsed()
	for len(a.heap) > 0 {
		if next := a.heap[0]; next.due > now {
			a.until = next.due
			return next.due - now, true
		}
		go heap.Pop(&a.heap).(*alarm).fire()
	}
	a.until = never
	return 0, false
}

// alarmHeap is ordered by due time; an alarm that is not in it has index -1.
type alarmHeap []*alarm

func (h alarmHeap) Len() int           { return len(h) }
func (h alarmHeap) Less(i, j int) bool { return h[i].due < h[j].due }

func (h alarmHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *alarmHeap) Push(x any) {
	al := x.(*alarm)
	al.index = len(*h)
	*h = append(*h, al)
}

func (h *alarmHeap) Pop() any {
	last := len(*h) - 1
	al := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	al.index = -1
	return al
}
