package store

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// TestTasks compares every walk with a sort of all heads, owners whose names are
// the beginning of others' and statuses of one moment included.
func TestTasks(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	rnd := rand.New(rand.NewPCG(3, 3))
	owners, contexts := []string{"al", "alice", "al\x00ice", "a"}, []string{"c", "c1", "c\x001"}
	var heads []*machine.State
	for i := range 60 {
		b := startBatch(runID(i), "")
		if i%10 != 0 {
			b.State.Task = &machine.Task{Owner: owners[rnd.IntN(len(owners))], ContextID: contexts[rnd.IntN(len(contexts))], Tenant: "p/a"}
			b.State.StatusAt = int64(rnd.IntN(20))
			heads = append(heads, b.State)
		}
		b.Index = rules.Indexes(b.State)
		mustCommit(t, s, b)
	}
	slices.SortFunc(heads, func(a, b *machine.State) int {
		if a.StatusAt != b.StatusAt {
			return int(b.StatusAt - a.StatusAt)
		}
		return strings.Compare(a.RunID, b.RunID)
	})
	for _, owner := range append(owners, "", "nobody") {
		for _, contextID := range append(contexts, "", "nothing") {
			for _, most := range []int{100, 3, 1} {
				wantTasks(t, s, heads, owner, contextID, most)
			}
		}
	}
	first := 0
	if err := s.Tasks(context.Background(), 0, "alice", "", 100, func(*machine.State) bool { first++; return false }); err != nil || first != 1 {
		t.Errorf("a visit that had enough was shown %d tasks, %v", first, err)
	}
}

// wantTasks compares one walk with the heads, which are sorted.
func wantTasks(t *testing.T, s *Store, heads []*machine.State, owner, contextID string, most int) {
	t.Helper()
	var want, got []string
	for _, h := range heads {
		if len(want) < most && (owner == "" || h.Task.Owner == owner) && (contextID == "" || h.Task.ContextID == contextID) {
			want = append(want, h.RunID)
		}
	}
	err := s.Tasks(context.Background(), 0, owner, contextID, most, func(st *machine.State) bool {
		got = append(got, st.RunID)
		return true
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("owner %q, context %q, at most %d: %v (%v)\nwant %v", owner, contextID, most, got, err, want)
	}
}

// TestNewestTasksAreFew: what a list keeps of the tasks of all owners does not grow with
// their number.
func TestNewestTasksAreFew(t *testing.T) {
	t.Parallel()
	newest := newestTasks{limit: 10}
	for i := range uint64(10_000) {
		newest.add(taskPlace{i * 7919 % 10_000, ""})
	}
	if got := cap(newest.tasks); got > 40 {
		t.Errorf("%d places are kept of 10", got)
	}
	newest.sort()
	for i, p := range newest.tasks {
		if p.age != uint64(i) || len(newest.tasks) != 10 {
			t.Fatalf("kept %v", newest.tasks)
		}
	}
}
