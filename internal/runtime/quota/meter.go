package quota

import (
	"time"

	"golang.org/x/time/rate"
)

// maxBurst is the largest burst of a rate that is not in the table.
const maxBurst = 1 << 20

// pace is a rate per second with its burst. Zero means that there is no limit.
type pace struct {
	every rate.Limit
	burst int
}

// paceOf returns the pace of a bound. The burst is the number of units that the bound allows per unit
// of time.
func paceOf(r Resource, most int64) pace {
	every := rate.Limit(most)
	if r == Starts {
		every /= 60
	}
	return pace{every, int(most)}
}

// perSecond returns the pace of a rate that is not in a table.
func perSecond(n float64) pace { return pace{rate.Limit(n), max(1, int(min(n, maxBurst)))} }

// meter is a token bucket of one resource. Its time never goes back. Otherwise a caller with an earlier
// time, or a returned unit, would add the tokens of the same time twice.
type meter struct {
	pace
	left *rate.Limiter
	now  time.Time
}

func newMeter(p pace) *meter { return &meter{pace: p, left: rate.NewLimiter(p.every, p.burst)} }

// take takes one unit. If no unit is left, it returns the time until the next unit is available.
func (m *meter) take(now time.Time) (wait time.Duration, ok bool) {
	if now.After(m.now) {
		m.now = now
	}
	if m.left.AllowN(m.now, 1) {
		return 0, true
	}
	missing := 1 - m.left.TokensAt(m.now)
	return max(time.Duration(missing/float64(m.every)*float64(time.Second)), time.Millisecond), false
}

// giveBack returns one unit.
func (m *meter) giveBack() { m.left.ReserveN(m.now, -1) }
