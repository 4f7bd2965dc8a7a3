//go:build sim

package simulation

import (
	"sync"
	"time"
)

// clock is a node's: time passes for all alike, the wall clock may be set.
type clock struct {
	mu   sync.Mutex
	skew time.Duration
	// ahead is the furthest that it ever was.
	ahead time.Duration
	born  time.Time
}

// newClock is one that is so far behind the time of the bubble, which begins as a day does.
func newClock(behind time.Duration) *clock {
	return &clock{born: time.Now(), skew: -behind, ahead: -behind}
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.skew)
}

func (c *clock) Elapsed() time.Duration { return time.Since(c.born) }

func (c *clock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// jump sets the wall clock.
func (c *clock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew += d
	c.ahead = max(c.ahead, c.skew)
}
