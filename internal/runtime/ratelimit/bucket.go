package ratelimit

import "time"

// bucket is what is counted together: one key of one limit.
type bucket struct {
	limit *Limit
	key   string
	// open are the calls that have a place.
	open          int64
	calls, tokens meter
	// until: a provider asked to send nothing before.
	until time.Duration
	// typical is what calls consume, as far as it was told; 0 = of none.
	typical int64
	// queues wait for it, among others perhaps.
	queues map[*queue]struct{}
	// served is the order of service: how much of the bucket each tenant has had by its
	// weight. now is what the one that was served last had.
	served map[string]float64
	now    float64
	// counted for metrics.
	admitted, waited int64
}

func newBucket(l *Limit, key string, now time.Duration) *bucket {
	b := &bucket{limit: l, key: key, queues: map[*queue]struct{}{}, served: map[string]float64{}}
	b.calls.at, b.tokens.at, b.until = now, now, now
	b.bound(l)
	b.calls.level, b.tokens.level = b.calls.burst(), b.tokens.burst()
	return b
}

// bound puts other bounds in force.
func (b *bucket) bound(l *Limit) {
	b.limit, b.calls.most, b.tokens.most = l, l.PerMinute, l.TokensPerMinute
}

// full: as many are open as may be.
func (b *bucket) full() bool { return b.limit.Concurrent > 0 && b.open >= b.limit.Concurrent }

// never is the pause of who waits for somebody else to be through.
const never = time.Duration(1<<63 - 1)

// wait is how long a ticket has to wait for the bucket; 0 = it may go.
func (b *bucket) wait(now time.Duration, t *reservation) time.Duration {
	if b.full() {
		return never
	}
	pause := max(0, b.until-now)
	pause = max(pause, b.calls.wait(now, 1))
	return max(pause, b.tokens.wait(now, b.tokenCost(t)))
}

// tokenCost is what a ticket takes of the tokens: what it may consume, and where nobody says so,
// what others did.
func (b *bucket) tokenCost(t *reservation) int64 {
	if t.tokens > 0 {
		return t.tokens
	}
	return b.typical
}

// share is what a ticket is worth of a minute, for the order of service.
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

// begins is where a tenant stands in the order of service.
func (b *bucket) begins(tenant string) float64 { return max(b.served[tenant], b.now) }

// maxServed bounds the tenants whose place in the order is remembered, once they are not
// ahead of the others.
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

// idle: it is as a new one.
func (b *bucket) idle(now time.Duration) bool {
	return b.open == 0 && len(b.queues) == 0 && b.until <= now && b.calls.idle(now) && b.tokens.idle(now)
}

// observeProviderLimits takes what a provider told: what it says is left is the most that is.
func (b *bucket) observeProviderLimits(now time.Duration, told *ProviderLimits) {
	b.until = max(b.until, now+told.Wait)
	observeProviderLimit(&b.calls, now, told.Requests, told.RequestsReset)
	observeProviderLimit(&b.tokens, now, told.Tokens, told.TokensReset)
}

// observeProviderLimit counts what the provider counted and we did not as taken so long ago that it is
// over when the provider says.
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
