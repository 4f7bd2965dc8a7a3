package membership

import "time"

// How long a node waits that may take a partition.
const (
	// fallbackDelay is the additional wait of nodes other than the successor.
	fallbackDelay = time.Second
	// ownerReturnGrace is the additional wait of nodes that could not read the rows. The owner
	// could not renew its lease either, may have lost it only for that reason, and continues as
	// soon as the rows are readable.
	ownerReturnGrace = 2 * time.Second
	// minTakeoverBackoff and maxTakeoverBackoff are between two tries that failed.
	minTakeoverBackoff = 2 * time.Second
	maxTakeoverBackoff = 8 * time.Second
)

// takeoverTimer decides when this node takes over an unowned partition. It keeps what the last
// poll read.
type takeoverTimer struct {
	me string
	// unownedSince is the time since which the partition has no owner; zero: it has one, or is
	// unknown.
	unownedSince time.Time
	// ownerReturnUntil is the time until which the last owner may come back.
	ownerReturnUntil time.Time
	// retryAt is until when this node does not try again, after tries that failed.
	retryAt time.Time
	backoff time.Duration
}

// observe learns from a view; gap: there was none for so long before it that leases ended by that.
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

// dueAt returns when this node takes over the partition. heir is the node that does so at once.
// false: the partition has an owner.
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

// reset forgets what failed before.
func (c *takeoverTimer) reset() { c.retryAt, c.backoff = time.Time{}, 0 }

// backOff has the others go first.
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
