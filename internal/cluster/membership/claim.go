package membership

import "time"

// How long a node waits that may take a partition.
const (
	// turn is how long those wait who do not come first.
	turn = time.Second
	// comeback is how long all wait who could not read the rows: nor could the owner, whose lease
	// may have ended by that alone, and who goes on as soon as the rows are back.
	comeback = 2 * time.Second
	// firstRest and lastRest are between two tries that failed.
	firstRest = 2 * time.Second
	lastRest  = 8 * time.Second
)

// claim decides when this node takes a partition that nobody has. It knows what was seen last.
type claim struct {
	me string
	// free is since when nobody has it, as far as is seen; zero: somebody has, or there is none.
	free time.Time
	// blind is until when who had it may come back.
	blind time.Time
	// rest is until when this node does not try again, after tries that failed.
	rest   time.Time
	failed time.Duration
}

// sees learns from a view; gap: there was none for so long before it that leases ended by that.
func (c *claim) sees(owner Member, now time.Time, gap bool) {
	if gap {
		c.blind = now.Add(comeback)
	}
	if owner != (Member{}) {
		c.free = time.Time{}
		if owner.ID != c.me {
			c.opened()
		}
		return
	}
	if c.free.IsZero() {
		c.free = now
	}
}

// at is when this node takes it, of which heir takes it at once; false: somebody has it.
func (c *claim) at(heir string) (time.Time, bool) {
	if c.free.IsZero() {
		return time.Time{}, false
	}
	at := c.free
	if heir != c.me {
		at = at.Add(turn)
	}
	return later(at, c.blind, c.rest), true
}

// opened forgets what failed before.
func (c *claim) opened() { c.rest, c.failed = time.Time{}, 0 }

// fails has the others go first.
func (c *claim) fails(now time.Time) {
	c.failed = min(max(2*c.failed, firstRest), lastRest)
	c.rest = now.Add(c.failed)
}

func later(times ...time.Time) (latest time.Time) {
	for _, t := range times {
		if t.After(latest) {
			latest = t
		}
	}
	return latest
}
