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

// TestStoreMoves ends owners by SIGTERM and SIGKILL in turn (PAWL_MOVES times each), while callers at
// the other nodes make changes that have ids. None of their calls fails or is made twice. The length
// of each standstill is logged.
func TestStoreMoves(t *testing.T) {
	c := newCluster(t, 3, 1)
	moves := number("PAWL_MOVES", 1)
	for _, one := range []struct {
		what string
		sig  syscall.Signal
	}{{"hand-over (SIGTERM)", syscall.SIGTERM}, {"take-over (SIGKILL)", syscall.SIGKILL}} {
		var stood []time.Duration
		for n := range moves {
			victim := c.owner(0)
			if victim == nil {
				t.Fatalf("nobody is the owner: %s", c.shares())
			}
			its, _ := c.moved(fmt.Sprint(one.sig, "-", n), victim, 4, one.sig)
			stood = append(stood, its)
		}
		slices.Sort(stood)
		t.Logf("%s: longest standstill of a caller at another node, of %d: p50 %v, most %v", one.what, moves, stood[len(stood)/2], stood[len(stood)-1])
		if most := stood[len(stood)-1]; most > bound() {
			t.Errorf("%s: %v", one.what, most)
		}
	}
	c.stopped()
}

// moved ends a node, starts it again, and is the longest standstill of callers at the others, so many
// in each namespace: in those whose partitions it had, and in the rest.
func (c *cluster) moved(id string, victim *node, each int, sig syscall.Signal) (its, rest time.Duration) {
	c.t.Helper()
	all := c.calling(id, each, c.nodesExcept(victim)...)
	all.awaitCalls()
	all.resetGaps()
	had := c.ownedPartitions(victim)
	victim.end(sig)
	all.awaitCalls()
	all.end()
	if left := c.ownedPartitions(victim); len(left) > 0 {
		c.t.Errorf("%s has %v after %v: %s", victim.name, left, sig, c.shares())
	}
	victim.start()
	is := func(space string) bool { return had[c.parts[space]] }
	return all.longestGap(is), all.longestGap(func(space string) bool { return !is(space) })
}

// callers make changes through nodes in each namespace.
type callers struct {
	c     *cluster
	all   []*caller
	ended atomic.Bool
	done  sync.WaitGroup
}

// calling begins with so many callers in each namespace at each of some nodes. The ids of their
// requests are the same in all namespaces.
func (c *cluster) calling(id string, each int, nodes ...*node) *callers {
	a := &callers{c: c}
	for _, n := range nodes {
		for _, space := range c.spaces {
			for i := range each {
				one := &caller{callers: a, at: n, space: space}
				a.all = append(a.all, one)
				a.done.Go(func() { one.ping(fmt.Sprint(id, n.name, i)) })
			}
		}
	}
	return a
}

// awaitCalls waits until each has made some more calls.
func (a *callers) awaitCalls() {
	a.c.t.Helper()
	for _, one := range a.all {
		want := one.calls.Load() + 10
		for one.calls.Load() < want && a.c.ctx.Err() == nil && !a.c.t.Failed() {
			a.c.keepFault(time.Millisecond)
		}
	}
}

// resetGaps resets the measured standstills.
func (a *callers) resetGaps() {
	for _, one := range a.all {
		one.longestGap.Store(0)
	}
}

// longestGap is how long one of them stood still at most, in some namespaces.
func (a *callers) longestGap(of func(space string) bool) time.Duration {
	longest := int64(0)
	for _, one := range a.all {
		if of(one.space) {
			longest = max(longest, one.longestGap.Load())
		}
	}
	return time.Duration(longest).Round(time.Millisecond)
}

// allNamespaces is every namespace.
func allNamespaces(string) bool { return true }

// end returns when each has the answer to its last call.
func (a *callers) end() {
	a.ended.Store(true)
	a.done.Wait()
}

// caller moves a run to and fro, without trying anything again.
type caller struct {
	*callers
	at    *node
	space string
	// calls are those that it has made; longestGap is from one answer to the next.
	calls, longestGap atomic.Int64
}

func (o *caller) ping(id string) {
	c := o.c
	runs := pawlv1.NewRunServiceClient(namespaceConn{o.at.dial(), o.space})
	started, err := runs.StartRun(c.ctx, &pawlv1.StartRunRequest{Pack: "ping", RequestId: id, Execution: pawlv1.Execution_EXECUTION_CALLER})
	if err != nil {
		c.t.Errorf("StartRun of %s at %s in %s: %v", id, o.at.name, o.space, err)
		return
	}
	calls := 0
	for last := time.Now(); !o.ended.Load() && c.ctx.Err() == nil; calls++ {
		ctx, cancel := context.WithTimeout(c.ctx, patience)
		got, err := runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{RunId: started.GetRun().GetRunId(), Event: "Next", EventId: fmt.Sprint("ping-", calls)})
		cancel()
		if want := []string{"pong", "ping"}[calls%2]; err != nil || got.GetState() != want {
			c.t.Errorf("event %d at %s in %s led to %q instead of %s, %v", calls, o.at.name, o.space, got.GetState(), want, err)
			return
		}
		now := time.Now()
		for gap, most := int64(now.Sub(last)), o.longestGap.Load(); gap > most && !o.longestGap.CompareAndSwap(most, gap); most = o.longestGap.Load() {
		}
		last = now
		o.calls.Add(1)
	}
	got, err := runs.GetRun(c.ctx, &pawlv1.GetRunRequest{RunId: started.GetRun().GetRunId()})
	if want := int32(calls + 1); err != nil || got.GetRun().GetTotalVisits() != want {
		c.t.Errorf("a run in %s has %d visits instead of %d, %v", o.space, got.GetRun().GetTotalVisits(), want, err)
	}
}
