package runtime

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// enginePrincipal causes what nobody asked for: timers.
const enginePrincipal = "pawl"

// timerRetry is the pause after the store or a run refused a timer.
const timerRetry = time.Second

// timers fires the durable timers as they come due. They are read from the
// store in batches; none is held in memory for a run that sleeps.
type timers struct {
	e *Engine
	// alarm is the due time that the loop sleeps for; a timer that is set for an
	// earlier time wakes it. While the loop reads, every timer does.
	alarm atomic.Int64
	wake  chan struct{}
	// stuck holds timers that did not go through and when each is tried again, in
	// Unix nanoseconds; they must not keep later ones from firing. The loop's own.
	stuck map[machine.Timer]int64
}

// maxStuck bounds the timers that are read again and again.
const maxStuck = 4096

func newTimers(e *Engine) *timers {
	t := &timers{e: e, wake: make(chan struct{}, 1), stuck: make(map[machine.Timer]int64)}
	t.alarm.Store(math.MaxInt64)
	return t
}

// noticed is called after each commit that set a timer.
func (t *timers) noticed(due int64) {
	if due >= t.alarm.Load() {
		return
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run fires timers until ctx ends or the engine takes no inputs any more.
func (t *timers) run(ctx context.Context) {
	for ctx.Err() == nil && t.e.gate.check() == nil {
		pause := t.round(ctx)
		if pause == 0 {
			continue
		}
		select {
		case <-t.wake:
		case <-t.sleep(pause):
		case <-ctx.Done():
		case <-t.e.gate.failed:
		case <-t.e.gate.empty:
		}
	}
}

// sleep is a clock's alarm; a negative pause sleeps until woken.
func (t *timers) sleep(pause time.Duration) <-chan time.Time {
	if pause < 0 {
		return nil
	}
	return t.e.cfg.Clock.After(pause)
}

// round fires one batch of due timers and says how long to sleep: 0 = not at
// all, negative = until a timer is set.
func (t *timers) round(ctx context.Context) time.Duration {
	t.alarm.Store(math.MaxInt64)
	now := t.e.cfg.Clock.Now().UnixNano()
	due, next, err := t.e.store.DueTimers(ctx, now, t.e.cfg.TimersInFlight+len(t.stuck))
	if err != nil {
		return timerRetry
	}
	if fresh := t.fresh(due, now); len(fresh) > 0 {
		if t.fireAll(ctx, fresh) {
			return 0
		}
		return timerRetry
	}
	if len(t.stuck) > 0 {
		return timerRetry
	}
	if next == 0 {
		return -1
	}
	t.alarm.Store(next)
	return max(time.Duration(next-t.e.cfg.Clock.Now().UnixNano()), 1)
}

// fresh leaves out the stuck timers whose time has not come again, and forgets
// those that are gone from the store.
func (t *timers) fresh(due []machine.Timer, now int64) []machine.Timer {
	waiting := make(map[machine.Timer]int64, len(t.stuck))
	fresh := due[:0:0]
	for _, timer := range due {
		if again := t.stuck[timer]; again > now {
			waiting[timer] = again
		} else {
			fresh = append(fresh, timer)
		}
	}
	t.stuck = waiting
	return fresh
}

// fireAll fires a batch, each timer in its run's own turn, and waits for all of
// them: that is what leaves room for live inputs between two batches. It
// reports whether any went through.
func (t *timers) fireAll(ctx context.Context, due []machine.Timer) bool {
	through := make([]bool, len(due))
	var batch sync.WaitGroup
	for i, timer := range due {
		batch.Go(func() { through[i] = t.fire(ctx, timer) })
	}
	batch.Wait()
	again := t.e.cfg.Clock.Now().Add(timerRetry).UnixNano()
	for i, timer := range due {
		if !through[i] && len(t.stuck) < maxStuck {
			t.stuck[timer] = again
		}
	}
	return slices.Contains(through, true)
}

// fire applies one timer and reports whether it is done with. A timer that
// changes nothing was replaced after it was read; one that is still there is
// stuck.
func (t *timers) fire(ctx context.Context, timer machine.Timer) bool {
	answer, err := t.e.apply(ctx, &change{
		key:       runKey{ns: timer.Namespace, id: timer.RunID},
		principal: Principal{Name: enginePrincipal},
		command:   machine.FireTimer{Kind: timer.Kind, Step: timer.Step, Turn: timer.Turn, Due: timer.Due},
		engine:    true,
	})
	if err != nil {
		return false
	}
	if len(answer.Entry.Records) > 0 {
		return true
	}
	return t.gone(ctx, timer)
}

// gone: the timer is not in the store any more.
func (t *timers) gone(ctx context.Context, timer machine.Timer) bool {
	s, err := t.e.store.Head(ctx, timer.Namespace, timer.RunID)
	if err != nil {
		return errors.Is(err, machine.ErrNoRun)
	}
	for _, still := range machine.Timers(s) {
		still.Namespace = timer.Namespace
		if still == timer {
			return false
		}
	}
	return true
}
