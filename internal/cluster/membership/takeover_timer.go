package membership

import "time"

// How long a node waits before it takes over an unowned partition.
const (
	// fallbackDelay is the additional wait of nodes other than the successor.
	fallbackDelay = time.Second
	// ownerReturnGrace is the additional wait of nodes that could not read the rows for a while.
	// The owner could not renew its lease either. It may have lost the lease only for that reason,
	// and continues as soon as the rows are readable.
	ownerReturnGrace = 2 * time.Second
	// minTakeoverBackoff and maxTakeoverBackoff limit the wait after a failed try.
	minTakeoverBackoff = 2 * time.Second
	maxTakeoverBackoff = 8 * time.Second
)

// takeoverTimer decides when this node takes over an unowned partition. It holds what the last
// poll read about the partition.
type takeoverTimer struct {
	me string
	// unownedSince is the time since which the partition has no owner. It is zero if the
	// partition has one or is unknown.
	unownedSince time.Time
	// ownerReturnUntil is the time until which the other nodes wait for the last owner.
	ownerReturnUntil time.Time
	// retryAt is the earliest time of this node's next try after a failed one.
	retryAt time.Time
	backoff time.Duration
}

// observe records the owner in a new view. gap means that the view before it is so old that leases
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

// dueAt returns when this node takes over the partition. heir is the node that does so without the
// additional wait. It returns false if the partition has an owner.
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

// backOff delays the next try, so that other nodes try first. The delay doubles each time.
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
