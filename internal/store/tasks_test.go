package store

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
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
		b.Index = machine.Indexes(b.State)
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
			var want, got []string
			for _, h := range heads {
				if (owner == "" || h.Task.Owner == owner) && (contextID == "" || h.Task.ContextID == contextID) {
					want = append(want, h.RunID)
				}
			}
			err := s.Tasks(context.Background(), 0, owner, contextID, func(st *machine.State) bool {
				got = append(got, st.RunID)
				return true
			})
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("owner %q, context %q: %v (%v)\nwant %v", owner, contextID, got, err, want)
			}
		}
	}
	first := 0
	if err := s.Tasks(context.Background(), 0, "alice", "", func(*machine.State) bool { first++; return false }); err != nil || first != 1 {
		t.Errorf("a visit that had enough was shown %d tasks, %v", first, err)
	}
}
