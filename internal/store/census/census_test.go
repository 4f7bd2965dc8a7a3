package census

import (
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/memkv"
)

func rowOf(run string) []byte {
	return layout.IndexKey(nil, 0, run, &machine.IndexChange{Index: StatusIndex, Value: machine.Running.String()})
}

// TestTakesMissedChanges: what is synced while the rows are counted is added once,
// whether or not the count has seen it.
func TestTakesMissedChanges(t *testing.T) {
	t.Parallel()
	db := memkv.New()
	const now = 1
	batch := db.Batch()
	for _, run := range []string{"a", "b", "c"} {
		batch.Set(rowOf(run), nil)
	}
	stored := make(chan kv.Result, 1)
	batch.Commit(now, func(r kv.Result) { stored <- r })
	if r := <-stored; r.Err != nil {
		t.Fatal(r.Err)
	}
	view := func(read func(txn *layout.Txn) error) error {
		return read(&layout.Txn{View: kv.On(db.View(now))})
	}
	var c Census
	synced := func(ts uint64, remove bool) {
		c.Synced(ts, slices.Values([]*layout.Op{{Key: rowOf("r"), Delete: remove}, {Key: layout.HeadKey(0, "r")}}))
	}
	tally, mine := c.tallyOf(0)
	if !mine {
		t.Fatal("somebody counts already")
	}
	synced(now, false)  // in the snapshot
	synced(now+1, true) // not in it
	c.fill(t.Context(), view, 0, tally)
	synced(now, false) // in the snapshot, told after the count
	synced(now+2, true)
	if got := c.sum(tally, []string{machine.Running.String()}); got != 1 {
		t.Errorf("%d runs, want 3 - 2", got)
	}
}
