package membership

import (
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// schedules is how many are tried: PAWL_SCHEDULES.
func schedules(t *testing.T) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(os.Getenv("PAWL_SCHEDULES"), 10, 64)
	if err != nil {
		return 500
	}
	return n
}

// TestSchedules: nodes come, leave, die, are stopped beyond their leases and cut off from the
// database, which is away now and then; stores fail, openings fail and last longer than a lease.
// At most one node at a time believes that it has a partition, half a second less than by the
// database; and in the end somebody has each, and nobody two more than another one.
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
	// Of two seeds one has several partitions.
	w.divide(1 + int(seed%2)*w.roll(6))
	live := []*process{w.start(), w.start()}
	for range 20 {
		time.Sleep(w.within(4 * time.Second))
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
			if err := p.Node.Drain(t.Context()); err != nil || p.holds() > 0 {
				t.Errorf("seed %d: %s has left: %v", seed, p.id, err)
			}
			p.stop()
			live[i] = w.start()
		case "stop":
			p.set(func() { p.stopped = time.Now().Add(w.within(2 * lease)) })
		case "cut":
			p.set(func() { p.cut = true })
			time.AfterFunc(w.within(2*lease), func() { p.set(func() { p.cut = false }) })
		case "away":
			w.set(func() { w.away = true })
			time.AfterFunc(w.within(2*lease), func() { w.set(func() { w.away = false }) })
		case "fail":
			p.fail()
		}
		met[kind]++
	}
	w.set(func() { w.calm = true })
	time.Sleep(30 * time.Second)
	if !w.even(live) {
		// What one did not want is given once more a minute later.
		time.Sleep(minRefusalPause)
	}
	w.mustBeHad(live)
	w.mustBeEven(live)
	w.end()
	for _, of := range w.parts {
		met["taken"] += len(of.takes)
	}
}

func (p *process) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// fail fails a partition that a process has.
func (p *process) fail() {
	p.mu.Lock()
	var had []*store
	for _, seat := range p.seats {
		if s, ok := seat.home.(*store); ok {
			had = append(had, s)
		}
	}
	p.mu.Unlock()
	if len(had) > 0 {
		had[p.world.roll(len(had))].fail()
	}
}

// holds is how many partitions calls enter.
func (p *process) holds() (n int) {
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

// mustBeHad: each partition by one of the nodes, which all others name.
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

// even: no node has two more than another one.
func (w *world) even(live []*process) bool {
	least, most := len(w.parts), 0
	for _, p := range live {
		least, most = min(least, p.holds()), max(most, p.holds())
	}
	return most-least < 2
}

func (w *world) mustBeEven(live []*process) {
	w.t.Helper()
	if w.even(live) {
		return
	}
	for _, p := range live {
		w.t.Errorf("seed %d: %s has %d of %d partitions", w.seed, p.id, p.holds(), len(w.parts))
	}
}
