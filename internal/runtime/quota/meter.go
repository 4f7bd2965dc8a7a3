package quota

import (
	"time"

	"golang.org/x/time/rate"
)

// maxBurst is the most of a rate beside the table that is let through at once.
const maxBurst = 1 << 20

// pace is how much comes in a second, and how much is let through at once; zero: any number.
type pace struct {
	every rate.Limit
	burst int
}

// paceOf is that of a bound: as much is let through at once as comes in its unit of time.
func paceOf(r Resource, most int64) pace {
	every := rate.Limit(most)
	if r == Starts {
		every /= 60
	}
	return pace{every, int(most)}
}

// perSecond is the pace of a rate that is in no table.
func perSecond(n float64) pace { return pace{rate.Limit(n), max(1, int(min(n, maxBurst)))} }

// meter is what is left of a resource. Its time never goes back: who asks late, or gives back
// what was taken before, would else bring the time in between a second time.
type meter struct {
	pace
	left *rate.Limiter
	now  time.Time
}

func newMeter(p pace) *meter { return &meter{pace: p, left: rate.NewLimiter(p.every, p.burst)} }

// take takes one at a time, or says after how long there is one.
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

// finish puts one back that was taken.
func (m *meter) giveBack() { m.left.ReserveN(m.now, -1) }
