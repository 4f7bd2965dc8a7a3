package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// approvalWorld is a world whose tool refund needs an approval.
func approvalWorld(t testing.TB) *world {
	w := newWorld(t, openTemp(t))
	w.graph.Tools["refund"] = machine.Tool{Timeout: time.Minute, Approval: &machine.Approval{Timeout: time.Hour}}
	w.graph.Prompts["plan"].Tools["refund"] = true
	return w
}

// hold starts a run with n held calls, and decide decides about one of them.
func (w *world) hold(run string, n int) {
	w.t.Helper()
	turn, asked := w.start(run).Turn, machine.RequestSteps{Attempt: 1}
	for asked.TurnSeq = turn.Seq; len(asked.Requests) < n; {
		asked.Requests = append(asked.Requests, machine.StepRequest{Key: fmt.Sprint(len(asked.Requests)), Tool: "refund", Payload: []byte(`{}`)})
	}
	w.do(run, asked)
}

func (w *world) decide(run string, step uint32, v machine.Verdict) {
	w.t.Helper()
	for _, p := range w.runs[run].Steps {
		if p.Step == step {
			w.do(run, machine.DecideStep{Step: step, Digest: p.Approval.Digest, Verdict: v})
		}
	}
}

// search reads all pages of a search. It returns RUN/STEP of each decision.
func search(t testing.TB, s *Store, q machine.DecisionSearch) (found []string, removed uint64, pages int) {
	t.Helper()
	for pages = 1; ; pages++ {
		page, err := s.Decisions(context.Background(), 0, q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Entries) > q.Limit || page.Next != 0 && q.Before != 0 && page.Next >= q.Before {
			t.Fatalf("a page of %d has %d entries and the position %d after %d", q.Limit, len(page.Entries), page.Next, q.Before)
		}
		for i := range page.Entries {
			for _, r := range page.Entries[i].Records {
				if d, ok := r.Body.(*machine.StepDecided); ok {
					found = append(found, fmt.Sprintf("%s/%d", page.Entries[i].RunID, d.Step))
				}
			}
		}
		removed += page.Removed
		if q.Before = page.Next; q.Before == 0 {
			return found, removed, pages
		}
	}
}

// TestDecisions: a search has each decision once, the newest first, in pages of any size, of all runs and of one. What was deleted is counted.
func TestDecisions(t *testing.T) {
	t.Parallel()
	w := approvalWorld(t)
	if found, removed, pages := search(t, w.store, machine.DecisionSearch{Limit: 10}); len(found) != 0 || removed != 0 || pages != 1 {
		t.Errorf("an empty store: %v, %d, %d", found, removed, pages)
	}
	var want []string
	var middle int64
	for n := range 6 {
		w.hold(runID(n), 2)
		w.live(runID(100 + n))
	}
	for _, step := range []uint32{1, 2} {
		for n := range 6 {
			id := runID((n*5 + int(step)) % 6)
			w.decide(id, step, machine.Verdict(n%2)+machine.Approved)
			want = append(want, fmt.Sprintf("%s/%d", id, step))
			if len(want) == 3 {
				middle = w.at
			}
		}
	}
	slices.Reverse(want)
	for limit := 1; limit < len(want)+2; limit++ {
		if found, _, _ := search(t, w.store, machine.DecisionSearch{Limit: limit}); !slices.Equal(found, want) {
			t.Fatalf("pages of %d:\n%v, want\n%v", limit, found, want)
		}
		if found, _, _ := search(t, w.store, machine.DecisionSearch{Limit: limit, Run: runID(2)}); !slices.Equal(found, of(want, runID(2))) || len(found) == 0 {
			t.Fatalf("one run, pages of %d: %v of %v", limit, found, want)
		}
	}
	if found, _, _ := search(t, w.store, machine.DecisionSearch{Limit: 100, From: middle + 1}); !slices.Equal(found, want[:len(found)]) || len(found) != 9 {
		t.Errorf("from the middle: %v", found)
	}
	entries := w.runs[runID(2)].Seq
	w.end(runID(2))
	if _, _, err := w.store.DeleteRun(context.Background(), 0, runID(2), asked); err != nil {
		t.Fatal(err)
	}
	left := slices.DeleteFunc(slices.Clone(want), func(s string) bool { return len(of([]string{s}, runID(2))) > 0 })
	if found, removed, _ := search(t, w.store, machine.DecisionSearch{Limit: 4}); !slices.Equal(found, left) || removed == 0 || removed > entries+2 {
		t.Errorf("after a deletion: %v, %d removed; want %v", found, removed, left)
	}
}

func of(found []string, run string) (out []string) {
	for _, f := range found {
		if f[:len(run)] == run {
			out = append(out, f)
		}
	}
	return out
}

// TestDecisionsEnd: a search from a time ends soon after it, but not at a few entries of a clock that was wrong, and not at many of a clock
// that was wrong by less than an hour. A page examines a bounded number of entries.
func TestDecisionsEnd(t *testing.T) {
	t.Parallel()
	w := approvalWorld(t)
	began := w.at
	w.hold("old", 1)
	w.decide("old", 1, machine.Approved)
	note := func(run string, at int64, n int) {
		w.at = at
		w.start(run)
		for range n {
			w.do(run, machine.Pause{})
			w.do(run, machine.Resume{})
		}
	}
	note("before", w.at, decisionOld)
	older := w.store.readTimestamps.tail(0)
	now, from := began+int64(5*time.Hour), began+int64(4*time.Hour)
	w.at = now
	w.hold("new", 1)
	w.decide("new", 1, machine.Approved)
	note("wrong for a moment", began, decisionOld/8)
	note("right", now, 1)
	note("wrong by some minutes", from-decisionSlack/2, decisionOld)
	d := &decisionSearch{DecisionSearch: machine.DecisionSearch{Limit: 10, From: from}, ctx: t.Context(), tail: w.store.readTimestamps.tail(0)}
	if err := w.store.search(d); err != nil || len(d.page.Entries) != 1 || d.page.Entries[0].RunID != "new" || d.page.Next != 0 {
		t.Errorf("found %+v, %v", d.page, err)
	}
	if want := int(d.tail-older) + decisionOld; d.looked != want {
		t.Errorf("%d entries were examined, want %d", d.looked, want)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.store.Decisions(ctx, 0, machine.DecisionSearch{Limit: 10}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled search: %v", err)
	}
	if found, _, _ := search(t, w.store, machine.DecisionSearch{Limit: 10}); !slices.Equal(found, []string{"new/1", "old/1"}) {
		t.Errorf("found %v", found)
	}
}

// BenchmarkDecisions searches a store of 10 000 runs with 7 entries each, of which one in a hundred has a decision.
func BenchmarkDecisions(b *testing.B) {
	w := approvalWorld(b)
	for n := range 10_000 {
		w.live(runID(n))
		if n%100 == 0 {
			w.hold(runID(100_000+n), 1)
			w.decide(runID(100_000+n), 1, machine.Approved)
		}
	}
	for name, q := range map[string]machine.DecisionSearch{"page": {Limit: 100}, "run": {Limit: 100, Run: runID(105_000)}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := w.store.Decisions(context.Background(), 0, q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("all pages", func(b *testing.B) {
		pages := 0
		for b.Loop() {
			var found []string
			if found, _, pages = search(b, w.store, machine.DecisionSearch{Limit: 100}); len(found) != 100 {
				b.Fatal(len(found))
			}
		}
		b.ReportMetric(float64(pages), "pages")
	})
}
