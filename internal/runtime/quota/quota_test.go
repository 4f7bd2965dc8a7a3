package quota

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

func refusalOf(t *testing.T, err error) *machine.Error {
	t.Helper()
	refusal, ok := errors.AsType[*machine.Error](err)
	if !ok {
		t.Fatalf("got %v, want a refusal", err)
	}
	return refusal
}

func book(table *Table) *Limits {
	b := New(map[string]uint32{"default": 0, "red": 1})
	b.Replace(table)
	return b
}

// TestWhoMayHaveHowMuch: a holder has its own bound, or else the bound that all holders have. 0 means no bound.
func TestWhoMayHaveHowMuch(t *testing.T) {
	t.Parallel()
	b := book(&Table{
		Namespace: Bounds{OpenRuns: 10, Packs: 3}, Namespaces: map[string]Bounds{"red": {OpenRuns: 0, Workers: 7}},
		Principal: Bounds{Calls: 5}, Principals: map[string]Bounds{"ci": {Calls: 50}},
	})
	for _, c := range []struct {
		who  Holder
		what Resource
		want int64
	}{
		{Namespace("default"), OpenRuns, 10},
		{Namespace("red"), OpenRuns, 0},
		{Namespace("red"), Packs, 3},
		{Namespace("red"), Workers, 7},
		{Namespace("default"), Workers, 0},
		{Principal("ci"), Calls, 50},
		{Principal("red"), Calls, 5},
		{Principal("red"), Workers, 0},
		{Namespace("ci"), Calls, 0},
	} {
		if got := b.BoundFor(c.who, c.what); got != c.want {
			t.Errorf("%v of %s: %d, want %d", c.what, c.who.name, got, c.want)
		}
	}
	if (*Limits)(nil).BoundFor(Namespace("red"), OpenRuns) != 0 || (*Limits)(nil).CheckCount(1, Packs, 1e9) != nil {
		t.Error("no book is a bound")
	}
}

func TestTableFaults(t *testing.T) {
	t.Parallel()
	err := (&Table{
		Namespace: Bounds{"runs": 1, Packs: -1}, Namespaces: map[string]Bounds{"blue": {OpenRuns: maxBound + 1}},
		Principal: Bounds{OpenRuns: 1}, Principals: map[string]Bounds{"x": {Calls: 1}},
	}).Validate([]string{"default", "red"})
	for _, want := range []string{
		"namespace.runs: is none; there are calls_per_second, starts_per_minute, streams, open_runs, workers, packs, webhooks, consumers",
		"namespace.packs: is -1, want 0 (no bound) to 1000000000", "namespaces.blue: is not served; served are default, red",
		"namespaces.blue.open_runs: is 1000000001", "principal.open_runs: is none; there are calls_per_second, starts_per_minute, streams",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "principals.x") {
		t.Errorf("%v blames what is right", err)
	}
}

// TestRatesComeBack: an allowance that was spent comes back in time, at the configured rate. An
// allowance that is given back comes back at once.
func TestRatesComeBack(t *testing.T) {
	t.Parallel()
	b, now := book(&Table{Namespace: Bounds{Calls: 2, Starts: 60}}), time.Unix(0, 0)
	for range 2 {
		if _, err := b.Spend(Namespace("red"), Calls, now); err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.Spend(Namespace("red"), Calls, now)
	got := refusalOf(t, err)
	if got.Reason != "RATE_LIMITED" || got.Quota != "namespace.calls_per_second" || got.Limit != 2 || time.Duration(got.RetryAfter) != 500*time.Millisecond {
		t.Errorf("%+v", got)
	}
	if _, err := b.Spend(Namespace("default"), Calls, now); err != nil {
		t.Errorf("another namespace: %v", err)
	}
	now = now.Add(500 * time.Millisecond)
	back, err := b.Spend(Namespace("red"), Calls, now)
	if err != nil {
		t.Fatal(err)
	}
	back()
	if _, err := b.Spend(Namespace("red"), Calls, now); err != nil {
		t.Errorf("what was given back: %v", err)
	}
	// Names that callers make up are remembered nowhere.
	for i := range 1000 {
		if _, err := b.Spend(Namespace(fmt.Sprint("made-up-", i)), Calls, now); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.spaces) != 2 {
		t.Errorf("%d rates of namespaces", len(b.spaces))
	}
	for i := range maxPrincipals + 10 {
		b.Replace(&Table{Principal: Bounds{Calls: 1}})
		if _, err := b.Spend(Principal(fmt.Sprint(i)), Calls, now); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.principals.Len(); n > maxPrincipals {
		t.Errorf("%d rates of principals", n)
	}
}

// TestRateOfWhoHasNone: the rate that is passed to SpendElse applies only to a holder for
// which the table has no rate.
func TestRateOfWhoHasNone(t *testing.T) {
	t.Parallel()
	b, now := book(&Table{Principals: map[string]Bounds{"ci": {Calls: 3}, "free": {Calls: 0}}}), time.Unix(1, 0)
	taken := func(who Holder, perSecond float64) (n int) {
		for ; n < 10; n++ {
			if _, err := b.SpendElse(who, Calls, perSecond, now); err != nil {
				refusal := refusalOf(t, err)
				if refusal.Reason != "RATE_LIMITED" || refusal.Quota != "principal.calls_per_second" || refusal.RetryAfter <= 0 {
					t.Errorf("%+v", refusal)
				}
				return n
			}
		}
		return n
	}
	for _, c := range []struct {
		who       string
		perSecond float64
		want      int
	}{{"a", 0.001, 1}, {"b", 2, 2}, {"c", 0, 10}, {"ci", 2, 3}, {"free", 2, 10}} {
		if got := taken(Principal(c.who), c.perSecond); got != c.want {
			t.Errorf("%s at %v: %d calls at once, want %d", c.who, c.perSecond, got, c.want)
		}
	}
	if _, err := b.SpendElse(Principal("a"), Calls, 0.001, now); refusalOf(t, err).RetryAfter < int64(time.Minute) {
		t.Error("it may come back too soon")
	}
	if _, err := (*Limits)(nil).SpendElse(Principal("a"), Calls, 1, now); err != nil {
		t.Error("no book is a bound")
	}
}

// TestNoTimeComesTwice: a caller that gives an allowance back late, or that asks with an older time
// than others did, does not create an additional allowance. In a minute, no more starts begin than
// the rate allows in a minute and at once.
func TestNoTimeComesTwice(t *testing.T) {
	t.Parallel()
	const most = 60
	b, start := book(&Table{Namespace: Bounds{Starts: most}}), time.Unix(0, 0)
	begun := 0
	var late []func()
	for at := time.Duration(0); at <= time.Minute; at += 100 * time.Millisecond {
		for _, now := range []time.Time{start.Add(at), start.Add(at - time.Second)} {
			if _, err := b.Spend(Namespace("red"), Starts, now); err == nil {
				begun++
			}
		}
		// A repeated start takes an allowance, and gives it back a second later.
		if back, err := b.Spend(Namespace("red"), Starts, start.Add(at)); err == nil {
			late = append(late, back)
		}
		if len(late) > 10 {
			late[0]()
			late = late[1:]
		}
	}
	if begun > 2*most {
		t.Errorf("%d begun in a minute, %d may, and %d at once", begun, most, most)
	}
	if begun < most {
		t.Errorf("%d begun in a minute, %d may", begun, most)
	}
}

// TestPlacesAreExact: if many callers ask at once, exactly as many get a place as there are places.
func TestPlacesAreExact(t *testing.T) {
	t.Parallel()
	b := book(&Table{Namespace: Bounds{Streams: 5}, Principal: Bounds{Streams: 3}})
	for range 100 {
		var all sync.WaitGroup
		var got, refused atomic.Int64
		leaves := make(chan func(), 100)
		for i := range 40 {
			all.Go(func() {
				leave, err := b.Enter(Streams, Namespace("red"), Principal(fmt.Sprint("p", i%2)))
				if err != nil {
					refused.Add(1)
					return
				}
				got.Add(1)
				leaves <- leave
			})
		}
		all.Wait()
		if got.Load() != 5 || refused.Load() != 35 {
			t.Fatalf("%d have a place", got.Load())
		}
		close(leaves)
		for leave := range leaves {
			leave()
			leave() // the second time does nothing
		}
		if len(b.open) != 0 {
			t.Fatalf("%v is left", b.open)
		}
	}
	_, err := b.Enter(Streams, Namespace("red"), Principal("p"))
	if err != nil {
		t.Fatal(err)
	}
	b.Replace(&Table{Namespace: Bounds{Streams: 1}})
	_, err = b.Enter(Streams, Namespace("red"), Principal("p"))
	if got := refusalOf(t, err); got.Reason != "QUOTA_EXCEEDED" || got.Quota != "namespace.streams" || got.Limit != 1 || got.Got != 2 || got.RetryAfter == 0 {
		t.Errorf("%+v", got)
	}
	figures := b.Figures()
	if f := figures[len(figures)-1]; f.Namespace != "red" || f.Most != 1 || f.Open != 1 || f.Refused == 0 {
		t.Errorf("%+v", figures)
	}
}

// shelf counts as a store does: the count has a commit before the caller that made it receives the answer.
type shelf struct {
	mu   sync.Mutex
	open map[uint32]int
}

func (s *shelf) CountRuns(_ context.Context, ns uint32, _ []machine.Status) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[ns], nil
}

func (s *shelf) add(ns uint32, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[ns] += by
}

// TestOpenRunsAreExact: runs begin and end in hundreds at once, while the store is asked
// how many there were. There are never more than there may be, and in the end the count is
// what the store has.
func TestOpenRunsAreExact(t *testing.T) {
	t.Parallel()
	for range 50 {
		b, s := book(&Table{Namespaces: map[string]Bounds{"red": {OpenRuns: 8}}}), &shelf{open: map[uint32]int{0: 3, 1: 4}}
		r := NewRuns(b, s, 1000)
		var all sync.WaitGroup
		for i := range 60 {
			ns := uint32(i % 2)
			all.Go(func() {
				settle, err := r.Begin(t.Context(), ns, "p", time.Unix(0, 0))
				if err != nil {
					if got := refusalOf(t, err); got.Quota != "namespace.open_runs" || got.Limit != 8 || ns != 1 {
						t.Errorf("%+v", got)
					}
					return
				}
				begun := r.lead(s, nil, &machine.State{Namespace: ns, Status: machine.Running}, i%5 != 0)
				settle(begun)
				if n, _ := s.CountRuns(t.Context(), 1, nil); n > 8 {
					t.Errorf("%d are open, 8 may be", n)
				}
				if begun && i%3 == 0 {
					r.lead(s, &machine.State{Namespace: ns, Status: machine.Running}, &machine.State{Namespace: ns, Status: machine.Completed}, true)
				}
			})
			if i < 7 {
				// The runs that existed before end, perhaps before their number is read from the store.
				all.Go(func() {
					was := uint32(0)
					if i >= 3 {
						was = 1
					}
					r.lead(s, &machine.State{Namespace: was, Status: machine.Waiting}, &machine.State{Namespace: was, Status: machine.Cancelled}, true)
				})
			}
		}
		all.Wait()
		for ns, name := range b.names {
			if got := b.open[key{Namespace(name), OpenRuns}]; got != int64(s.open[ns]) {
				t.Fatalf("namespace %s: %d are counted, %d are stored", name, got, s.open[ns])
			}
		}
		if want := int64(s.open[0] + s.open[1]); r.total != want {
			t.Fatalf("%d in all, want %d", r.total, want)
		}
	}
}

// lead makes the commit that leads a run from one state to the next.
func (r *Runs) lead(s *shelf, before, after *machine.State, stored bool) bool {
	r.BeginCommit(before, after)
	if stored {
		s.add(after.Namespace, map[bool]int{true: -1, false: 1}[after.Status.Terminal()])
	}
	return r.EndCommit(before, after, stored)
}

// TestStartsAreGivenBack: a start that made no run has cost nothing.
func TestStartsAreGivenBack(t *testing.T) {
	t.Parallel()
	b := book(&Table{Namespace: Bounds{Starts: 2}, Principal: Bounds{Starts: 1}})
	r := NewRuns(b, &shelf{open: map[uint32]int{}}, 10)
	begin := func(name string) (func(bool), error) { return r.Begin(t.Context(), 1, name, time.Unix(0, 0)) }
	for range 5 {
		settle, err := begin("p")
		if err != nil {
			t.Fatal(err)
		}
		settle(false)
	}
	if _, err := begin("p"); err != nil {
		t.Fatal(err)
	}
	_, err := begin("p")
	if got := refusalOf(t, err); got.Quota != "principal.starts_per_minute" || got.Reason != "RATE_LIMITED" || time.Duration(got.RetryAfter) != time.Minute {
		t.Errorf("%+v", got)
	}
	if _, err := begin("q"); err != nil {
		t.Errorf("the other principal: %v", err)
	}
	_, err = begin("r")
	if got := refusalOf(t, err); got.Quota != "namespace.starts_per_minute" || time.Duration(got.RetryAfter) != 30*time.Second {
		t.Errorf("%+v", got)
	}
	if got := b.open[key{Namespace("red"), OpenRuns}]; got != 2 {
		t.Errorf("%d are open", got)
	}
}
