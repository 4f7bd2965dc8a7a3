//go:build sim

package simulation

import (
	"context"
	"fmt"
	"maps"
	goruntime "runtime"
	"slices"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/test/simulation/disk"
	"github.com/pawl-dev/pawl/test/simulation/pg"
)

// healTime is the time in which every run must end after all faults are over. It is well below the wall
// time of a run, so that a stuck run is not ended by its wall time.
const (
	healTime = 150 * time.Second
	healLook = 5 * time.Second
)

// heal ends all faults, lets all parties make progress, and checks that every run ends and that every
// reader has all records.
func (w *world) heal() {
	w.note("faults are over")
	w.healing = true
	w.knobs.late = 0
	// Work that waits for a wall clock's time is due according to the clock with the largest lead.
	ahead := max(w.nodes[0].ahead(), w.nodes[1].ahead())
	for _, n := range w.nodes {
		n.disk.SetFaults(func(f *disk.Faults) { *f = disk.Faults{Free: plenty, Sync: time.Millisecond} })
		if n.database != nil {
			n.database.SetFaults(func(f *pg.Faults) { *f = pg.Faults{Sync: time.Millisecond} })
		}
		n.wires.mu.Lock()
		n.wires.late, n.wires.repeat = 0, false
		n.wires.mu.Unlock()
		n.clock.jump(ahead - n.clock.skew)
		if n.cluster != nil {
			n.cluster.heal(ahead)
		}
		n.start()
	}
	for range int(healTime / healLook) {
		w.help()
		time.Sleep(healLook)
		w.look()
		for _, n := range w.nodes {
			n.start()
		}
		if w.failed() != nil || w.quiet() && w.rests() {
			break
		}
	}
	if w.failed() == nil {
		w.final()
	}
}

// help gives each run the decision or the input that it waits for.
func (w *world) help() {
	for i, n := range w.stores {
		if n.space == "" {
			w.people.letAll(n) // calls are held in runs of the default namespace alone
		}
		for _, run := range slices.Sorted(maps.Keys(w.oracles[i].states)) {
			s := w.oracles[i].states[run]
			if s.Status.Terminal() {
				continue
			}
			if s.Paused {
				ref := runtime.RunRef{Call: n.as(approver), RunID: run}
				w.people.call(n, "resume "+short(run), func(ctx context.Context, p *process) error {
					_, err := p.house.ResumeRun(ctx, runtime.ControlRequest{RunRef: ref})
					return err
				})
			}
			if s.Turn == nil {
				w.wakeUp(n, run)
			} else if s.Execution == machine.Caller {
				w.finish(n, run)
			}
		}
	}
}

// wakeUp gives an input to a run without a turn.
func (w *world) wakeUp(n *node, run string) {
	w.people.call(n, "wake "+short(run), func(ctx context.Context, p *process) error {
		_, err := p.house.SendInput(ctx, runtime.InputRequest{RunRef: runtime.RunRef{Call: n.as(approver), RunID: run}, Parts: []machine.Part{{Kind: machine.PartText, Text: "go on"}}})
		return err
	})
}

// finish completes the turn of a run that its caller executes.
func (w *world) finish(n *node, run string) {
	call := n.as(approver)
	call.Principal.Scopes |= policy.Admin
	ref := runtime.RunRef{Call: call, RunID: run}
	w.people.call(n, "finish "+short(run), func(ctx context.Context, p *process) error {
		turn, err := p.house.GetTurn(ctx, ref)
		if err != nil {
			return err
		}
		event := ""
		for _, e := range turn.Events {
			if e == "Finish" || e == "Closed" || e == "Approved" {
				event = e
			}
		}
		if turn.Orchestration == machine.External {
			_, err = p.house.EmitEvent(ctx, runtime.EmitRequest{RunRef: ref, Event: event})
			return err
		}
		_, err = p.house.CompleteTurn(ctx, runtime.CompleteRequest{TurnCall: runtime.TurnCall{RunRef: ref, TurnToken: turn.Token, TurnSeq: turn.Seq, Attempt: turn.Attempt}, Event: event})
		return err
	})
}

// quiet reports whether all runs have ended.
func (w *world) quiet() bool {
	for _, o := range w.oracles {
		for _, s := range o.states {
			if !s.Status.Terminal() {
				return false
			}
		}
	}
	return true
}

// rests reports whether all runs have ended and no further run will begin. A delegation that is on its
// way to the other node may begin one.
func (w *world) rests() bool {
	time.Sleep(3 * time.Second)
	w.look()
	return w.quiet()
}

// still waits until nothing has happened for a second and all runs have ended. A schedule may have
// started a run when the healing ended, and readers need a second more.
func (w *world) still() {
	entries := func() (n int) {
		for _, o := range w.oracles {
			n += len(o.journal)
		}
		return n
	}
	for i := range int(healTime / time.Second) {
		before := entries()
		time.Sleep(time.Second)
		w.look()
		if entries() == before && w.quiet() || w.failed() != nil {
			return
		}
		if i%int(healLook/time.Second) == 0 {
			w.help()
		}
	}
}

// final checks everything that must be true when nothing happens any more.
func (w *world) final() {
	for _, n := range w.nodes {
		n.level()
	}
	w.still()
	for i, o := range w.oracles {
		for _, run := range slices.Sorted(maps.Keys(o.states)) {
			if s := o.states[run]; !s.Status.Terminal() {
				w.fail("no run is stuck that could move", "%s: run %s is %s in %q after %v without faults: turn %+v, steps %+v",
					w.stores[i].name, run, s.Status, s.Current, healTime, s.Turn, s.Steps)
			}
		}
		w.prove(o)
	}
	w.settled()
	w.leases()
	w.audited()
	w.shown()
	w.forks()
	w.receivers.final()
	w.linearizable()
	for _, r := range w.readers {
		r.complete(w.oracle(r.node))
	}
	for i, n := range w.stores {
		if n.cluster != nil {
			n.final(w.oracles[i])
		}
	}
	synctest.Wait()
	w.bounded()
}

// maxGoroutines is the number of goroutines of two sidecars and all simulated parties when no call is
// in progress.
const maxGoroutines = 700

// memberGoroutines and memberHeap are the additional amounts for each sidecar of a cluster, which has
// two servers. The amounts of a ward are those of one runtime with its simulated parties.
const (
	memberGoroutines = 500
	memberHeap       = 8 << 20
	wardGoroutines   = 100
	wardHeap         = 8 << 20
)

// Of one seed in heapEvery the heap is measured, which takes a collection of garbage. What
// is reachable then is of both sidecars and of what the simulator remembers.
const (
	heapEvery = 25
	maxHeap   = 40 << 20
)

// bounded checks that the memory at the end does not depend on what happened.
func (w *world) bounded() {
	heap, most := uint64(maxHeap), maxGoroutines
	for _, n := range w.nodes {
		if n.cluster != nil {
			heap += memberHeap * uint64(len(n.cluster.members))
			most += memberGoroutines * len(n.cluster.members)
			heap += wardHeap * uint64(len(n.cluster.wards))
			most += wardGoroutines * len(n.cluster.wards)
		}
	}
	if w.seed%heapEvery == 0 {
		goruntime.GC()
		var m goruntime.MemStats
		if goruntime.ReadMemStats(&m); m.HeapAlloc > heap {
			w.fail("memory is bounded", "%d bytes are reachable, %d may be", m.HeapAlloc, heap)
		}
	}
	if n := goruntime.NumGoroutine(); n > most {
		stacks := make([]byte, 1<<20)
		w.fail("memory is bounded", "%d goroutines, of which some:\n%s", n, stacks[:goruntime.Stack(stacks, true)])
	}
}

// prove verifies the store: every row must be the one that the journal entries produce.
func (w *world) prove(o *oracle) {
	p := o.node.process()
	if p == nil {
		w.fail("a node lives without faults", "%s", o.node.name)
		return
	}
	graphs := func(digest, entry, agent string, override bool) (*machine.Graph, error) {
		return graphOf(p, digest, entry, agent, override)
	}
	if _, err := p.store.Check(context.Background(), graphs); err != nil {
		w.fail("the store proves itself", "%s: %v", o.node.name, err)
	}
}

func graphOf(p *process, digest, entry, agent string, override bool) (*machine.Graph, error) {
	s := &machine.State{Digest: digest, Entry: entry, Agent: agent, EntryOverride: override}
	prog, err := p.house.Programs().ProgramOf(context.Background(), p.ns, s)
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", digest, err)
	}
	return prog.Graph, nil
}
