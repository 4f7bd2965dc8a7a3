package ratelimit

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
)

// Wait describes one waiting call of a run.
type Wait struct {
	// Limits are all limits that apply to the call, also those that would allow it now. Keys are the
	// keys under which the limits count the call.
	Limits, Keys []string
	// Model is the called model, or Tool is the called tool. One of the two is "". Step is the number
	// of the step, or 0 for a model call, which gets its number when it begins.
	Model, Tool string
	Step        uint32
	// For is how long the call has waited. Ahead is the number of earlier calls in the same queue.
	For   time.Duration
	Ahead int
}

// WaitingCalls lists the waiting calls of a run, the call that has waited longest first.
func (r *Service) WaitingCalls(key runtime.RunKey) []Wait {
	if !r.on.Load() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var waits []Wait
	for id := range r.runs[key] {
		if t := r.limiter.reservations[id]; t != nil && t.queue != nil {
			waits = append(waits, t.wait(r.now()))
		}
	}
	slices.SortFunc(waits, func(a, b Wait) int { return cmp.Or(cmp.Compare(b.For, a.For), cmp.Compare(a.Step, b.Step)) })
	return waits
}

func (t *reservation) wait(now time.Duration) Wait {
	w := Wait{Model: t.Call.Model, Tool: t.Call.Tool, For: now - t.requestedAt, Step: t.step}
	for _, b := range t.buckets {
		w.Limits, w.Keys = append(w.Limits, b.limit.ID), append(w.Keys, b.key)
	}
	w.Ahead = slices.Index(t.queue.waiting, t)
	return w
}

// Figure is the present usage of one key of a limit.
type Figure struct {
	Limit, Key string
	// Concurrent, PerMinute and TokensPerMinute are the bounds; 0 means that there is none. Open is the
	// number of calls in progress. Started and Tokens are the numbers of calls and tokens in the last
	// minute.
	Concurrent, PerMinute, TokensPerMinute int64
	Open, Started, Tokens                  int64
	// Waiting is the number of waiting calls by tenant.
	Waiting map[string]int64
	// Held is the rest of the pause that the provider has asked for.
	Held time.Duration
	// Admitted is the number of calls that began since the key was first used. Waited is the number of
	// those that had to wait.
	Admitted, Waited int64
}

// Total contains the counts of one limit over all keys, since the start of the process.
type Total struct {
	Limit string
	// Admitted is the number of calls that began. Waited is the number of those that had to wait, and
	// WaitedFor the sum of their waiting times.
	Admitted, Waited int64
	WaitedFor        time.Duration
	// Open is the number of calls in progress. Queued is the number of waiting calls.
	Open, Queued int64
}

// Totals returns the counts of the limits in the current table, in the order of the table.
func (r *Service) Totals() []Total {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Total, len(r.limiter.table.Limits))
	for i, l := range r.limiter.table.Limits {
		out[i] = *r.limiter.total(l.ID)
		for _, b := range r.limiter.buckets {
			if b.limit.ID != l.ID {
				continue
			}
			out[i].Open += b.open
			for line := range b.queues {
				out[i].Queued += int64(len(line.waiting))
			}
		}
	}
	return out
}

// Figures returns the usage of all known keys. They are ordered by limit, in the order of the table,
// and then by key.
func (r *Service) Figures() []Figure {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	order := map[string]int{}
	var out []Figure
	for i, l := range r.limiter.table.Limits {
		order[l.ID] = i
	}
	for _, b := range r.limiter.buckets {
		out = append(out, b.figure(now))
	}
	slices.SortFunc(out, func(a, b Figure) int {
		return cmp.Or(cmp.Compare(order[a.Limit], order[b.Limit]), cmp.Compare(a.Key, b.Key))
	})
	return out
}

// QueuedCalls returns how many calls of all tenants wait.
func (f *Figure) QueuedCalls() (n int64) {
	for _, calls := range f.Waiting {
		n += calls
	}
	return n
}

func (b *bucket) figure(now time.Duration) Figure {
	b.calls.advance(now)
	b.tokens.advance(now)
	f := Figure{
		Limit: b.limit.ID, Key: b.key, Concurrent: b.limit.Concurrent, PerMinute: b.limit.PerMinute, TokensPerMinute: b.limit.TokensPerMinute,
		Open: b.open, Started: b.calls.sum, Tokens: b.tokens.sum, Held: max(0, b.until-now),
		Admitted: b.admitted, Waited: b.waited, Waiting: map[string]int64{},
	}
	for l := range b.queues {
		f.Waiting[l.tenant] += int64(len(l.waiting))
	}
	return f
}

// Limits returns the current table.
func (r *Service) Limits() *Table {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.limiter.table
}
