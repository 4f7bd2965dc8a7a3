package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/expr"
)

// tableOf is a table of entries whose keys are texts by their source.
func tableOf(t testing.TB, limits ...*Limit) *Table {
	t.Helper()
	language, err := Language()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range limits {
		if l.Key, err = language.Compile(l.Source, expr.Text); err != nil {
			t.Fatal(err)
		}
	}
	return &Table{Tenant: "tenant", Limits: limits}
}

func requestOf(tenant string, n int) Request {
	return Request{ID: ID{Run: tenant, Key: fmt.Sprint(n)}, Call: Call{Model: "gpt", Labels: map[string]string{"tenant": tenant}}}
}

// provider refuses calls that exceed its limit in any period of one minute.
type provider struct {
	requests, tokens int
	calls            []recordedUse
	refused          int
}

type recordedUse struct {
	at     time.Duration
	tokens int
}

// call takes the call, or refuses it and returns how long to wait.
func (p *provider) call(now time.Duration, tokens int) (time.Duration, bool) {
	p.calls = slices.DeleteFunc(p.calls, func(u recordedUse) bool { return u.at+time.Minute <= now })
	sum := tokens
	for _, u := range p.calls {
		sum += u.tokens
	}
	if len(p.calls) >= p.requests || sum > p.tokens {
		p.refused++
		return p.calls[0].at + time.Minute - now, false
	}
	p.calls = append(p.calls, recordedUse{now, tokens})
	return 0, true
}

// TestNoMinuteHasMore: callers ask at random times for random numbers of tokens. No minute has more
// calls or tokens than the limit, and no more calls are open at once than the limit.
func TestNoMinuteHasMore(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		limit := &Limit{ID: "l", Source: "model", Concurrent: rnd.Int64N(5), PerMinute: 1 + rnd.Int64N(100), TokensPerMinute: 1000 + rnd.Int64N(5000)}
		d := NewLimiter(tableOf(t, limit))
		strict := &provider{requests: int(limit.PerMinute), tokens: int(limit.TokensPerMinute)}
		var now time.Duration
		open, begun := []ID{}, 0
		begin := func(ids []ID) {
			for _, id := range ids {
				ask := d.reservations[id].Request
				if _, ok := strict.call(now, int(min(ask.Tokens, limit.TokensPerMinute))); !ok {
					t.Fatalf("seed %d: call %d at %s is too much: %+v", seed, begun, now, limit)
				}
				d.MarkRecorded(now, ask, uint32(begun+1))
				open, begun = append(open, id), begun+1
			}
			if n := int64(len(open)); limit.Concurrent > 0 && n > limit.Concurrent {
				t.Fatalf("seed %d: %d are open", seed, n)
			}
		}
		for n := range 600 {
			switch rnd.IntN(4) {
			case 0, 1:
				ask := requestOf(fmt.Sprint(rnd.IntN(3)), n)
				ask.Tokens = rnd.Int64N(2000)
				if granted, _ := d.Acquire(now, ask); granted {
					begin([]ID{ask.ID})
				}
			case 2:
				if len(open) > 0 {
					i := rnd.IntN(len(open))
					d.Release(now, open[i])
					open = slices.Delete(open, i, i+1)
				}
			case 3:
				now += time.Duration(rnd.Int64N(int64(5 * time.Second)))
			}
			ids, _ := d.Admit(now)
			begin(ids)
		}
	}
}

// TestRestartsKeepTheMinute: a new limiter replays the calls that an earlier one let begin. It lets
// no more calls begin than the earlier one would have.
func TestRestartsKeepTheMinute(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		limit := &Limit{ID: "l", Source: "model", PerMinute: 5 + rnd.Int64N(60), TokensPerMinute: 20_000}
		table := tableOf(t, limit)
		strict := &provider{requests: int(limit.PerMinute), tokens: int(limit.TokensPerMinute)}
		var now time.Duration
		d, n, done := NewLimiter(table), 0, 0
		for now < 10*time.Minute {
			ask := requestOf("a", n)
			n++
			ask.Tokens = 1 + rnd.Int64N(1000)
			granted, _ := d.Acquire(now, ask)
			for !granted {
				_, again := d.Admit(now)
				now += again
				ids, _ := d.Admit(now)
				granted = len(ids) > 0
			}
			if _, ok := strict.call(now, int(ask.Tokens)); !ok {
				t.Fatalf("seed %d: %s", seed, now)
			}
			d.MarkRecorded(now, ask, 1)
			d.Release(now, ask.ID)
			done++
			if rnd.IntN(20) == 0 {
				d = NewLimiter(table)
				for _, u := range strict.calls {
					d.ReplayPast(now, u.at, 0, &ask.Call, int64(u.tokens))
				}
			}
		}
		if most := int64(10) * limit.PerMinute; int64(done) < most*7/10 && limit.PerMinute < 30 {
			t.Errorf("seed %d: %d calls with restarts, %d may be", seed, done, most)
		}
	}
}

// TestBesideAQueue: a tenant waits beside 10 000 queued calls of another tenant at most twice as
// long as it does if the other tenant has no queued call.
func TestBesideAQueue(t *testing.T) {
	t.Parallel()
	for _, limit := range []Limit{
		{ID: "calls", Source: "model", PerMinute: 60},
		{ID: "tokens", Source: "model", TokensPerMinute: 30_000},
		{ID: "both", Source: "model", PerMinute: 60, TokensPerMinute: 30_000},
	} {
		t.Run(limit.ID, func(t *testing.T) {
			t.Parallel()
			alone, beside := waitTimes(t, limit, 0, 50), waitTimes(t, limit, 10_000, 50)
			var sumAlone, sumBeside time.Duration
			for i := range alone {
				sumAlone, sumBeside = sumAlone+alone[i], sumBeside+beside[i]
				if beside[i] > 2*alone[i] {
					t.Errorf("call %d waits %s beside a queue, %s alone", i, beside[i], alone[i])
				}
			}
			t.Logf("mean %s beside 10 000 queued calls, %s alone: %.2f times; the last %s and %s",
				sumBeside/50, sumAlone/50, float64(sumBeside)/float64(sumAlone), beside[49], alone[49])
		})
	}
}

// waitTimes returns how long n calls of a tenant wait. They come after another tenant has called
// for two minutes as fast as it may, and has so many calls in the queue.
func waitTimes(t *testing.T, limit Limit, queued, n int) []time.Duration {
	d, now := NewLimiter(tableOf(t, &limit)), time.Duration(0)
	through := func(id ID) {
		d.MarkRecorded(now, d.reservations[id].Request, 1)
		d.Release(now, id)
	}
	ask := func(tenant string, n int) {
		a := requestOf(tenant, n)
		if a.Tokens = 500; limit.TokensPerMinute == 0 {
			a.Tokens = 0
		}
		if granted, _ := d.Acquire(now, a); granted {
			through(a.ID)
		}
	}
	const before = 120
	for i := range before {
		ask("big", i)
	}
	for len(d.reservations) > 0 {
		begun, again := d.Admit(now)
		for _, id := range begun {
			through(id)
		}
		if len(d.reservations) > 0 {
			now += again
		}
	}
	for i := range queued {
		ask("big", before+i)
	}
	for i := range n {
		ask("small", i)
	}
	came := now
	var out []time.Duration
	for len(out) < n {
		begun, again := d.Admit(now)
		for _, id := range begun {
			if id.Run == "small" {
				out = append(out, now-came)
			}
			through(id)
		}
		now += again
	}
	return out
}

// TestWeights: tenants that both wait are served by their weights.
func TestWeights(t *testing.T) {
	t.Parallel()
	d := NewLimiter(tableOf(t, &Limit{ID: "l", Source: "model", PerMinute: 60, Weights: map[string]int64{"gold": 3}}))
	var now time.Duration
	for i := range 400 {
		for _, tenant := range []string{"gold", "plain"} {
			d.Acquire(now, requestOf(tenant, i))
		}
	}
	served := map[string]int{}
	for now < 4*time.Minute {
		begun, again := d.Admit(now)
		for _, id := range begun {
			served[id.Run]++
			d.MarkRecorded(now, d.reservations[id].Request, 1)
			d.Release(now, id)
		}
		now += again
	}
	if ratio := float64(served["gold"]) / float64(served["plain"]); ratio < 2.8 || ratio > 3.2 {
		t.Errorf("%v: %.2f times as many, want 3", served, ratio)
	}
}

// TestGivenBack: a call that did not begin is not counted, and its place goes to the next call.
// When it asks again, it goes before the calls that came after it.
func TestGivenBack(t *testing.T) {
	t.Parallel()
	table := tableOf(t, &Limit{ID: "l", Source: "model", Concurrent: 1, PerMinute: 60})
	d := NewLimiter(table)
	for n := range 4 {
		if granted, limited := d.Acquire(0, requestOf("a", n)); !limited || granted != (n == 0) {
			t.Fatalf("call %d: granted %v, limited %v", n, granted, limited)
		}
	}
	d.MarkRecorded(0, requestOf("a", 0), 1)
	d.Requeue(0, requestOf("a", 0).ID)
	b := d.buckets["l\x00gpt"]
	if b.open != 0 || b.calls.sum != 0 || b.served["a"] != 0 || len(d.reservations) != 4 {
		t.Fatalf("%d open, %d begun, %v served", b.open, b.calls.sum, b.served)
	}
	if begun, _ := d.Admit(0); len(begun) != 1 || begun[0] != requestOf("a", 1).ID {
		t.Fatalf("began %v", begun)
	}
	d.Replace(time.Second, table) // a call that has no place and waits for none stays so
	if granted, limited := d.Acquire(time.Second, requestOf("a", 0)); granted || !limited {
		t.Fatal("it passed the one that has the place")
	}
	for _, n := range []int{1, 0, 2} {
		d.Release(time.Minute, requestOf("a", n).ID)
		if begun, _ := d.Admit(time.Minute); len(begun) != 1 || begun[0] != requestOf("a", []int{2, 0, 3}[n]).ID {
			t.Fatalf("behind %d began %v", n, begun)
		}
	}
}

// TestLargeIsNotPassed: a call that needs many tokens does not wait longer because other calls need few.
func TestLargeIsNotPassed(t *testing.T) {
	t.Parallel()
	d := NewLimiter(tableOf(t, &Limit{ID: "l", Source: "model", TokensPerMinute: 1000}))
	var now time.Duration
	small := func(n int) Request { a := requestOf("small", n); a.Tokens = 10; return a }
	for i := range 500 {
		d.Acquire(now, small(i))
	}
	large := requestOf("large", 0)
	large.Tokens = 900
	d.Acquire(now, large)
	for !d.reservations[large.ID].granted {
		begun, again := d.Admit(now)
		for _, id := range begun {
			d.MarkRecorded(now, d.reservations[id].Request, 1)
		}
		if now += again; now > 3*time.Minute {
			t.Fatal("the large call is passed for ever")
		}
	}
}

// TestToldByProviders: no more calls begin than the limit that a provider reports, and never more
// than the operator's own limit.
func TestToldByProviders(t *testing.T) {
	t.Parallel()
	limit := &Limit{ID: "l", Source: "model", PerMinute: 600, TrackProvider: true}
	own := &Limit{ID: "own", Source: "'all'", PerMinute: 600}
	d := NewLimiter(tableOf(t, limit, own))
	var now time.Duration
	first := requestOf("a", 0)
	d.Acquire(now, first)
	d.MarkRecorded(now, first, 1)
	d.ObserveProviderLimits(now, first.ID, &ProviderLimits{Wait: 5 * time.Second})
	if granted, _ := d.Acquire(now, requestOf("a", 1)); granted {
		t.Fatal("a call begins although the provider asked to wait")
	}
	if begun, again := d.Admit(now); len(begun) != 0 || again != 5*time.Second {
		t.Fatalf("%v, %s", begun, again)
	}
	now += 5 * time.Second
	if begun, _ := d.Admit(now); len(begun) != 1 {
		t.Fatal("no call begins after it")
	}
	left := int64(2)
	d.ObserveProviderLimits(now, first.ID, &ProviderLimits{Requests: &left, RequestsReset: 10 * time.Second})
	n := 0
	for i := range 50 {
		if granted, _ := d.Acquire(now, requestOf("a", 10+i)); granted {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d calls begin, 2 are left", n)
	}
	begun, again := d.Admit(now)
	if len(begun) != 0 || again > 10*time.Second {
		t.Errorf("%v, %s", begun, again)
	}
	now += 10 * time.Second
	if begun, _ := d.Admit(now); len(begun) == 0 {
		t.Error("nothing begins after the reset")
	}
}

// TestReplace: a new table applies to calls that wait. A call that has a place keeps it.
func TestReplace(t *testing.T) {
	t.Parallel()
	l := &Limit{ID: "l", Source: "model", Concurrent: 1}
	d := NewLimiter(tableOf(t, l))
	for i := range 4 {
		d.Acquire(0, requestOf("a", i))
	}
	d.MarkRecorded(0, requestOf("a", 0), 1)
	d.Replace(0, tableOf(t, &Limit{ID: "l", Source: "model", Concurrent: 3}))
	if begun, _ := d.Admit(0); len(begun) != 2 {
		t.Fatalf("%v begin", begun)
	}
	d.Replace(0, tableOf(t, &Limit{ID: "other", Source: "model", Concurrent: 3}))
	if begun, _ := d.Admit(0); len(begun) != 0 {
		t.Fatalf("%v begin", begun)
	}
	d.Replace(0, &Table{})
	if begun, _ := d.Admit(0); len(begun) != 1 {
		t.Fatalf("%v begin", begun)
	}
	for i := range 4 {
		d.Release(0, requestOf("a", i).ID)
	}
	if len(d.reservations)+len(d.queues) != 0 {
		t.Error("something is left")
	}
}

// TestUnknownKeysAreLimited: a call whose key the expression cannot compute counts
// together with all such calls.
func TestUnknownKeysAreLimited(t *testing.T) {
	t.Parallel()
	d := NewLimiter(tableOf(t, &Limit{ID: "l", Source: "labels.tenant", Concurrent: 1}))
	bare := func(n int) Request { return Request{ID: ID{Run: "r", Key: fmt.Sprint(n)}, Call: Call{Model: "m"}} }
	if granted, limited := d.Acquire(0, bare(0)); !granted || !limited {
		t.Fatal(granted, limited)
	}
	if granted, _ := d.Acquire(0, bare(1)); granted {
		t.Fatal("the second one goes")
	}
	if granted, _ := d.Acquire(0, requestOf("a", 0)); !granted {
		t.Fatal("another key waits")
	}
}
