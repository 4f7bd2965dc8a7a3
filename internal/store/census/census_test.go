package census

import (
	"slices"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

func rowOf(run string) []byte {
	return layout.IndexKey(nil, 0, run, &machine.IndexChange{Index: StatusIndex, Value: machine.Running.String()})
}

// TestTakesMissedChanges: what is synced while the rows are counted is added once,
// whether or not the count has seen it.
func TestTakesMissedChanges(t *testing.T) {
	t.Parallel()
	db, err := badger.OpenManaged(badger.DefaultOptions("").WithInMemory(true).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const now = 7
	txn := db.NewTransactionAt(0, true)
	for _, run := range []string{"a", "b", "c"} {
		if err := txn.Set(rowOf(run), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := txn.CommitAt(now, nil); err != nil {
		t.Fatal(err)
	}
	view := func(read func(txn *layout.Txn) error) error {
		txn := db.NewTransactionAt(now, false)
		defer txn.Discard()
		return read(&layout.Txn{Txn: txn})
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
