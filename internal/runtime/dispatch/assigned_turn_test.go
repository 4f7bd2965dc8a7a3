package dispatch_test

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
)

// TestHandedOut: this process knows which turns it gave away, and it notifies watchers. The loss of a worker
// does not change that. Another process does not know it, and the journal does not have it.
func TestHandedOut(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	run := r.startWorkers("a").RunID
	state := func() *machine.State { return r.view(run).State }
	handed := func(want bool, when string) {
		t.Helper()
		if got := r.Work.IsTurnAssigned(state()); got != want {
			t.Errorf("%s: handed out %v, want %v", when, got, want)
		}
	}
	handed(false, "before a worker came")
	before := state().Seq
	w, err := r.Watch(ctx, streams.Request{
		Call: runtime.Call{Principal: everyone}, Filter: streams.Filter{RunID: run, Kinds: allKinds}, Follow: true, Assignments: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	worker := r.connect("one")
	worker.turn()
	for told := uint64(0); ; {
		page, err := w.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if page.AssignedTurn == 0 {
			told = page.Records[len(page.Records)-1].Record.Seq
			continue
		}
		if page.AssignedTurn != state().Turn.Seq || page.AssignedTurn > told || len(page.Records) != 0 {
			t.Errorf("behind record %d: %+v", told, page)
		}
		break
	}
	handed(true, "with a worker")
	worker.Close(true)
	handed(true, "when it is lost")
	if got := state().Seq; got != before {
		t.Errorf("the run has %d records, before %d", got, before)
	}
	r.restart()
	handed(false, "in the next process")
}

// TestHandedOutToACaller: a turn counts as assigned once this process has given its token to a caller.
func TestHandedOutToACaller(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("a").RunID
	if !r.Work.IsTurnAssigned(r.view(run).State) {
		t.Error("the start gave its caller the turn")
	}
	r.restart()
	if r.Work.IsTurnAssigned(r.view(run).State) {
		t.Error("no token of another process holds")
	}
	if _, err := r.GetTurn(context.Background(), ref(run, everyone)); err != nil {
		t.Fatal(err)
	}
	if !r.Work.IsTurnAssigned(r.view(run).State) {
		t.Error("its caller has the turn")
	}
}
