package testkit

import (
	"slices"
	"sync"
	"time"
)

// Clock is a clock that moves only on request. Safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
	// elapsed is how far it was moved, jumps aside.
	elapsed time.Duration
	alarms  []alarm
	// set is closed and replaced whenever an alarm is set.
	set chan struct{}
}

// alarm is due when at has elapsed.
type alarm struct {
	at time.Duration
	ch chan time.Time
}

// NewClock starts at a fixed time.
func NewClock() *Clock {
	return &Clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), set: make(chan struct{})}
}

// Now is the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Elapsed is how far the clock was moved, jumps aside.
func (c *Clock) Elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.elapsed
}

// Jump sets the wall clock, forwards or back; no time passes.
func (c *Clock) Jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// After delivers once the clock was moved by d or more.
func (c *Clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan time.Time, 1)
	if d <= 0 {
		ch <- c.now
		return ch
	}
	c.alarms = append(c.alarms, alarm{at: c.elapsed + d, ch: ch})
	close(c.set)
	c.set = make(chan struct{})
	return ch
}

// Advance moves the clock and delivers what came due, in order.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.elapsed = c.now.Add(d), c.elapsed+d
	var later []alarm
	for _, a := range c.alarms {
		if a.at > c.elapsed {
			later = append(later, a)
			continue
		}
		a.ch <- c.now
	}
	c.alarms = later
}

// AwaitAlarm returns once an alarm stands that a move by d would deliver.
func (c *Clock) AwaitAlarm(d time.Duration) {
	for {
		set, stands := c.alarmWithin(d)
		if stands {
			return
		}
		<-set
	}
}

// AdvanceUntil moves the clock by d whenever that delivers an alarm, until done is closed.
func (c *Clock) AdvanceUntil(done <-chan struct{}, d time.Duration) {
	now := make(chan struct{})
	close(now)
	for {
		set, stands := c.alarmWithin(d)
		if stands {
			c.Advance(d)
			set = now
		}
		select {
		case <-done:
			return
		case <-set:
		}
	}
}

// alarmWithin tells whether an alarm stands that a move by d would deliver; set is closed
// with the next one that is set.
func (c *Clock) alarmWithin(d time.Duration) (set <-chan struct{}, stands bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set, slices.ContainsFunc(c.alarms, func(a alarm) bool { return a.at <= c.elapsed+d })
}
