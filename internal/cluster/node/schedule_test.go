package node

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
		return 1500
	}
	return n
}

// TestSchedules: nodes come, leave, die, are stopped beyond their leases and cut off from the
// database, which is away now and then; stores fail, openings fail and last longer than a lease.
// At most one node at a time believes that it has the store, half a second less than by the
// database; and in the end somebody has it.
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
			if err := p.Node.Leave(t.Context()); err != nil || p.has() {
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
	w.mustBeHad(live)
	w.end()
	met["taken"] += len(w.takes)
}

func (p *process) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// fail fails the store of a process that has it.
func (p *process) fail() {
	p.mu.Lock()
	s, _ := p.seat.home.(*store)
	p.mu.Unlock()
	if s != nil {
		s.fail()
	}
}

func (p *process) tenureOf() Tenure {
	p.Node.mu.Lock()
	defer p.Node.mu.Unlock()
	return p.Node.tenure
}

// mustBeHad by one of the nodes, which all others name.
func (w *world) mustBeHad(live []*process) {
	w.t.Helper()
	var owner *process
	for _, p := range live {
		if p.has() {
			owner = p
		}
	}
	if owner == nil {
		w.t.Errorf("seed %d: nobody has the store", w.seed)
		return
	}
	for _, p := range live {
		if p != owner && p.tenureOf() != nil {
			w.t.Errorf("seed %d: %s has not closed what %s has", w.seed, p.id, owner.id)
		}
		if known, other := p.Owner(); other == (p == owner) || other && known.ID != owner.id {
			w.t.Errorf("seed %d: %s names %q, %s has it", w.seed, p.id, known.ID, owner.id)
		}
	}
}
