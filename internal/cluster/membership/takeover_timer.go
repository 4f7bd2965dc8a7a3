package membership

import "time"

// These constants define how long a node waits before it takes over an unowned partition.
const (
	// fallbackDelay is the additional time that nodes other than the successor wait.
	fallbackDelay = time.Second
	// ownerReturnGrace is the additional time that nodes wait if they could not read the rows for a
	// while. In that time, the owner could not renew its lease either. It may have lost the lease only
	// for this reason, and continues when the rows can be read again.
	ownerReturnGrace = 2 * time.Second
	// minTakeoverBackoff and maxTakeoverBackoff limit the wait after a failed attempt.
	minTakeoverBackoff = 2 * time.Second
	maxTakeoverBackoff = 8 * time.Second
)

// takeoverTimer decides when this node takes over an unowned partition. It contains the data about the
// partition that the last poll read.
type takeoverTimer struct {
	me string
	// unownedSince is the time since which the partition has no owner. It is zero if the partition has
	// an owner or is unknown.
	unownedSince time.Time
	// ownerReturnUntil is the time until which the other nodes wait for the last owner.
	ownerReturnUntil time.Time
	// retryAt is the earliest time of this node's next attempt after a failed attempt.
	retryAt time.Time
	backoff time.Duration
}

// observe records the owner in a new view. gap reports whether the previous view is so old that leases
// may have ended only because their owners could not renew them.
func (c *takeoverTimer) observe(owner Member, now time.Time, gap bool) {
	if gap {
		c.ownerReturnUntil = now.Add(ownerReturnGrace)
	}
	if owner != (Member{}) {
		c.unownedSince = time.Time{}
		if owner.ID != c.me {
			c.reset()
		}
		return
	}
	if c.unownedSince.IsZero() {
		c.unownedSince = now
	}
}

// dueAt returns the time when this node takes over the partition. heir is the node that does so without
// the additional wait. dueAt returns false if the partition has an owner.
func (c *takeoverTimer) dueAt(heir string) (time.Time, bool) {
	if c.unownedSince.IsZero() {
		return time.Time{}, false
	}
	at := c.unownedSince
	if heir != c.me {
		at = at.Add(fallbackDelay)
	}
	return later(at, c.ownerReturnUntil, c.retryAt), true
}

// reset forgets earlier failures.
func (c *takeoverTimer) reset() { c.retryAt, c.backoff = time.Time{}, 0 }

// backOff delays the next attempt, so that other nodes try first. The delay doubles each time.
func (c *takeoverTimer) backOff(now time.Time) {
	c.backoff = min(max(2*c.backoff, minTakeoverBackoff), maxTakeoverBackoff)
	c.retryAt = now.Add(c.backoff)
}

func later(times ...time.Time) (latest time.Time) {
	for _, t := range times {
		if t.After(latest) {
			latest = t
		}
	}
	return latest
}
