package ratelimit

import "time"

// bucket is the usage of one key of one limit. A limit has a separate bucket for each key, for example
// for each tenant.
type bucket struct {
	limit *Limit
	key   string
	// open is the number of calls in progress that the bucket counts.
	open          int64
	calls, tokens meter
	// until is the end of the pause that a provider has asked for, on the clock of the limiter. No call
	// begins before it.
	until time.Duration
	// typical is the average number of tokens that recent calls used. 0 means that it is not known.
	typical int64
	// queues are the queues of calls that wait for this bucket. A queue may wait for other buckets,
	// too.
	queues map[*queue]struct{}
	// served is, for each tenant, how much of the bucket the tenant has received, divided by its weight.
	// Tenants that have received less come first. now is the position of the call that began last, in the
	// same unit.
	served map[string]float64
	now    float64
	// admitted is the number of calls that began, and waited the number of those that had to wait, for
	// metrics.
	admitted, waited int64
}

func newBucket(l *Limit, key string, now time.Duration) *bucket {
	b := &bucket{limit: l, key: key, queues: map[*queue]struct{}{}, served: map[string]float64{}}
	b.calls.at, b.tokens.at, b.until = now, now, now
	b.bound(l)
	b.calls.level, b.tokens.level = b.calls.burst(), b.tokens.burst()
	return b
}

// bound sets new limits for the bucket. The usage stays.
func (b *bucket) bound(l *Limit) {
	b.limit, b.calls.limit, b.tokens.limit = l, l.PerMinute, l.TokensPerMinute
}

// isFull reports whether as many calls are in progress as the limit allows.
func (b *bucket) isFull() bool { return b.limit.Concurrent > 0 && b.open >= b.limit.Concurrent }

// never is the waiting time of a call that can begin only after another call has ended.
const never = time.Duration(1<<63 - 1)

// wait returns how long a call has to wait for the bucket. 0 means that it may begin now.
func (b *bucket) wait(now time.Duration, t *reservation) time.Duration {
	if b.isFull() {
		return never
	}
	pause := max(0, b.until-now)
	pause = max(pause, b.calls.wait(now, 1))
	return max(pause, b.tokens.wait(now, b.tokenCost(t)))
}

// tokenCost returns the number of tokens that a call takes from the bucket: the maximum that the call
// declares, or, if it declares none, the typical usage of other calls.
func (b *bucket) tokenCost(t *reservation) int64 {
	if t.tokens > 0 {
		return t.tokens
	}
	return b.typical
}

// share returns the part of a minute's limit that a call uses, divided by the weight of its tenant. If
// the limit bounds calls and tokens, it is the greater part. If it bounds neither, the part is 1.
// Tenants with a lower sum of shares come first.
func (b *bucket) share(t *reservation) float64 {
	worth := 0.0
	if most := b.limit.PerMinute; most > 0 {
		worth = 1 / float64(most)
	}
	if most := b.limit.TokensPerMinute; most > 0 {
		worth = max(worth, float64(b.tokens.capToLimit(b.tokenCost(t)))/float64(most))
	}
	if worth == 0 {
		worth = 1
	}
	return worth / b.limit.weight(t.tenant)
}

// tenantPosition returns the position of a tenant among the tenants that wait. A lower position comes first.
func (b *bucket) tenantPosition(tenant string) float64 { return max(b.served[tenant], b.now) }

// maxServed is the number of remembered tenants above which the received shares are cleaned up: tenants
// that have received no more than others are forgotten. A tenant that has received more is always
// remembered.
const maxServed = 1024

func (b *bucket) serve(t *reservation) {
	begins := b.tenantPosition(t.tenant)
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

// isIdle reports whether the bucket is unused, so that it can be removed. Only the typical usage and the
// shares that tenants have received are lost with it.
func (b *bucket) isIdle(now time.Duration) bool {
	return b.open == 0 && len(b.queues) == 0 && b.until <= now && b.calls.isIdle(now) && b.tokens.isIdle(now)
}

// observeProviderLimits applies the limits that a provider reported. Afterwards the bucket allows no
// more calls and tokens than the provider does, as far as the bucket bounds them and the provider has
// reported the time of the reset.
func (b *bucket) observeProviderLimits(now time.Duration, limits *ProviderLimits) {
	b.until = max(b.until, now+limits.Wait)
	observeProviderLimit(&b.calls, now, limits.Requests, limits.RequestsReset)
	observeProviderLimit(&b.tokens, now, limits.Tokens, limits.TokensReset)
}

// observeProviderLimit counts usage that the provider has counted but this process has not, for example
// by other programs. The usage gets a time at which it expires together with the provider's reset.
func observeProviderLimit(m *meter, now time.Duration, left *int64, reset time.Duration) {
	if left == nil || m.limit == 0 {
		return
	}
	m.advance(now)
	if unknown := m.limit - m.sum - max(0, *left); unknown > 0 && reset > 0 {
		m.put(now-minute+min(reset, minute), unknown)
		m.level = min(m.level, float64(max(0, *left)))
	}
}
