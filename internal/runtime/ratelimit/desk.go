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

// Ask is a call that wants to begin.
type Ask struct {
	ID   ID
	Call Call
	// Step is the number of a step that a tool does; 0 = a call of a model, which has one
	// once it is recorded.
	Step uint32
	// Tokens is what it may consume; 0 = nobody says.
	Tokens int64
}

// ticket is a call that waits or has a place.
type ticket struct {
	Ask
	tokens  int64
	tenant  string
	buckets []*bucket
	line    *line
	seq     uint64
	// asked and began are when.
	asked, began time.Duration
	granted      bool
	// seated: the run's record has it.
	seated bool
	// step is its number, as soon as there is one.
	step uint32
}

// most is what a ticket takes of tokens from now on, whatever others consume meanwhile.
func (t *ticket) most() (n int64) {
	for _, b := range t.buckets {
		n = max(n, b.takes(t))
	}
	return n
}

// line is those that wait for the same buckets and are of one tenant, first come first.
type line struct {
	name    string
	tenant  string
	buckets []*bucket
	queue   []*ticket
}

// Desk decides who may begin. Not safe for concurrent use. Its times are of one clock that
// goes on evenly.
type Desk struct {
	table   *Table
	buckets map[string]*bucket
	lines   map[string]*line
	tickets map[ID]*ticket
	seq     uint64
	sweep   int
	// totals are by entry.
	totals map[string]*Total
}

// NewDesk is one with a table; nil limits nothing.
func NewDesk(table *Table) *Desk {
	d := &Desk{buckets: map[string]*bucket{}, lines: map[string]*line{}, tickets: map[ID]*ticket{}, sweep: minSweep, totals: map[string]*Total{}}
	d.table = cmp.Or(table, &Table{})
	return d
}

// Replace puts another table in force. What was counted of an entry stays with the entry of
// the same name and key; who has a place keeps it, and who waits is asked of the new entries.
func (d *Desk) Replace(now time.Duration, table *Table) {
	before := d.buckets
	d.table, d.buckets, d.lines = table, map[string]*bucket{}, map[string]*line{}
	for _, l := range table.Limits {
		for name, b := range before {
			if b.limit.ID == l.ID && b.limit.Source == l.Source {
				b.open, b.lines = 0, map[*line]struct{}{}
				b.bound(l)
				d.buckets[name] = b
			}
		}
	}
	all := make([]*ticket, 0, len(d.tickets))
	for _, t := range d.tickets {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *ticket) int { return cmp.Compare(a.seq, b.seq) })
	for _, t := range all {
		if !t.granted && t.line == nil {
			continue // is placed when it asks
		}
		d.place(now, t)
		if t.granted {
			for _, b := range t.buckets {
				b.open++
			}
			continue
		}
		d.queue(t)
	}
}

// place finds the buckets of a ticket.
func (d *Desk) place(now time.Duration, t *ticket) {
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

func (d *Desk) bucket(now time.Duration, l *Limit, key string) *bucket {
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

func (d *Desk) ticket(now time.Duration, ask *Ask) *ticket {
	d.seq++
	t := &ticket{Ask: *ask, tokens: ask.Tokens, seq: d.seq, asked: now, step: ask.Step}
	d.place(now, t)
	d.tickets[ask.ID] = t
	return t
}

// Ask says whether a call may begin now. If not it waits, and [Desk.Pump] tells when it may.
// Who asks again has the place that it had. limited is false for a call that no entry is about.
func (d *Desk) Ask(now time.Duration, ask Ask) (granted, limited bool) {
	t := d.tickets[ask.ID]
	switch {
	case t == nil:
		t = d.ticket(now, &ask)
	case t.granted || t.line != nil:
		return t.granted, true
	default:
		d.place(now, t)
	}
	if len(t.buckets) == 0 {
		delete(d.tickets, ask.ID)
		return true, false
	}
	if d.free(now, t) {
		d.grant(now, t)
		return true, true
	}
	d.queue(t)
	return false, true
}

// free: nobody is before the ticket, and there is room.
func (d *Desk) free(now time.Duration, t *ticket) bool {
	for _, b := range t.buckets {
		if len(b.lines) > 0 || b.wait(now, t) > 0 {
			return false
		}
	}
	return true
}

// queue puts a ticket into its line, behind those that asked before it.
func (d *Desk) queue(t *ticket) {
	var name strings.Builder
	name.WriteString(strconv.Quote(t.tenant))
	for _, b := range t.buckets {
		name.WriteString("\x00" + b.limit.ID + "\x00" + strconv.Itoa(len(b.key)) + b.key)
	}
	l := d.lines[name.String()]
	if l == nil {
		l = &line{name: name.String(), tenant: t.tenant, buckets: t.buckets}
		d.lines[l.name] = l
		for _, b := range l.buckets {
			b.lines[l] = struct{}{}
		}
	}
	t.line = l
	i := len(l.queue)
	for i > 0 && l.queue[i-1].seq > t.seq {
		i--
	}
	l.queue = slices.Insert(l.queue, i, t)
}

// unqueue takes a ticket out of its line.
func (d *Desk) unqueue(t *ticket) {
	l := t.line
	if t.line = nil; l == nil {
		return
	}
	i := slices.Index(l.queue, t)
	if i == 0 {
		l.queue[0] = nil
		l.queue = l.queue[1:]
	} else {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
	if len(l.queue) > 0 {
		return
	}
	delete(d.lines, l.name)
	for _, b := range l.buckets {
		delete(b.lines, l)
	}
}

// grant gives a ticket its place.
func (d *Desk) grant(now time.Duration, t *ticket) {
	t.granted, t.began, t.tokens = true, now, t.most()
	for _, b := range t.buckets {
		b.serve(t)
		b.open++
		b.admitted++
		total := d.total(b.limit.ID)
		total.Admitted++
		if wait := now - t.asked; wait > 0 {
			b.waited++
			total.Waited++
			total.WaitedFor += wait
		}
		b.charge(now, now, t)
	}
}

func (d *Desk) total(limit string) *Total {
	if d.totals[limit] == nil {
		d.totals[limit] = &Total{Limit: limit}
	}
	return d.totals[limit]
}

// charge counts a call of a ticket as begun at a time.
func (b *bucket) charge(now, at time.Duration, t *ticket) {
	if b.calls.most > 0 {
		b.calls.take(now, at, 1)
	}
	if b.tokens.most > 0 {
		b.tokens.take(now, at, b.takes(t))
	}
}

// tag is where a line stands in the order of service.
func (l *line) tag() float64 {
	tag := 0.0
	for _, b := range l.buckets {
		tag = max(tag, b.begins(l.tenant))
	}
	return tag
}

// before orders lines by service, then by who asked first.
func (l *line) before(other *line) int {
	return cmp.Or(cmp.Compare(l.tag(), other.tag()), cmp.Compare(l.queue[0].seq, other.queue[0].seq))
}

// Pump lets those begin that may, in the order of service, and says after how long it is to
// be called again; [never] = once something is told.
func (d *Desk) Pump(now time.Duration) (begun []ID, again time.Duration) {
	again = never
	// A bucket for which the first in order has to wait is closed to all behind it: whoever
	// is small would else go for ever before who is large.
	closed := map[*bucket]bool{}
	waiting := make([]*line, 0, len(d.lines))
	for _, l := range d.lines {
		waiting = append(waiting, l)
	}
	slices.SortFunc(waiting, (*line).before)
	for len(waiting) > 0 {
		l := waiting[0]
		if pause := l.blocked(now, closed); pause > 0 {
			again = min(again, pause)
			waiting = waiting[1:]
			continue
		}
		t := l.queue[0]
		d.unqueue(t)
		d.grant(now, t)
		begun = append(begun, t.ID)
		if waiting = waiting[1:]; len(l.queue) > 0 {
			i, _ := slices.BinarySearchFunc(waiting, l, (*line).before)
			waiting = slices.Insert(waiting, i, l)
		}
	}
	return begun, again
}

// blocked says how long the first of a line has to wait, at least, and closes what it waits for.
func (l *line) blocked(now time.Duration, closed map[*bucket]bool) time.Duration {
	longest := time.Duration(0)
	shut := false
	for _, b := range l.buckets {
		if closed[b] {
			shut = true
			continue
		}
		if pause := b.wait(now, l.queue[0]); pause > 0 {
			closed[b] = true
			longest = max(longest, pause)
		}
	}
	if shut {
		return max(longest, never)
	}
	return longest
}

// Seat says that the call of a ticket is recorded, as the step of a number.
func (d *Desk) Seat(now time.Duration, ask Ask, step uint32) {
	t := d.tickets[ask.ID]
	if t == nil {
		if t = d.ticket(now, &ask); len(t.buckets) == 0 {
			delete(d.tickets, ask.ID)
			return
		}
	}
	if !t.granted {
		// It was begun without us: it counts all the same.
		d.unqueue(t)
		d.grant(now, t)
	}
	t.seated, t.step = true, step
}

// Again counts another call of a ticket that has its place, at a time that may be to come.
func (d *Desk) Again(now, at time.Duration, id ID) {
	t := d.tickets[id]
	if t == nil {
		return
	}
	t.began, t.tokens = at, t.Ask.Tokens
	t.tokens = t.most()
	for _, b := range t.buckets {
		b.charge(now, at, t)
	}
}

// Settle says what a call has consumed; 0 = nobody says.
func (d *Desk) Settle(now time.Duration, id ID, used int64) {
	t := d.tickets[id]
	if t == nil || used <= 0 {
		return
	}
	for _, b := range t.buckets {
		if b.tokens.most == 0 {
			continue
		}
		b.tokens.correct(now, t.began, used-b.takes(t))
		b.typical = (3*b.typical + used + 3) / 4
	}
	t.tokens = used
}

// Hear takes what a provider told with what came of a call.
func (d *Desk) Hear(now time.Duration, id ID, told *Told) {
	t := d.tickets[id]
	if t == nil {
		return
	}
	for _, b := range t.buckets {
		if b.limit.Told {
			b.hear(now, told)
		}
	}
}

// Retry says that the executor calls again after a pause, and returns the pause that the
// limits ask for.
func (d *Desk) Retry(now time.Duration, id ID, pause time.Duration) time.Duration {
	t := d.tickets[id]
	if t == nil {
		return pause
	}
	t.tokens = t.Ask.Tokens
	for _, b := range t.buckets {
		pause = max(pause, b.until-now, b.calls.wait(now, 1), b.tokens.wait(now, b.takes(t)))
	}
	d.Again(now, now+pause, id)
	return pause
}

// Leave ends a ticket: a place is free, and what was taken for a call that was never recorded
// is given back.
func (d *Desk) Leave(now time.Duration, id ID) {
	t := d.tickets[id]
	if t == nil {
		return
	}
	delete(d.tickets, id)
	d.unqueue(t)
	if t.granted {
		d.vacate(now, t)
	}
}

// Back takes the place of a call that did not begin: it counts as if it had never been let
// go, and has its place in the order when it asks again.
func (d *Desk) Back(now time.Duration, id ID) {
	t := d.tickets[id]
	if t == nil || !t.granted {
		return
	}
	t.seated = false
	d.vacate(now, t)
	t.granted, t.tokens = false, t.Ask.Tokens
}

// vacate frees a ticket's place, and gives back what was taken for a call that never was.
func (d *Desk) vacate(now time.Duration, t *ticket) {
	for _, b := range t.buckets {
		b.open--
		if t.seated {
			continue
		}
		if _, known := b.served[t.tenant]; known {
			b.served[t.tenant] -= b.share(t)
		}
		if b.calls.most > 0 {
			b.calls.correct(now, t.began, -1)
		}
		if b.tokens.most > 0 {
			b.tokens.correct(now, t.began, -b.takes(t))
		}
	}
}

// Recall counts a call that another process made at a time, and keeps what a provider asked
// for then: to send nothing before until.
func (d *Desk) Recall(now, at, until time.Duration, call *Call, tokens int64) {
	t := &ticket{Ask: Ask{Call: *call}, tokens: tokens}
	d.place(now, t)
	for _, b := range t.buckets {
		b.calls.recall(now, at, 1)
		b.tokens.recall(now, at, b.takes(t))
		if b.limit.Told {
			b.until = max(b.until, until)
		}
	}
}

// Seated: the call of a ticket is recorded.
func (d *Desk) Seated(id ID) bool {
	t := d.tickets[id]
	return t != nil && t.seated
}

// Restore seats a call that another process let begin; counted says that nobody else counts
// it as begun in the last minute.
func (d *Desk) Restore(now time.Duration, ask Ask, step uint32, count bool) {
	t := d.ticket(now, &ask)
	if len(t.buckets) == 0 {
		delete(d.tickets, ask.ID)
		return
	}
	t.granted, t.seated, t.step, t.began, t.tokens = true, true, step, now, t.most()
	for _, b := range t.buckets {
		b.open++
		if count {
			b.charge(now, now, t)
		}
	}
}
