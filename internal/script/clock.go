package script

import (
	"sync"
	"time"
)

// Clock is the real time plus the time that a script has skipped. It implements the engine's clock.
type Clock struct {
	made    time.Time
	mu      sync.Mutex
	skipped time.Duration
	waiting map[*waiter]struct{}
}

// waiter is one call of After whose time has not passed yet.
type waiter struct {
	due  time.Time
	fire chan time.Time
	real *time.Timer
}

// NewClock makes a clock that shows the real time.
func NewClock() *Clock { return &Clock{made: time.Now(), waiting: map[*waiter]struct{}{}} }

// Now returns the script's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *Clock) now() time.Time { return time.Now().Add(c.skipped) }

// Elapsed returns the time since the clock was made, including the skipped time.
func (c *Clock) Elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.made) + c.skipped
}

// After returns a channel that receives one value when the duration d has passed on this clock, which includes
// skipped time.
func (c *Clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &waiter{due: c.now().Add(d), fire: make(chan time.Time, 1)}
	c.waiting[w] = struct{}{}
	w.real = time.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.deliver(w)
	})
	return w.fire
}

// Advance skips d at once.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skipped += d
	for w := range c.waiting {
		if !w.due.After(c.now()) {
			c.deliver(w)
		}
	}
}

// deliver sends the time to a waiter, at most once. The caller must hold the clock's lock.
func (c *Clock) deliver(w *waiter) {
	if _, open := c.waiting[w]; !open {
		return
	}
	delete(c.waiting, w)
	w.real.Stop()
	w.fire <- c.now()
}
