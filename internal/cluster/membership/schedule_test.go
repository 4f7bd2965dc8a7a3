package membership

import (
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// schedules returns how many schedules to try: PAWL_SCHEDULES.
func schedules(t *testing.T) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(os.Getenv("PAWL_SCHEDULES"), 10, 64)
	if err != nil {
		return 500
	}
	return n
}

// TestSchedules: nodes start, leave and die. They are stopped for longer than their leases, and lose the
// database, which is away from time to time. Stores fail; openings fail or last longer than a lease. At
// most one node at a time believes that it has a partition, and it stops believing so half a second before
// its lease in the database ends. In the end each partition has an owner, and no node has two partitions
// more than another node.
func TestSchedules(t *testing.T) {
	t.Parallel()
	met := map[string]int{}
	for seed := range schedules(t) {
		synctest.Test(t, func(t *testing.T) { schedule(t, seed, met) })
		if t.Failed() {
			return
		}
	}
	for _, kind := range []string{"start", "kill", "leave", "stop", "cut", "away", "fail", "taken"} {
		if met[kind] == 0 {
			t.Errorf("no schedule met %q", kind)
		}
	}
	t.Logf("%v", met)
}

func schedule(t *testing.T, seed uint64, met map[string]int) {
	t.Helper()
	w := newWorld(t, seed)
	// Every second seed has several partitions.
	w.divide(1 + int(seed%2)*w.roll(6))
	live := []*process{w.start(), w.start()}
	for range 20 {
		time.Sleep(w.randomDuration(4 * time.Second))
		i := w.roll(len(live))
		p := live[i]
		kind := []string{"start", "kill", "leave", "stop", "cut", "away", "fail"}[w.roll(7)]
		switch kind {
		case "start":
			live = append(live, w.start())
		case "kill":
			p.kill()
			live[i] = w.start()
		case "leave":
			if err := p.Node.Drain(t.Context()); err != nil || p.countServed() > 0 {
				t.Errorf("seed %d: %s has left: %v", seed, p.id, err)
			}
			p.stop()
			live[i] = w.start()
		case "stop":
			p.set(func() { p.stopped = time.Now().Add(w.randomDuration(2 * lease)) })
		case "cut":
			p.set(func() { p.cut = true })
			time.AfterFunc(w.randomDuration(2*lease), func() { p.set(func() { p.cut = false }) })
		case "away":
			w.set(func() { w.unreachable = true })
			time.AfterFunc(w.randomDuration(2*lease), func() { w.set(func() { w.unreachable = false }) })
		case "fail":
			p.fail()
		}
		met[kind]++
	}
	w.set(func() { w.faultless = true })
	time.Sleep(30 * time.Second)
	if !w.isBalanced(live) {
		// A partition that a node refused is given to it again a minute later.
		time.Sleep(minRefusalPause)
	}
	w.mustBeHad(live)
	w.mustBeEven(live)
	w.end()
	for _, of := range w.parts {
		met["taken"] += len(of.owners)
	}
}

func (p *process) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// fail lets one of the partitions of a process fail.
func (p *process) fail() {
	p.mu.Lock()
	var stores []*store
	for _, seat := range p.seats {
		if s, ok := seat.backend.(*store); ok {
			stores = append(stores, s)
		}
	}
	p.mu.Unlock()
	if len(stores) > 0 {
		stores[p.world.roll(len(stores))].fail()
	}
}

// countServed returns how many partitions accept calls.
func (p *process) countServed() (n int) {
	for part := range p.seats {
		if p.hasPart(part) {
			n++
		}
	}
	return n
}

func (p *process) tenureOf(part int) OpenPartition {
	p.Node.mu.Lock()
	defer p.Node.mu.Unlock()
	return p.partitions[part].partition
}

// mustBeHad checks that one node has each partition, and that all other nodes name it as the owner.
func (w *world) mustBeHad(live []*process) {
	w.t.Helper()
	for part := range w.parts {
		w.mustBeHadOnce(part, live)
	}
}

func (w *world) mustBeHadOnce(part int, live []*process) {
	w.t.Helper()
	var owner *process
	for _, p := range live {
		if p.hasPart(part) {
			owner = p
		}
	}
	if owner == nil {
		w.t.Errorf("seed %d: nobody has partition %d", w.seed, part)
		return
	}
	for _, p := range live {
		if p != owner && p.tenureOf(part) != nil {
			w.t.Errorf("seed %d: %s has not closed partition %d, which %s has", w.seed, p.id, part, owner.id)
		}
		if known, other := p.Owner(int32(part)); other == (p == owner) || other && known.ID != owner.id {
			w.t.Errorf("seed %d: %s names %q, %s has partition %d", w.seed, p.id, known.ID, owner.id, part)
		}
	}
}

// isBalanced reports whether no node has two partitions more than another node.
func (w *world) isBalanced(live []*process) bool {
	least, most := len(w.parts), 0
	for _, p := range live {
		least, most = min(least, p.countServed()), max(most, p.countServed())
	}
	return most-least < 2
}

func (w *world) mustBeEven(live []*process) {
	w.t.Helper()
	if w.isBalanced(live) {
		return
	}
	for _, p := range live {
		w.t.Errorf("seed %d: %s has %d of %d partitions", w.seed, p.id, p.countServed(), len(w.parts))
	}
}
