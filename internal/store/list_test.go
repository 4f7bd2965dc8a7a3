package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// variedRuns stores n runs that differ in everything a filter can ask for.
func variedRuns(t testing.TB, s *Store, n int) []*machine.State {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 1))
	var states []*machine.State
	for i := range n {
		b := startBatch(runID(i), "")
		st := b.State
		st.Status = []machine.Status{machine.Running, machine.Waiting, machine.Completed, machine.Failed}[rnd.IntN(4)]
		st.Current = []string{"plan", "test"}[rnd.IntN(2)]
		st.PackID = []string{"codegen", "review"}[rnd.IntN(2)]
		st.PackVersion = []string{"1", "2"}[rnd.IntN(2)]
		st.Digest = "sha256:" + st.PackID + st.PackVersion
		for _, key := range []string{"env", "team"} {
			if rnd.IntN(2) == 0 {
				st.Labels = append(st.Labels, machine.Label{Key: key, Value: []string{"a", "b"}[rnd.IntN(2)]})
			}
		}
		if rnd.IntN(4) == 0 {
			st.Parent = &machine.Parent{RunID: runID(rnd.IntN(3)), Step: 1, Attempt: 1}
		}
		b.Index = rules.Indexes(st)
		mustCommit(t, s, b)
		states = append(states, st)
	}
	return states
}

// list reads all pages and returns the run ids.
func list(t testing.TB, s *Store, f machine.RunFilter, limit int) []string {
	t.Helper()
	var out []string
	for after := ""; ; {
		page, next, err := s.ListRuns(context.Background(), 0, f, after, limit)
		if err != nil || len(page) > limit {
			t.Fatalf("%d runs, %v", len(page), err)
		}
		for _, st := range page {
			out = append(out, st.RunID)
		}
		if after = next; next == "" {
			return out
		}
	}
}

// TestListRunsByEveryFilter compares with a filter over all heads.
func TestListRunsByEveryFilter(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	states := variedRuns(t, s, 120)
	label := func(kv ...string) (ls []machine.Label) {
		for i := 0; i < len(kv); i += 2 {
			ls = append(ls, machine.Label{Key: kv[i], Value: kv[i+1]})
		}
		return ls
	}
	for _, f := range []machine.RunFilter{
		{},
		{Pack: "codegen"}, {Pack: "codegen@2"}, {Pack: "sha256:review1"}, {Pack: "nothing"},
		{Status: []machine.Status{machine.Running}}, {Status: []machine.Status{machine.Failed, machine.Waiting, machine.Failed}},
		{State: "test"}, {IDPrefix: runID(77)[:24]}, {IDPrefix: runID(77)}, {IDPrefix: "7ZZ"}, {IDPrefix: runID(1)[:25], Pack: "review"}, {Parent: runID(1)}, {Parent: runID(77)},
		{Labels: label("env", "a")}, {Labels: label("env", "a", "team", "b")}, {Labels: label("env", "a=b")},
		{Pack: "review", Status: []machine.Status{machine.Running, machine.Completed}, State: "plan", Labels: label("team", "a")},
	} {
		for _, oldest := range []bool{false, true} {
			f.Oldest = oldest
			var want []string
			for _, st := range states {
				if matches(st, &f) {
					want = append(want, st.RunID)
				}
			}
			if !oldest {
				slices.Reverse(want)
			}
			for _, limit := range []int{1, 7, 500} {
				if got := list(t, s, f, limit); !slices.Equal(got, want) {
					t.Fatalf("%+v, pages of %d:\n%v\nwant\n%v", f, limit, got, want)
				}
			}
		}
	}
}

// TestShortestIndex: of the indexes that a filter allows the one with the fewest
// rows is walked.
func TestShortestIndex(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	for i := range 30 {
		b := startBatch(runID(i), "")
		b.State.Labels = []machine.Label{{Key: "n", Value: fmt.Sprint(i % 10)}}
		b.Index = rules.Indexes(b.State)
		mustCommit(t, s, b)
	}
	txn := s.txnOf(s.engine.View(s.readTimestamps.durable()))
	defer txn.Close()
	f := machine.RunFilter{Pack: "codegen", Status: []machine.Status{machine.Running}, Labels: []machine.Label{{Key: "n", Value: "3"}}}
	if got := shortest(txn, 0, f); len(got) != 1 || !slices.Equal(got[0], layout.IndexPrefix(nil, 0, "label", "n=3")) {
		t.Fatalf("%q", got)
	}
	f.Parent = "nobody"
	if got := shortest(txn, 0, f); !slices.Equal(got[0], layout.IndexPrefix(nil, 0, "parent", "nobody")) {
		t.Fatalf("%q", got)
	}
}

// TestListLooksAtSoMany: a filter that matches nothing ends a page anyway, and
// the pages come to an end.
func TestListLooksAtSoMany(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	var ops []layout.Op
	for i := range listLook + 10 {
		b := startBatch(runID(i), "")
		b.State.Namespace = 3
		w, err := s.Encode(b)
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, w.ops[1])
	}
	if err := s.write(context.Background(), &Writes{entry: -1, ops: ops}); err != nil {
		t.Fatal(err)
	}
	f, pages := machine.RunFilter{State: "nowhere"}, 0
	for after := ""; ; pages++ {
		page, next, err := s.ListRuns(context.Background(), 3, f, after, 10)
		if err != nil || len(page) != 0 {
			t.Fatal(page, err)
		}
		if after = next; next == "" {
			break
		}
	}
	if pages != 1 {
		t.Fatalf("%d pages before the last", pages)
	}
}
