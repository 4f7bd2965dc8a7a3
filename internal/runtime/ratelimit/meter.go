package ratelimit

import (
	"slices"
	"time"
)

const (
	// minute is the window of a limit. It is half a second longer than a minute, because calls reach
	// the provider with a varying delay after they may begin.
	minute = 60*time.Second + 500*time.Millisecond
	// grain is the interval within which all usage is stored as one entry, to save memory. The entry
	// expires as if all its usage had the latest time of the interval.
	grain = 100 * time.Millisecond
)

// meter enforces one rate: the sum of the usage in any window is at most `limit`. The usage is spread
// evenly over the window, except for a burst of a tenth of the limit.
type meter struct {
	limit int64
	// level is the amount that may be used at once, at the time `at`. It is negative after a large
	// call.
	level float64
	at    time.Duration
	// slots are the usage in the last window, the oldest first. sum is the total.
	slots []slot
	sum   int64
}

type slot struct {
	first, last time.Duration
	n           int64
}

// burst returns the maximum of level. It is lower when the window is nearly used up. Otherwise a full
// burst would accumulate again, and the usage would be as uneven in each minute as in the first.
func (m *meter) burst() float64 { return max(1, min(float64(m.limit)/10, float64(m.limit-m.sum))) }

// perSecond returns how much level rises in a second.
func (m *meter) perSecond() float64 { return float64(m.limit) / 60 }

// advance moves the meter to the time now: level rises, and usage outside of the window is forgotten.
// If now is earlier than the meter's time, level does not change.
func (m *meter) advance(now time.Duration) {
	if now > m.at {
		m.level = max(m.level, min(m.burst(), m.level+m.perSecond()*(now-m.at).Seconds()))
		m.at = now
	}
	gone := 0
	for gone < len(m.slots) && m.slots[gone].last+minute <= now {
		m.sum -= m.slots[gone].n
		gone++
	}
	m.slots = slices.Delete(m.slots, 0, gone)
}

// requiredLevel returns the level that is required to use n. An n above the burst requires a full burst, and
// later calls then wait until the level has recovered.
func (m *meter) requiredLevel(n int64) float64 { return min(float64(n), m.burst()) }

// capToLimit limits n to the limit of a window. So a call that may use more than the limit waits for an empty
// window and can still begin.
func (m *meter) capToLimit(n int64) int64 { return min(n, m.limit) }

// wait returns the time until n may be used. 0 means now. If the meter has no limit (limit is 0), it
// is always 0.
func (m *meter) wait(now time.Duration, n int64) time.Duration {
	if m.limit == 0 {
		return 0
	}
	m.advance(now)
	n = m.capToLimit(n)
	var pause time.Duration
	if missing := m.requiredLevel(n) - m.level; missing > 1e-6 {
		pause = max(time.Duration(missing/m.perSecond()*float64(time.Second)), time.Microsecond)
	}
	over := m.sum + n - m.limit
	for i := 0; over > 0 && i < len(m.slots); i++ {
		over -= m.slots[i].n
		pause = max(pause, m.slots[i].last+minute-now)
	}
	return pause
}

// take counts a usage of n at the time `at`, even if this exceeds the limit. at may be in the past or
// in the future.
func (m *meter) take(now, at time.Duration, n int64) {
	m.advance(now)
	m.level -= float64(n)
	m.put(at, n)
	m.advance(now)
}

// replayPast counts a usage of n by an earlier process at the time `at`. Afterwards no burst is
// available, so that further usage is spread evenly.
func (m *meter) replayPast(now, at time.Duration, n int64) {
	if m.limit > 0 && n > 0 {
		m.level = min(m.level, 0)
		m.put(at, n)
		m.advance(now)
	}
}

// put stores a usage of n at the time `at`.
func (m *meter) put(at time.Duration, n int64) {
	m.sum += n
	i := len(m.slots)
	for i > 0 && m.slots[i-1].first > at {
		i--
	}
	if i > 0 && at-m.slots[i-1].first < grain {
		m.slots[i-1].last = max(m.slots[i-1].last, at)
		m.slots[i-1].n += n
		return
	}
	m.slots = slices.Insert(m.slots, i, slot{first: at, last: at, n: n})
}

// correct changes the usage that was counted at the time `at` by the difference `by`. A negative
// difference means that too much was counted. It is taken back from one slot only. Usage outside of the
// window is not changed.
func (m *meter) correct(now, at time.Duration, by int64) {
	m.advance(now)
	if by > 0 {
		m.level -= float64(by)
		m.put(max(at, now-minute+time.Nanosecond), by)
		return
	}
	for i := len(m.slots) - 1; i >= 0 && by < 0; i-- {
		if s := &m.slots[i]; s.first <= at {
			back := min(s.n, -by)
			s.n, m.sum, by = s.n-back, m.sum-back, 0
			m.level = min(max(1, float64(m.limit)/10), m.level+float64(back))
		}
	}
}

// isIdle reports whether the window contains no usage.
func (m *meter) isIdle(now time.Duration) bool {
	m.advance(now)
	return len(m.slots) == 0
}
