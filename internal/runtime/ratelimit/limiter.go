package ratelimit

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ID names one call: a step of a run by its key. Attempts of a tool are calls of their own;
// of a model the executor makes them under one call, and Attempt is 0.
type ID struct {
	Namespace uint32
	Run, Key  string
	Attempt   int
}

// Request is a call that wants to begin.
type Request struct {
	ID   ID
	Call Call
	// Step is the number of a step that a tool does; 0 = a call of a model, which has one
	// once it is recorded.
	Step uint32
	// Tokens is what it may consume; 0 = nobody says.
	Tokens int64
}

// reservation is a call that waits or has a place.
type reservation struct {
	Request
	tokens  int64
	tenant  string
	buckets []*bucket
	queue   *queue
	seq     uint64
	// requestedAt and began are when.
	requestedAt, startedAt time.Duration
	granted                bool
	// recorded: the run's record has it.
	recorded bool
	// step is its number, as soon as there is one.
	step uint32
}

// maxTokens is what a ticket takes of tokens from now on, whatever others consume meanwhile.
func (t *reservation) maxTokens() (n int64) {
	for _, b := range t.buckets {
		n = max(n, b.tokenCost(t))
	}
	return n
}

// queue is those that wait for the same buckets and are of one tenant, first come first.
type queue struct {
	name    string
	tenant  string
	buckets []*bucket
	waiting []*reservation
}

// Limiter decides who may begin. Not safe for concurrent use. Its times are of one clock that
// goes on evenly.
type Limiter struct {
	table        *Table
	buckets      map[string]*bucket
	queues       map[string]*queue
	reservations map[ID]*reservation
	seq          uint64
	sweep        int
	// totals are by entry.
	totals map[string]*Total
}

// NewLimiter is one with a table; nil limits nothing.
func NewLimiter(table *Table) *Limiter {
	d := &Limiter{buckets: map[string]*bucket{}, queues: map[string]*queue{}, reservations: map[ID]*reservation{}, sweep: minSweep, totals: map[string]*Total{}}
	d.table = cmp.Or(table, &Table{})
	return d
}

// Replace puts another table in force. What was counted of an entry stays with the entry of
// the same name and key; who has a place keeps it, and who waits is asked of the new entries.
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
			continue // is placed when it asks
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

// matchBuckets finds the buckets of a ticket.
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

// minSweep is how many buckets there are before those are forgotten that count nothing.
const minSweep = 1024

func (d *Limiter) bucket(now time.Duration, l *Limit, key string) *bucket {
	name := l.ID + "\x00" + key
	b := d.buckets[name]
	if b != nil {
		return b
	}
	if len(d.buckets) >= d.sweep {
		for other, b := range d.buckets {
			if b.idle(now) {
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

// Acquire says whether a call may begin now. If not it waits, and [Limiter.Admit] tells when it may.
// Who asks again has the place that it had. limited is false for a call that no entry is about.
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
	if d.free(now, t) {
		d.grant(now, t)
		return true, true
	}
	d.enqueue(t)
	return false, true
}

// free: nobody is before the ticket, and there is room.
func (d *Limiter) free(now time.Duration, t *reservation) bool {
	for _, b := range t.buckets {
		if len(b.queues) > 0 || b.wait(now, t) > 0 {
			return false
		}
	}
	return true
}

// enqueue puts a ticket into its line, behind those that asked before it.
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

// dequeue takes a ticket out of its line.
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

// grant gives a ticket its place.
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

// charge counts a call of a ticket as begun at a time.
func (b *bucket) charge(now, at time.Duration, t *reservation) {
	if b.calls.most > 0 {
		b.calls.take(now, at, 1)
	}
	if b.tokens.most > 0 {
		b.tokens.take(now, at, b.tokenCost(t))
	}
}

// tag is where a line stands in the order of service.
func (l *queue) tag() float64 {
	tag := 0.0
	for _, b := range l.buckets {
		tag = max(tag, b.begins(l.tenant))
	}
	return tag
}

// before orders lines by service, then by who asked first.
func (l *queue) before(other *queue) int {
	return cmp.Or(cmp.Compare(l.tag(), other.tag()), cmp.Compare(l.waiting[0].seq, other.waiting[0].seq))
}

// Admit lets those begin that may, in the order of service, and says after how long it is to
// be called again; [never] = once something is told.
func (d *Limiter) Admit(now time.Duration) (begun []ID, again time.Duration) {
	again = never
	// A bucket for which the first in order has to wait is closed to all behind it: whoever
	// is small would else go for ever before who is large.
	closed := map[*bucket]bool{}
	waiting := make([]*queue, 0, len(d.queues))
	for _, l := range d.queues {
		waiting = append(waiting, l)
	}
	slices.SortFunc(waiting, (*queue).before)
	for len(waiting) > 0 {
		l := waiting[0]
		if pause := l.blocked(now, closed); pause > 0 {
			again = min(again, pause)
			waiting = waiting[1:]
			continue
		}
		t := l.waiting[0]
		d.dequeue(t)
		d.grant(now, t)
		begun = append(begun, t.ID)
		if waiting = waiting[1:]; len(l.waiting) > 0 {
			i, _ := slices.BinarySearchFunc(waiting, l, (*queue).before)
			waiting = slices.Insert(waiting, i, l)
		}
	}
	return begun, again
}

// blocked says how long the first of a line has to wait, at least, and closes what it waits for.
func (l *queue) blocked(now time.Duration, closed map[*bucket]bool) time.Duration {
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

// MarkRecorded says that the call of a ticket is recorded, as the step of a number.
func (d *Limiter) MarkRecorded(now time.Duration, ask Request, step uint32) {
	t := d.reservations[ask.ID]
	if t == nil {
		if t = d.newReservation(now, &ask); len(t.buckets) == 0 {
			delete(d.reservations, ask.ID)
			return
		}
	}
	if !t.granted {
		// It was begun without us: it counts all the same.
		d.dequeue(t)
		d.grant(now, t)
	}
	t.recorded, t.step = true, step
}

// ChargeRetry counts another call of a ticket that has its place, at a time that may be to come.
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

// Settle says what a call has consumed; 0 = nobody says.
func (d *Limiter) Settle(now time.Duration, id ID, used int64) {
	t := d.reservations[id]
	if t == nil || used <= 0 {
		return
	}
	for _, b := range t.buckets {
		if b.tokens.most == 0 {
			continue
		}
		b.tokens.correct(now, t.startedAt, used-b.tokenCost(t))
		b.typical = (3*b.typical + used + 3) / 4
	}
	t.tokens = used
}

// ObserveProviderLimits takes what a provider told with what came of a call.
func (d *Limiter) ObserveProviderLimits(now time.Duration, id ID, told *ProviderLimits) {
	t := d.reservations[id]
	if t == nil {
		return
	}
	for _, b := range t.buckets {
		if b.limit.TrackProvider {
			b.observeProviderLimits(now, told)
		}
	}
}

// Retry says that the executor calls again after a pause, and returns the pause that the
// limits ask for.
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

// Release ends a ticket: a place is free, and what was taken for a call that was never recorded
// is given back.
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

// Requeue takes the place of a call that did not begin: it counts as if it had never been let
// go, and has its place in the order when it asks again.
func (d *Limiter) Requeue(now time.Duration, id ID) {
	t := d.reservations[id]
	if t == nil || !t.granted {
		return
	}
	t.recorded = false
	d.releaseSlot(now, t)
	t.granted, t.tokens = false, t.Request.Tokens
}

// releaseSlot frees a ticket's place, and gives back what was taken for a call that never was.
func (d *Limiter) releaseSlot(now time.Duration, t *reservation) {
	for _, b := range t.buckets {
		b.open--
		if t.recorded {
			continue
		}
		if _, known := b.served[t.tenant]; known {
			b.served[t.tenant] -= b.share(t)
		}
		if b.calls.most > 0 {
			b.calls.correct(now, t.startedAt, -1)
		}
		if b.tokens.most > 0 {
			b.tokens.correct(now, t.startedAt, -b.tokenCost(t))
		}
	}
}

// ReplayPast counts a call that another process made at a time, and keeps what a provider asked
// for then: to send nothing before until.
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

// Recorded: the call of a ticket is recorded.
func (d *Limiter) Recorded(id ID) bool {
	t := d.reservations[id]
	return t != nil && t.recorded
}

// Restore seats a call that another process let begin; counted says that nobody else counts
// it as begun in the last minute.
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
