//go:build sim

package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/pawl-dev/pawl/test/simulation/disk"
)

// do is one action of the plan.
func (w *world) do(a action) {
	dice := rand.New(rand.NewPCG(a.dice, 1))
	n := w.nodes[a.node]
	if n.cluster != nil && n.cluster.does(a.kind, dice) {
		return
	}
	if n.database != nil && n.befalls(a.kind, dice) {
		if n.cluster != nil {
			n.cluster.sick = time.Now().Add(longestFault)
		}
		return
	}
	switch a.kind {
	case "wait":
	case "fund":
		n.fund()
	case "kill", "power":
		n.crash(n.process(), a.kind == "power")
		w.restartLater(n, dice)
	case "rot":
		n.rot()
		w.restartLater(n, dice)
	case "cut":
		n.wires.cut()
	case "kill worker":
		w.workers[dice.IntN(len(w.workers))].restart()
	case "full":
		n.disk.SetFaults(func(f *disk.Faults) { f.Free = minFree / 2 })
		w.later(time.Duration(dice.IntN(3000))*time.Millisecond, func() { n.disk.SetFaults(func(f *disk.Faults) { f.Free = plenty }) })
	case "slow disk":
		n.disk.SetFaults(func(f *disk.Faults) { f.Sync = 300 * time.Millisecond })
		w.later(2*time.Second, func() { n.disk.SetFaults(func(f *disk.Faults) { f.Sync = w.knobs.sync }) })
	case "broken disk":
		n.disk.SetFaults(func(f *disk.Faults) { f.SyncFails = true })
		w.restartLater(n, dice)
	case "trip":
		w.trips[a.node] = trip{left: 1 + dice.IntN(24), what: pick(dice, kind("kill"), "kill", "power", "power", "cut", "kill worker", "broken disk"), dice: dice.Uint64()}
	case "jump":
		w.jumped = true
		n.clock.jump(pick(dice, time.Minute, -time.Minute, time.Hour, -time.Hour, time.Second, -time.Second))
	default:
		w.people.act(a.kind, n, dice)
	}
}

// longestFault is the longest duration of a fault of a database.
const longestFault = 6 * time.Second

// trip is a fault that waits for executors of turns by models. The executors report the points between
// two of their steps. After a number of points, the fault affects the node, its connections or a
// worker.
type trip struct {
	left int
	what kind
	dice uint64
}

// pass is called by executors at each point between two of their steps.
func (w *world) pass(n *node) {
	t := &w.trips[n.index()]
	if t.left == 0 || w.healing {
		return
	}
	if t.left--; t.left > 0 {
		return
	}
	w.note("%s of %s in the midst of a conversation", t.what, n.name)
	a := action{kind: t.what, node: n.index(), dice: t.dice}
	if a.kind != "kill worker" {
		w.do(a)
		return
	}
	// The action may end the executor that called pass.
	w.later(0, func() { w.do(a) })
}

// later does something unless the simulation ends before.
func (w *world) later(d time.Duration, do func()) {
	w.busy.Go(func() {
		select {
		case <-time.After(d):
			do()
		case <-w.over:
		}
	})
}

// restartLater acts as the supervisor of a sidecar: it starts the sidecar again after a while.
func (w *world) restartLater(n *node, dice *rand.Rand) {
	w.later(time.Duration(dice.IntN(1500))*time.Millisecond, n.start)
}
