package ratelimit

import "time"

// bucket is the usage of one key of one limit.
type bucket struct {
	limit *Limit
	key   string
	// open counts the calls that are active.
	open          int64
	calls, tokens meter
	// until is the time until which a provider requested that no calls be sent.
	until time.Duration
	// typical is the average number of tokens that recent calls used. 0 means that it is unknown.
	typical int64
	// queues are the queues that wait for this bucket. A queue may also wait for other buckets.
	queues map[*queue]struct{}
	// served is, for each tenant, the amount of the bucket that the tenant has received, divided by its
	// weight. It determines the order of service. now is the value of the tenant that was served last.
	served map[string]float64
	now    float64
	// admitted and waited are counts for metrics.
	admitted, waited int64
}

func newBucket(l *Limit, key string, now time.Duration) *bucket {
	b := &bucket{limit: l, key: key, queues: map[*queue]struct{}{}, served: map[string]float64{}}
	b.calls.at, b.tokens.at, b.until = now, now, now
	b.bound(l)
	b.calls.level, b.tokens.level = b.calls.burst(), b.tokens.burst()
	return b
}

// bound applies new limits.
func (b *bucket) bound(l *Limit) {
	b.limit, b.calls.most, b.tokens.most = l, l.PerMinute, l.TokensPerMinute
}

// full reports whether the number of concurrent calls has reached its limit.
func (b *bucket) full() bool { return b.limit.Concurrent > 0 && b.open >= b.limit.Concurrent }

// never is the waiting time of a call that can begin only after another call ends.
const never = time.Duration(1<<63 - 1)

// wait returns how long a reservation has to wait for the bucket. 0 means that the call may begin.
func (b *bucket) wait(now time.Duration, t *reservation) time.Duration {
	if b.full() {
		return never
	}
	pause := max(0, b.until-now)
	pause = max(pause, b.calls.wait(now, 1))
	return max(pause, b.tokens.wait(now, b.tokenCost(t)))
}

// tokenCost returns the number of tokens that a reservation takes. It is the maximum that the call
// declares. If the call declares none, it is the typical usage of other calls.
func (b *bucket) tokenCost(t *reservation) int64 {
	if t.tokens > 0 {
		return t.tokens
	}
	return b.typical
}

// share returns the fraction of a minute's limit that a reservation uses, divided by the tenant's
// weight. It determines the order of service.
func (b *bucket) share(t *reservation) float64 {
	worth := 0.0
	if most := b.limit.PerMinute; most > 0 {
		worth = 1 / float64(most)
	}
	if most := b.limit.TokensPerMinute; most > 0 {
		worth = max(worth, float64(b.tokens.fits(b.tokenCost(t)))/float64(most))
	}
	if worth == 0 {
		worth = 1
	}
	return worth / b.limit.weight(t.tenant)
}

// begins returns the position of a tenant in the order of service.
func (b *bucket) begins(tenant string) float64 { return max(b.served[tenant], b.now) }

// maxServed bounds the number of remembered tenants. A tenant that has received more than others is not
// removed.
const maxServed = 1024

func (b *bucket) serve(t *reservation) {
	begins := b.begins(t.tenant)
	b.now = begins
	b.served[t.tenant] = begins + b.share(t)
	if len(b.served) <= maxServed {
		return
	}
	for tenant, at := range b.served {
		if at <= b.now {
			delete(b.served, tenant)
		}
	}
}

// idle reports whether the bucket has the same state as a new bucket.
func (b *bucket) idle(now time.Duration) bool {
	return b.open == 0 && len(b.queues) == 0 && b.until <= now && b.calls.idle(now) && b.tokens.idle(now)
}

// observeProviderLimits applies limits that a provider reported. The bucket must not have more left
// than the provider reports.
func (b *bucket) observeProviderLimits(now time.Duration, limits *ProviderLimits) {
	b.until = max(b.until, now+limits.Wait)
	observeProviderLimit(&b.calls, now, limits.Requests, limits.RequestsReset)
	observeProviderLimit(&b.tokens, now, limits.Tokens, limits.TokensReset)
}

// observeProviderLimit records usage that the provider counted but this process did not. The usage gets
// a time such that it expires at the provider's reset time.
func observeProviderLimit(m *meter, now time.Duration, left *int64, reset time.Duration) {
	if left == nil || m.most == 0 {
		return
	}
	m.advance(now)
	if unknown := m.most - m.sum - max(0, *left); unknown > 0 && reset > 0 {
		m.put(now-minute+min(reset, minute), unknown)
		m.level = min(m.level, float64(max(0, *left)))
	}
}
