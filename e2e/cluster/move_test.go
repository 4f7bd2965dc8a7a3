package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestStoreMoves: owners are told to end, and are killed, in turn (PAWL_MOVES times each), while
// callers at the other nodes make changes that have ids. None of their calls fails or is made
// twice; how long they stood still is told.
func TestStoreMoves(t *testing.T) {
	c := newCluster(t, 3, packs(t)...)
	moves := number("PAWL_MOVES", 1)
	for _, one := range []struct {
		what string
		sig  syscall.Signal
	}{{"hand-over (SIGTERM)", syscall.SIGTERM}, {"take-over (SIGKILL)", syscall.SIGKILL}} {
		var stood []time.Duration
		for n := range moves {
			stood = append(stood, c.moved(fmt.Sprint(one.sig, "-", n), one.sig))
		}
		slices.Sort(stood)
		t.Logf("%s: longest standstill of a caller at another node, of %d: p50 %v, most %v", one.what, moves, stood[len(stood)/2], stood[len(stood)-1])
		if most := stood[len(stood)-1]; most > longest {
			t.Errorf("%s: %v", one.what, most)
		}
	}
	c.stopped()
}

// moved ends the owner, starts it again, and is the longest standstill of callers at the others.
func (c *cluster) moved(id string, sig syscall.Signal) time.Duration {
	c.t.Helper()
	victim := c.owner()
	if victim == nil {
		c.t.Fatalf("nobody is the owner: %s", c.db.server().Query(c.t, "postgres", "SELECT json_build_object('parts', (SELECT json_agg(p) FROM pawl.part p), 'nodes', (SELECT json_agg(n) FROM pawl.node n))"))
	}
	var over atomic.Bool
	var calls atomic.Int64
	var longest atomic.Int64
	var all sync.WaitGroup
	for _, n := range c.nodes {
		if n == victim {
			continue
		}
		for i := range 4 {
			all.Go(func() { c.ping(n, fmt.Sprint(id, n.name, i), &over, &calls, &longest) })
		}
	}
	further := func() {
		want := calls.Load() + 80
		for calls.Load() < want && c.ctx.Err() == nil && !c.t.Failed() {
			c.linger(time.Millisecond)
		}
	}
	further()
	longest.Store(0)
	victim.end(sig)
	further()
	over.Store(true)
	all.Wait()
	victim.start()
	return time.Duration(longest.Load()).Round(time.Millisecond)
}

// ping moves a run to and fro, without trying anything again.
func (c *cluster) ping(n *node, id string, over *atomic.Bool, calls, longest *atomic.Int64) {
	runs := pawlv1.NewRunServiceClient(n.dial())
	started, err := runs.StartRun(c.ctx, &pawlv1.StartRunRequest{Pack: "ping", RequestId: id, Execution: pawlv1.Execution_EXECUTION_CALLER})
	if err != nil {
		c.t.Errorf("StartRun at %s: %v", n.name, err)
		return
	}
	made := 0
	for last := time.Now(); !over.Load() && c.ctx.Err() == nil; made++ {
		ctx, cancel := context.WithTimeout(c.ctx, patience)
		got, err := runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{RunId: started.GetRun().GetRunId(), Event: "Next", EventId: fmt.Sprint("ping-", made)})
		cancel()
		if want := []string{"pong", "ping"}[made%2]; err != nil || got.GetState() != want {
			c.t.Errorf("event %d at %s led to %q instead of %s, %v", made, n.name, got.GetState(), want, err)
			return
		}
		now := time.Now()
		for gap := int64(now.Sub(last)); gap > longest.Load(); {
			longest.Store(gap)
		}
		last = now
		calls.Add(1)
	}
	got, err := runs.GetRun(c.ctx, &pawlv1.GetRunRequest{RunId: started.GetRun().GetRunId()})
	if want := int32(made + 1); err != nil || got.GetRun().GetTotalVisits() != want {
		c.t.Errorf("a run has %d visits instead of %d, %v", got.GetRun().GetTotalVisits(), want, err)
	}
}
