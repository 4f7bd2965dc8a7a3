package membership

import "time"

// These constants define how long a node waits before it takes over an unowned partition.
const (
	// fallbackDelay is how much longer than the chosen successor all other nodes wait.
	fallbackDelay = time.Second
	// ownerReturnGrace is how much longer a node waits if it could not read the database for a while.
	// In that time, the owner of a partition could not renew its lease either. If it is still running,
	// it gets this time to renew its lease.
	ownerReturnGrace = 2 * time.Second
	// minTakeoverBackoff and maxTakeoverBackoff limit the wait after a failed attempt.
	minTakeoverBackoff = 2 * time.Second
	maxTakeoverBackoff = 8 * time.Second
)

// takeoverTimer decides at which time this node takes over a partition without an owner. It contains
// what the last poll of the database has read about the partition.
type takeoverTimer struct {
	self string
	// unownedSince is the time since which the partition has no owner. It is zero if the partition has
	// an owner or is unknown.
	unownedSince time.Time
	// ownerReturnUntil is the time until which this node waits for the last owner to renew its lease.
	ownerReturnUntil time.Time
	// retryAt is the earliest time at which this node tries again to take over the partition, after a
	// failed attempt.
	retryAt time.Time
	backoff time.Duration
}

// observe records the owner of the partition in a new view of the cluster. gap means that the database
// could not be read for a while before this view. Leases may then have ended only because their owners
// could not renew them.
func (c *takeoverTimer) observe(owner Member, now time.Time, gap bool) {
	if gap {
		c.ownerReturnUntil = now.Add(ownerReturnGrace)
	}
	if owner != (Member{}) {
		c.unownedSince = time.Time{}
		if owner.ID != c.self {
			c.reset()
		}
		return
	}
	if c.unownedSince.IsZero() {
		c.unownedSince = now
	}
}

// dueAt returns the time at which this node may take over the partition, and false if the partition has
// an owner. heir is the id of the chosen successor, which does not wait for fallbackDelay.
func (c *takeoverTimer) dueAt(heir string) (time.Time, bool) {
	if c.unownedSince.IsZero() {
		return time.Time{}, false
	}
	at := c.unownedSince
	if heir != c.self {
		at = at.Add(fallbackDelay)
	}
	return latestTime(at, c.ownerReturnUntil, c.retryAt), true
}

// reset forgets earlier failures.
func (c *takeoverTimer) reset() { c.retryAt, c.backoff = time.Time{}, 0 }

// backOff delays this node's next attempt to take over the partition, so that other nodes try first.
// The delay doubles each time.
func (c *takeoverTimer) backOff(now time.Time) {
	c.backoff = min(max(2*c.backoff, minTakeoverBackoff), maxTakeoverBackoff)
	c.retryAt = now.Add(c.backoff)
}

func latestTime(times ...time.Time) (latest time.Time) {
	for _, t := range times {
		if t.After(latest) {
			latest = t
		}
	}
	return latest
}
