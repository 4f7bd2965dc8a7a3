//go:build sim

package simulation

import (
	"sync"
	"time"
)

// clock is the clock of a node. Time passes at the same rate on all nodes, but the wall clock of a node
// may be set.
type clock struct {
	mu   sync.Mutex
	skew time.Duration
	// ahead is the largest lead that the clock ever had over the time of the bubble.
	ahead time.Duration
	born  time.Time
}

// newClock returns a clock that is the given time behind the time of the bubble. The time of the bubble
// begins at midnight.
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
