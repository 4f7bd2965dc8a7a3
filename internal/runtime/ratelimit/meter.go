package ratelimit

import (
	"slices"
	"time"
)

const (
	// minute is the time in which a limit holds. It is half a second longer than one: calls
	// arrive later than they are let go, and not all of them equally late.
	minute = 60*time.Second + 500*time.Millisecond
	// grain is how near to each other what was taken counts as taken at once, at the later
	// time. It bounds what is remembered.
	grain = 100 * time.Millisecond
)

// meter is one rate: no minute has more than most, and what comes does so evenly, but for a
// burst of a tenth.
type meter struct {
	most int64
	// level is what may be taken at once, as of at; below zero after something large.
	level float64
	at    time.Duration
	// slots are what was taken in the last minute, oldest first, and sum all of them.
	slots []slot
	sum   int64
}

type slot struct {
	first, last time.Duration
	n           int64
}

// burst is the most that level reaches: nothing is saved up while the minute is used up, or
// each minute would begin as unevenly as the first.
func (m *meter) burst() float64 { return max(1, min(float64(m.most)/10, float64(m.most-m.sum))) }

// perSecond is how fast level rises.
func (m *meter) perSecond() float64 { return float64(m.most) / 60 }

// advance brings the meter to a time; one that is over changes nothing.
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

// need is what of n the level has to have: a call that is larger than the burst waits for a
// full one, and the calls after it for what it owes.
func (m *meter) need(n int64) float64 { return min(float64(n), m.burst()) }

// fits is what n counts as: who may take more than a minute has waits for a whole one.
func (m *meter) fits(n int64) int64 { return min(n, m.most) }

// wait is how long it takes until n may be taken; 0 = at once. most 0 is no limit.
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

// take counts n as taken at a time, which may be one to come or one that was, whether there
// is room or not.
func (m *meter) take(now, at time.Duration, n int64) {
	m.advance(now)
	m.level -= float64(n)
	m.put(at, n)
	m.advance(now)
}

// replayPast counts n as taken at a time by somebody else; from now on what comes comes evenly.
func (m *meter) replayPast(now, at time.Duration, n int64) {
	if m.most > 0 && n > 0 {
		m.level = min(m.level, 0)
		m.put(at, n)
		m.advance(now)
	}
}

// put remembers n at a time.
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

// correct changes what was taken at a time by as much as it was too much (below zero) or too
// little: a minute after it was taken nobody counts it any more.
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

// idle: nothing is known that would have to be remembered.
func (m *meter) idle(now time.Duration) bool {
	m.advance(now)
	return len(m.slots) == 0
}
