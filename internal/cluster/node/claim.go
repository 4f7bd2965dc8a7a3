package node

import "time"

// How long a node waits that may take the store.
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

// claim decides when this node takes a store that nobody has. It knows what was seen last.
type claim struct {
	me string
	// had is who had the store last.
	had string
	// free is since when nobody has it, as far as is seen; zero: somebody has.
	free time.Time
	// blind is until when who had it may come back.
	blind time.Time
	// rest is until when this node does not try again, after tries that failed.
	rest   time.Time
	failed time.Duration
}

// sees learns from a view; gap: there was none for so long before it that leases ended by that.
func (c *claim) sees(v View, now time.Time, gap bool) {
	if gap {
		c.blind = now.Add(comeback)
	}
	if v.Owner != (Member{}) {
		c.had, c.free = v.Owner.ID, time.Time{}
		if v.Owner.ID != c.me {
			c.opened()
		}
		return
	}
	if c.free.IsZero() {
		c.free = now
	}
}

// at is when this node takes the store; false: somebody has it.
func (c *claim) at(v View) (time.Time, bool) {
	if c.free.IsZero() {
		return time.Time{}, false
	}
	at := c.free
	if c.first(v) != c.me {
		at = at.Add(turn)
	}
	return later(at, c.blind, c.rest), true
}

// first is who takes it at once. Who had it last, and did not renew the lease, is not there though
// its row may be.
func (c *claim) first(v View) string {
	for _, m := range v.Nodes {
		if !m.Leaving && m.Speaks >= v.Format && (m.ID != c.had || m.ID == c.me) {
			return m.ID
		}
	}
	return ""
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
