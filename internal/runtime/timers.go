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
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// maxClockSleep bounds one sleep until a time of the wall clock. The wall clock may be set during the sleep, so it is
// read again after each sleep.
const maxClockSleep = time.Second

// timerRetry is the pause before the loop tries a timer again that could not be fired.
const timerRetry = time.Second

// timerShard fires the durable timers of the store when they are due. It reads them from the store in batches, so runs
// that wait for a timer need no memory. Only [timerShard.round] assumes that this process fires all timers of the
// store.
type timerShard struct {
	e *Engine
	// alarm is the due time until which the loop sleeps, in Unix nanoseconds. A timer that is set for an earlier time
	// wakes the loop. While the loop reads the store, every new timer wakes it.
	alarm atomic.Int64
	wake  chan struct{}
	// failed are the timers that could not be fired, with the time of the next attempt as a value of Clock.Elapsed. A
	// failed timer does not prevent later timers from firing. Only the loop uses this map.
	failed map[machine.Timer]time.Duration
}

// maxFailedTimers bounds the number of timers in timerShard.failed.
const maxFailedTimers = 4096

func newTimerShard(e *Engine) *timerShard {
	t := &timerShard{e: e, wake: make(chan struct{}, 1), failed: make(map[machine.Timer]time.Duration)}
	t.alarm.Store(math.MaxInt64)
	return t
}

// onCommit wakes the loop if a commit has set a timer that is due before the end of the loop's sleep.
func (t *timerShard) onCommit(batch *machine.Batch) {
	for i := range batch.TimersSet {
		t.onTimerSet(batch.TimersSet[i].Due)
	}
}

// onTimerSet wakes the loop if the time due is before the end of the loop's sleep.
func (t *timerShard) onTimerSet(due int64) {
	if due >= t.alarm.Load() {
		return
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// These are special values that round returns instead of a time.
const (
	roundImmediate = 0
	roundRetry     = -1
	roundNone      = math.MaxInt64
)

// run is the loop that fires timers until ctx ends or the engine no longer accepts inputs.
func (t *timerShard) run(ctx context.Context) {
	for ctx.Err() == nil && t.e.limiter.Check() == nil {
		switch due := t.round(ctx); due {
		case roundImmediate: // the next round begins at once
		case roundRetry:
			t.sleep(ctx, t.e.cfg.Clock.After(timerRetry))
		case roundNone:
			t.sleep(ctx, nil)
		default:
			t.sleepUntil(ctx, due)
		}
	}
}

// sleepUntil sleeps until a time of the wall clock, in Unix nanoseconds, or until the loop is woken. It
// reads the wall clock every maxClockSleep, because the clock may be set during the sleep.
func (t *timerShard) sleepUntil(ctx context.Context, due int64) {
	for {
		pause := time.Duration(due - t.e.cfg.Clock.Now().UnixNano())
		if pause <= 0 || !t.sleep(ctx, t.e.cfg.Clock.After(min(pause, maxClockSleep))) {
			return
		}
	}
}

// sleep waits until alarm delivers a value or the loop is woken. A nil alarm never delivers. sleep returns false if it
// ends for another reason than the alarm.
func (t *timerShard) sleep(ctx context.Context, alarm <-chan time.Time) bool {
	select {
	case <-alarm:
		return true
	case <-t.wake:
	case <-ctx.Done():
	case <-t.e.limiter.Failed():
	case <-t.e.limiter.Empty():
	}
	return false
}

// round fires one batch of due timers. It returns the time at which the next timers are due, in Unix nanoseconds, or a
// special value: roundImmediate (call round again at once), roundRetry (a timer or the store failed) or roundNone (no
// timer is set).
func (t *timerShard) round(ctx context.Context) int64 {
	t.alarm.Store(math.MaxInt64)
	now := t.e.cfg.Clock.Now().UnixNano()
	due, next, err := t.e.store.DueTimers(ctx, now, t.e.cfg.TimersInFlight+len(t.failed))
	if err != nil {
		return roundRetry
	}
	if fresh := t.withoutFailed(due); len(fresh) > 0 {
		if t.fireAll(ctx, fresh) {
			return roundImmediate
		}
		return roundRetry
	}
	if len(t.failed) > 0 {
		return roundRetry
	}
	if next == 0 {
		return roundNone
	}
	t.alarm.Store(next)
	return next
}

// withoutFailed returns the due timers without the failed timers that must not be tried again yet. Failed timers that are no
// longer due are removed from the map failed.
func (t *timerShard) withoutFailed(due []machine.Timer) []machine.Timer {
	now := t.e.cfg.Clock.Elapsed()
	waiting := make(map[machine.Timer]time.Duration, len(t.failed))
	fresh := due[:0:0]
	for _, timer := range due {
		if again := t.failed[timer]; again > now {
			waiting[timer] = again
		} else {
			fresh = append(fresh, timer)
		}
	}
	t.failed = waiting
	return fresh
}

// fireAll fires a batch of timers at the same time and waits for all of them. Each timer waits for the execution slot
// of its run. fireAll reports whether any timer was fired.
func (t *timerShard) fireAll(ctx context.Context, due []machine.Timer) bool {
	through := make([]bool, len(due))
	var batch sync.WaitGroup
	for i, timer := range due {
		batch.Go(func() { through[i] = t.fire(ctx, timer) })
	}
	batch.Wait()
	again := t.e.cfg.Clock.Elapsed() + timerRetry
	for i, timer := range due {
		if !through[i] && len(t.failed) < maxFailedTimers {
			t.failed[timer] = again
		}
	}
	return slices.Contains(through, true)
}

// fire applies one timer and reports whether the timer is finished. If the timer made no change, it was usually
// replaced after it was read. If a timer without effect is still in the store, it counts as failed.
func (t *timerShard) fire(ctx context.Context, timer machine.Timer) bool {
	answer, err := t.e.ApplyInternal(ctx, RunKey{Namespace: timer.Namespace, ID: timer.RunID}, machine.FireTimer{
		Kind: timer.Kind, Step: timer.Step, Turn: timer.Turn, Due: timer.Due,
	})
	if err != nil {
		return false
	}
	if len(answer.Entry.Records) > 0 {
		return true
	}
	return t.isRemoved(ctx, timer)
}

// isRemoved reports whether the stored state of the run no longer has the timer. A run that
// does not exist has no timers. It returns false if the state cannot be read.
func (t *timerShard) isRemoved(ctx context.Context, timer machine.Timer) bool {
	s, err := t.e.store.Head(ctx, timer.Namespace, timer.RunID)
	if err != nil {
		return errors.Is(err, machine.ErrNoRun)
	}
	for _, still := range rules.Timers(s) {
		still.Namespace = timer.Namespace
		if still == timer {
			return false
		}
	}
	return true
}
