package ratelimit

import (
	"slices"
	"time"
)

const (
	// minute is the window of a limit. It is half a second longer than a minute, because calls reach
	// the provider with a varying delay after they are granted.
	minute = 60*time.Second + 500*time.Millisecond
	// grain is the interval within which all usage is stored as one entry. The entry has the latest
	// time of the interval. This bounds the memory.
	grain = 100 * time.Millisecond
)

// meter enforces one rate. No window exceeds most. The usage is spread evenly over the window, except
// for a burst of a tenth of the limit.
type meter struct {
	most int64
	// level is the amount that may be taken at once, at the time at. It is negative after a large call.
	level float64
	at    time.Duration
	// slots are the usage of the last window, the oldest first. sum is their total.
	slots []slot
	sum   int64
}

type slot struct {
	first, last time.Duration
	n           int64
}

// burst returns the maximum of level. The maximum is lower when the window is nearly used up. Otherwise
// a full burst would accumulate again, and the usage would be as uneven in each minute as in the first.
func (m *meter) burst() float64 { return max(1, min(float64(m.most)/10, float64(m.most-m.sum))) }

// perSecond is how fast level rises.
func (m *meter) perSecond() float64 { return float64(m.most) / 60 }

// advance moves the meter to the time now. If now is earlier than the meter's time, level does not
// change.
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

// need returns the level that is necessary to take n. A call that is larger than the burst waits for a
// full burst. Later calls then wait until the level has recovered.
func (m *meter) need(n int64) float64 { return min(float64(n), m.burst()) }

// fits limits n to a whole window. So a call that may use more than the limit waits for an empty
// window.
func (m *meter) fits(n int64) int64 { return min(n, m.most) }

// wait returns the time until n may be taken. 0 means now. If most is 0, there is no limit.
func (m *meter) wait(now time.Duration, n int64) time.Duration {
	if m.most == 0 {
		return 0
	}
	m.advance(now)
	n = m.fits(n)
	var pause time.Duration
	if missing := m.need(n) - m.level; missing > 1e-6 {
		pause = max(time.Duration(missing/m.perSecond()*float64(time.Second)), time.Microsecond)
	}
	over := m.sum + n - m.most
	for i := 0; over > 0 && i < len(m.slots); i++ {
		over -= m.slots[i].n
		pause = max(pause, m.slots[i].last+minute-now)
	}
	return pause
}

// take counts n at the time at, even if this exceeds the limit. at may be in the past or the future.
func (m *meter) take(now, at time.Duration, n int64) {
	m.advance(now)
	m.level -= float64(n)
	m.put(at, n)
	m.advance(now)
}

// replayPast counts usage n of another process at the time at. Later usage is spread evenly, without a
// burst.
func (m *meter) replayPast(now, at time.Duration, n int64) {
	if m.most > 0 && n > 0 {
		m.level = min(m.level, 0)
		m.put(at, n)
		m.advance(now)
	}
}

// put stores n at a time.
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

// correct changes the usage that was counted at the time at by the difference by. A negative difference
// means that too much was counted. After a whole window the change has no effect any more.
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
			m.level = min(max(1, float64(m.most)/10), m.level+float64(back))
		}
	}
}

// idle reports whether the meter has no usage that still counts.
func (m *meter) idle(now time.Duration) bool {
	m.advance(now)
	return len(m.slots) == 0
}
