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

// maxClockSleep bounds one sleep while the loop waits for a time of the wall clock. The clock may be
// set during the sleep, so it is read again after each sleep.
const maxClockSleep = time.Second

// timerRetry is the pause before a timer is tried again if the store or a run has refused it.
const timerRetry = time.Second

// timerShard fires the durable timers of the store when they are due. Only [timerShard.round] assumes
// that this process fires all timers of the store. Timers are read from the store in batches, so runs
// that wait for a timer need no memory.
type timerShard struct {
	e *Engine
	// alarm is the due time until which the loop sleeps. A timer that is set for an earlier time wakes the loop. While the loop reads the
	// store, every new timer wakes it.
	alarm atomic.Int64
	wake  chan struct{}
	// failed are the timers that could not be fired. The value is the time of the next attempt, as a
	// value of the clock's Elapsed. A timer in this map does not prevent later timers from firing. Only
	// the loop uses this map.
	failed map[machine.Timer]time.Duration
}

// maxFailedTimers bounds the failed timers in failed.
const maxFailedTimers = 4096

func newTimerShard(e *Engine) *timerShard {
	t := &timerShard{e: e, wake: make(chan struct{}, 1), failed: make(map[machine.Timer]time.Duration)}
	t.alarm.Store(math.MaxInt64)
	return t
}

// onCommit wakes the loop if the commit set a timer that is due earlier than the alarm.
func (t *timerShard) onCommit(batch *machine.Batch) {
	for i := range batch.TimersSet {
		t.onTimerSet(batch.TimersSet[i].Due)
	}
}

// onTimerSet wakes the loop if due is earlier than the alarm.
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

// run fires timers until ctx ends or the engine no longer accepts inputs.
func (t *timerShard) run(ctx context.Context) {
	for ctx.Err() == nil && t.e.limiter.Check() == nil {
		switch due := t.round(ctx); due {
		case roundImmediate:
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

// sleep waits until the alarm fires or the loop is woken. If alarm is nil, it never fires. sleep
// returns false if the loop was woken.
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

// round fires one batch of due timers. It returns the time at which the next timers are due, in Unix
// nanoseconds, or one of three special values: roundImmediate (at once), roundRetry (a timer or the
// store failed) or roundNone (no timer is set).
func (t *timerShard) round(ctx context.Context) int64 {
	t.alarm.Store(math.MaxInt64)
	now := t.e.cfg.Clock.Now().UnixNano()
	due, next, err := t.e.store.DueTimers(ctx, now, t.e.cfg.TimersInFlight+len(t.failed))
	if err != nil {
		return roundRetry
	}
	if fresh := t.fresh(due); len(fresh) > 0 {
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

// fresh returns the due timers, except the failed timers that must not be tried again yet. It also
// removes the failed timers that are no longer in the store from the map failed.
func (t *timerShard) fresh(due []machine.Timer) []machine.Timer {
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

// fireAll fires a batch of timers and waits for all of them. Each timer is fired while the turn of its
// run is held. Callers' inputs can be executed between two batches. fireAll reports whether any timer
// was fired.
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

// fire applies one timer and reports whether the timer is finished. If a timer made no change, it was
// replaced after it was read. If it is nevertheless still in the store, it counts as failed.
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
	return t.gone(ctx, timer)
}

// gone reports whether the timer is no longer in the store.
func (t *timerShard) gone(ctx context.Context, timer machine.Timer) bool {
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
