package ratelimit

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ID identifies one call: a step of a run, by its key. Each attempt of a tool step is a separate call.
// All attempts of a model step are one call, with Attempt 0.
type ID struct {
	Namespace uint32
	Run, Key  string
	Attempt   int
}

// Request is a model or tool call that wants to begin.
type Request struct {
	ID   ID
	Call Call
	// Step is the number of a tool step. It is 0 for a model call, which gets its number only when it
	// is recorded.
	Step uint32
	// Tokens is the maximum number of tokens that the call may consume. 0 means that it is not known.
	Tokens int64
}

// reservation is a call that waits or is in progress. A call in progress counts in each of its buckets.
type reservation struct {
	Request
	tokens  int64
	tenant  string
	buckets []*bucket
	queue   *queue
	seq     uint64
	// requestedAt is the time when the call was requested, and startedAt the time when it began, on the
	// clock of the limiter.
	requestedAt, startedAt time.Duration
	granted                bool
	// recorded reports whether a record of the run contains the call.
	recorded bool
	// step is the number of the step, once it is known.
	step uint32
}

// maxTokens returns the largest number of tokens that the call takes from one of its buckets. A call in
// progress keeps this number, even if the typical usage changes later.
func (t *reservation) maxTokens() (n int64) {
	for _, b := range t.buckets {
		n = max(n, b.tokenCost(t))
	}
	return n
}

// queue contains the waiting calls of one tenant for the same set of buckets, in the order of their
// requests.
type queue struct {
	name    string
	tenant  string
	buckets []*bucket
	waiting []*reservation
}

// Limiter decides which calls may begin. Not safe for concurrent use. All times come from one monotonic
// clock.
//
// Problem: a call counts against several limits at once, may need many tokens, and competes with other
// tenants.
//
// Invariants: when a call begins, it is counted in all of its buckets. A call that is released and was never recorded
// in the journal is taken out of these buckets again.
//
// Order: the queue of the tenant that has received least comes first. For each tenant, the bucket with its largest part
// is compared. Queues with equal values are sorted by the time of the request. If a queue has to wait
// for a bucket, no later queue may use the bucket in this round. Otherwise small calls would overtake a
// large call forever.
type Limiter struct {
	table        *Table
	buckets      map[string]*bucket
	queues       map[string]*queue
	reservations map[ID]*reservation
	seq          uint64
	sweep        int
	// totals are the counts of each limit since the start of the process.
	totals map[string]*Total
}

// NewLimiter returns a Limiter with a table of limits. If table is nil, there are no limits.
func NewLimiter(table *Table) *Limiter {
	d := &Limiter{buckets: map[string]*bucket{}, queues: map[string]*queue{}, reservations: map[ID]*reservation{}, sweep: minSweep, totals: map[string]*Total{}}
	d.table = cmp.Or(table, &Table{})
	return d
}

// Replace replaces the table of limits. A limit with the same ID and key expression keeps its usage.
// Calls in progress continue. Waiting calls wait for the new limits.
func (d *Limiter) Replace(now time.Duration, table *Table) {
	before := d.buckets
	d.table, d.buckets, d.queues = table, map[string]*bucket{}, map[string]*queue{}
	for _, l := range table.Limits {
		for name, b := range before {
			if b.limit.ID == l.ID && b.limit.Source == l.Source {
				b.open, b.queues = 0, map[*queue]struct{}{}
				b.bound(l)
				d.buckets[name] = b
			}
		}
	}
	all := make([]*reservation, 0, len(d.reservations))
	for _, t := range d.reservations {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *reservation) int { return cmp.Compare(a.seq, b.seq) })
	for _, t := range all {
		if !t.granted && t.queue == nil {
			continue // the call is matched with the new limits when it is requested again
		}
		d.matchBuckets(now, t)
		if t.granted {
			for _, b := range t.buckets {
				b.open++
			}
			continue
		}
		d.enqueue(t)
	}
}

// matchBuckets sets the buckets and the tenant of a call, according to the table.
func (d *Limiter) matchBuckets(now time.Duration, t *reservation) {
	t.buckets = nil
	vars := t.Call.vars()
	for _, l := range d.table.Limits {
		if key := l.key(vars); key != "" {
			t.buckets = append(t.buckets, d.bucket(now, l, key))
		}
	}
	t.tenant = t.Call.Labels[d.table.Tenant]
}

// minSweep is the number of buckets above which unused buckets are removed.
const minSweep = 1024

// bucket returns the bucket of a limit for a key, and creates it if needed. It then also drops idle buckets from
// time to time.
func (d *Limiter) bucket(now time.Duration, l *Limit, key string) *bucket {
	name := l.ID + "\x00" + key
	b := d.buckets[name]
	if b != nil {
		return b
	}
	if len(d.buckets) >= d.sweep {
		for other, b := range d.buckets {
			if b.isIdle(now) {
				delete(d.buckets, other)
			}
		}
		d.sweep = max(minSweep, 2*len(d.buckets))
	}
	b = newBucket(l, key, now)
	d.buckets[name] = b
	return b
}

func (d *Limiter) newReservation(now time.Duration, ask *Request) *reservation {
	d.seq++
	t := &reservation{Request: *ask, tokens: ask.Tokens, seq: d.seq, requestedAt: now, step: ask.Step}
	d.matchBuckets(now, t)
	d.reservations[ask.ID] = t
	return t
}

// Acquire reports whether a call may begin now. If not, the call waits until [Limiter.Admit] returns
// its ID. A repeated Acquire for a waiting call keeps its position. limited is false if no limit
// applies to the call.
func (d *Limiter) Acquire(now time.Duration, ask Request) (granted, limited bool) {
	t := d.reservations[ask.ID]
	switch {
	case t == nil:
		t = d.newReservation(now, &ask)
	case t.granted || t.queue != nil:
		return t.granted, true
	default:
		d.matchBuckets(now, t)
	}
	if len(t.buckets) == 0 {
		delete(d.reservations, ask.ID)
		return true, false
	}
	if d.mayBegin(now, t) {
		d.grant(now, t)
		return true, true
	}
	d.enqueue(t)
	return false, true
}

// mayBegin reports whether the call may begin now: no other call waits for its buckets, and each bucket has
// enough left.
func (d *Limiter) mayBegin(now time.Duration, t *reservation) bool {
	for _, b := range t.buckets {
		if len(b.queues) > 0 || b.wait(now, t) > 0 {
			return false
		}
	}
	return true
}

// enqueue adds a call to the queue of its tenant and buckets, at the position of its first request.
func (d *Limiter) enqueue(t *reservation) {
	var name strings.Builder
	name.WriteString(strconv.Quote(t.tenant))
	for _, b := range t.buckets {
		name.WriteString("\x00" + b.limit.ID + "\x00" + strconv.Itoa(len(b.key)) + b.key)
	}
	l := d.queues[name.String()]
	if l == nil {
		l = &queue{name: name.String(), tenant: t.tenant, buckets: t.buckets}
		d.queues[l.name] = l
		for _, b := range l.buckets {
			b.queues[l] = struct{}{}
		}
	}
	t.queue = l
	i := len(l.waiting)
	for i > 0 && l.waiting[i-1].seq > t.seq {
		i--
	}
	l.waiting = slices.Insert(l.waiting, i, t)
}

// dequeue removes a call from the queue that it waits in.
func (d *Limiter) dequeue(t *reservation) {
	l := t.queue
	if t.queue = nil; l == nil {
		return
	}
	i := slices.Index(l.waiting, t)
	if i == 0 {
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
	} else {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	if len(l.waiting) > 0 {
		return
	}
	delete(d.queues, l.name)
	for _, b := range l.buckets {
		delete(b.queues, l)
	}
}

// grant lets a call begin: it counts the call and its tokens in each of its buckets.
func (d *Limiter) grant(now time.Duration, t *reservation) {
	t.granted, t.startedAt, t.tokens = true, now, t.maxTokens()
	for _, b := range t.buckets {
		b.serve(t)
		b.open++
		b.admitted++
		total := d.total(b.limit.ID)
		total.Admitted++
		if wait := now - t.requestedAt; wait > 0 {
			b.waited++
			total.Waited++
			total.WaitedFor += wait
		}
		b.charge(now, now, t)
	}
}

func (d *Limiter) total(limit string) *Total {
	if d.totals[limit] == nil {
		d.totals[limit] = &Total{Limit: limit}
	}
	return d.totals[limit]
}

// charge counts a call that begins at the time `at`, and its tokens.
func (b *bucket) charge(now, at time.Duration, t *reservation) {
	if b.calls.limit > 0 {
		b.calls.take(now, at, 1)
	}
	if b.tokens.limit > 0 {
		b.tokens.take(now, at, b.tokenCost(t))
	}
}

// tag returns the position of a queue among all queues. A lower position comes first.
func (l *queue) tag() float64 {
	tag := 0.0
	for _, b := range l.buckets {
		tag = max(tag, b.tenantPosition(l.tenant))
	}
	return tag
}

// compare compares two queues for sorting: by their position, then by the time of their first request.
func (l *queue) compare(other *queue) int {
	return cmp.Or(cmp.Compare(l.tag(), other.tag()), cmp.Compare(l.waiting[0].seq, other.waiting[0].seq))
}

// Admit lets those waiting calls begin that the limits allow, in order, and returns their IDs. again is
// the time until Admit must be called again. [never] means that this is necessary only after another
// change.
func (d *Limiter) Admit(now time.Duration) (begun []ID, again time.Duration) {
	again = never
	// If an earlier queue has to wait for a bucket, no later queue may use the bucket. Otherwise small
	// calls would overtake a large call forever.
	closed := map[*bucket]bool{}
	waiting := make([]*queue, 0, len(d.queues))
	for _, l := range d.queues {
		waiting = append(waiting, l)
	}
	slices.SortFunc(waiting, (*queue).compare)
	for len(waiting) > 0 {
		l := waiting[0]
		if pause := l.shortestWait(now, closed); pause > 0 {
			again = min(again, pause)
			waiting = waiting[1:]
			continue
		}
		t := l.waiting[0]
		d.dequeue(t)
		d.grant(now, t)
		begun = append(begun, t.ID)
		if waiting = waiting[1:]; len(l.waiting) > 0 {
			i, _ := slices.BinarySearchFunc(waiting, l, (*queue).compare)
			waiting = slices.Insert(waiting, i, l)
		}
	}
	return begun, again
}

// shortestWait returns the shortest time that the first call of a queue has to wait. It returns [never] if the call
// needs a bucket for which an earlier queue already waits, because later queues must not overtake. The buckets that the
// call waits for become closed to later queues.
func (l *queue) shortestWait(now time.Duration, closed map[*bucket]bool) time.Duration {
	longest := time.Duration(0)
	shut := false
	for _, b := range l.buckets {
		if closed[b] {
			shut = true
			continue
		}
		if pause := b.wait(now, l.waiting[0]); pause > 0 {
			closed[b] = true
			longest = max(longest, pause)
		}
	}
	if shut {
		return max(longest, never)
	}
	return longest
}

// MarkRecorded notes that the journal contains the call, as the given step. The call is then not
// refunded when it is released.
func (d *Limiter) MarkRecorded(now time.Duration, ask Request, step uint32) {
	t := d.reservations[ask.ID]
	if t == nil {
		if t = d.newReservation(now, &ask); len(t.buckets) == 0 {
			delete(d.reservations, ask.ID)
			return
		}
	}
	if !t.granted {
		// The worker began the call although the limiter had not allowed it yet. Its usage is counted anyway.
		d.dequeue(t)
		d.grant(now, t)
	}
	t.recorded, t.step = true, step
}

// ChargeRetry counts one more attempt of a call in progress, at a time that may be in the future.
func (d *Limiter) ChargeRetry(now, at time.Duration, id ID) {
	t := d.reservations[id]
	if t == nil {
		return
	}
	t.startedAt, t.tokens = at, t.Request.Tokens
	t.tokens = t.maxTokens()
	for _, b := range t.buckets {
		b.charge(now, at, t)
	}
}

// Settle replaces the counted tokens of a call by the tokens that the call used. If used is 0, the
// usage is not known, and the counted tokens stay.
func (d *Limiter) Settle(now time.Duration, id ID, used int64) {
	t := d.reservations[id]
	if t == nil || used <= 0 {
		return
	}
	for _, b := range t.buckets {
		if b.tokens.limit == 0 {
			continue
		}
		b.tokens.correct(now, t.startedAt, used-b.tokenCost(t))
		b.typical = (3*b.typical + used + 3) / 4
	}
	t.tokens = used
}

// ObserveProviderLimits applies the limits that a provider reported with the outcome of a call. It
// changes only the limits that follow the provider (TrackProvider).
func (d *Limiter) ObserveProviderLimits(now time.Duration, id ID, limits *ProviderLimits) {
	t := d.reservations[id]
	if t == nil {
		return
	}
	for _, b := range t.buckets {
		if b.limit.TrackProvider {
			b.observeProviderLimits(now, limits)
		}
	}
}

// Retry counts another attempt of a call after a pause. It returns the pause that the limits require,
// which may be longer.
func (d *Limiter) Retry(now time.Duration, id ID, pause time.Duration) time.Duration {
	t := d.reservations[id]
	if t == nil {
		return pause
	}
	t.tokens = t.Request.Tokens
	for _, b := range t.buckets {
		pause = max(pause, b.until-now, b.calls.wait(now, 1), b.tokens.wait(now, b.tokenCost(t)))
	}
	d.ChargeRetry(now, now+pause, id)
	return pause
}

// Release ends a call. It frees its place among the concurrent calls. If the call was never recorded,
// its usage is refunded, too.
func (d *Limiter) Release(now time.Duration, id ID) {
	t := d.reservations[id]
	if t == nil {
		return
	}
	delete(d.reservations, id)
	d.dequeue(t)
	if t.granted {
		d.releaseSlot(now, t)
	}
}

// Requeue takes back the permission of a call that did not begin, and refunds its usage. If the call is
// requested again, it keeps its position.
func (d *Limiter) Requeue(now time.Duration, id ID) {
	t := d.reservations[id]
	if t == nil || !t.granted {
		return
	}
	t.recorded = false
	d.releaseSlot(now, t)
	t.granted, t.tokens = false, t.Request.Tokens
}

// releaseSlot frees the place of a call among the concurrent calls. If the call was never recorded, its
// usage is refunded, too.
func (d *Limiter) releaseSlot(now time.Duration, t *reservation) {
	for _, b := range t.buckets {
		b.open--
		if t.recorded {
			continue
		}
		if _, known := b.served[t.tenant]; known {
			b.served[t.tenant] -= b.share(t)
		}
		if b.calls.limit > 0 {
			b.calls.correct(now, t.startedAt, -1)
		}
		if b.tokens.limit > 0 {
			b.tokens.correct(now, t.startedAt, -b.tokenCost(t))
		}
	}
}

// ReplayPast counts a call that an earlier process made at the time `at`. until is the end of the pause
// that the provider has asked for.
func (d *Limiter) ReplayPast(now, at, until time.Duration, call *Call, tokens int64) {
	t := &reservation{Request: Request{Call: *call}, tokens: tokens}
	d.matchBuckets(now, t)
	for _, b := range t.buckets {
		b.calls.replayPast(now, at, 1)
		b.tokens.replayPast(now, at, b.tokenCost(t))
		if b.limit.TrackProvider {
			b.until = max(b.until, until)
		}
	}
}

// Recorded reports whether the journal contains the call.
func (d *Limiter) Recorded(id ID) bool {
	t := d.reservations[id]
	return t != nil && t.recorded
}

// Restore adds a call in progress, which an earlier process began. If count is true, it is also counted
// as usage now, because the journal of the last minute does not count it.
func (d *Limiter) Restore(now time.Duration, ask Request, step uint32, count bool) {
	t := d.newReservation(now, &ask)
	if len(t.buckets) == 0 {
		delete(d.reservations, ask.ID)
		return
	}
	t.granted, t.recorded, t.step, t.startedAt, t.tokens = true, true, step, now, t.maxTokens()
	for _, b := range t.buckets {
		b.open++
		if count {
			b.charge(now, now, t)
		}
	}
}
