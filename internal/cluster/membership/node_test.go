package membership

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// onSeeds runs a test many times in which nothing goes wrong by itself.
func onSeeds(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	for seed := range schedules(t) / 5 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			w.calm = true
			test(t, w)
			w.end()
		})
		if t.Failed() {
			return
		}
	}
}

// TestALeaseThatNobodyRenews: who has a partition under an epoch that is not the newest, though nobody
// has it after him and no commit tells him so, takes it anew.
func TestALeaseThatNobodyRenews(t *testing.T) {
	onSeeds(t, func(_ *testing.T, w *world) {
		p := w.cluster(1)[0]
		w.set(func() { w.epoch, w.owner, w.ends = w.epoch+1, "", time.Time{} })
		took := w.until(func() bool { return p.holds() == 1 && w.has() == p.id })
		if took > 3*lease {
			w.t.Errorf("seed %d: it has it again after %v", w.seed, took)
		}
	})
}

// cluster starts some nodes, of which the first one has the store.
func (w *world) cluster(n int) (all []*process) {
	for range n {
		all = append(all, w.start())
		time.Sleep(w.within(time.Second) + 500*time.Millisecond)
	}
	w.mustHave(all[0], 0)
	return all
}

// mustHave waits until a node has the store, so long at most.
func (w *world) mustHave(p *process, within time.Duration) {
	w.t.Helper()
	if took := w.until(p.has); took > within {
		w.t.Errorf("seed %d: %s has it after %v, want %v", w.seed, p.id, took, within)
	}
}

// until waits for a condition, and says for how long.
func (w *world) until(holds func() bool) time.Duration {
	began := time.Now()
	for !holds() && time.Since(began) < time.Minute {
		time.Sleep(time.Millisecond)
	}
	return time.Since(began)
}

// opens is about what an opening takes here, with what is said before.
const opens = 70 * time.Millisecond

// TestAFreeStoreIsTaken at once by the one node that there is, and by one of several.
func TestAFreeStoreIsTaken(t *testing.T) {
	onSeeds(t, func(_ *testing.T, w *world) {
		w.mustHave(w.start(), opens)
	})
}

// TestTheEldestTakesIt, also when many start at the same time.
func TestTheEldestTakesIt(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		var all []*process
		for range 5 {
			all = append(all, w.start())
		}
		if took := w.until(func() bool { return w.has() != "" }); took > opens {
			t.Errorf("seed %d: taken after %v", w.seed, took)
		}
		time.Sleep(3 * time.Second)
		if len(w.takes) != 1 {
			t.Errorf("seed %d: taken by %v", w.seed, w.takes)
		}
		w.mustBeHad(all)
	})
}

// TestADeadOwnerIsReplaced when its lease has ended, at once by who comes first.
func TestADeadOwnerIsReplaced(t *testing.T) {
	onSeeds(t, func(_ *testing.T, w *world) {
		all := w.cluster(3)
		time.Sleep(w.within(3 * time.Second))
		all[0].kill()
		w.mustHave(all[1], lease+opens)
	})
}

// TestTheNextOneCannot: the one that comes first does not open it; another one does a second later.
func TestTheNextOneCannot(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		all := w.cluster(3)
		all[1].set(func() { all[1].broken = true })
		all[0].kill()
		w.mustHave(all[2], lease+fallbackDelay+2*opens)
		all[1].set(func() { all[1].broken = false })
		all[2].kill()
		w.mustHave(all[1], lease+fallbackDelay+opens)
		if tries := all[1].tries; tries > 4 {
			t.Errorf("seed %d: %d tries", w.seed, tries)
		}
	})
}

// TestAnOwnerLeaves: the next one has it at once, and the one that left knows it.
func TestAnOwnerLeaves(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		all := w.cluster(3)
		began := time.Now()
		if err := all[0].Node.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		w.mustHave(all[1], 100*time.Millisecond)
		if took := time.Since(began); took > 150*time.Millisecond {
			t.Errorf("seed %d: nobody had it for %v", w.seed, took)
		}
		if took := w.until(func() bool { owner, _ := all[0].Owner(0); return owner.ID == all[1].id }); took > 20*time.Millisecond {
			t.Errorf("seed %d: known after %v", w.seed, took)
		}
		time.Sleep(10 * time.Second)
		w.mustBeHad(all)
		all[0].stop()
		<-all[0].ended
		time.Sleep(2 * time.Second)
		if nodes := all[1].View().Nodes; len(nodes) != 2 {
			t.Errorf("seed %d: %v are there", w.seed, nodes)
		}
	})
}

// TestNothingMoves when nodes come and go that do not have it.
func TestNothingMoves(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		all := w.cluster(2)
		for range 10 {
			p := w.start()
			time.Sleep(w.within(2 * time.Second))
			if w.roll(2) == 0 {
				p.kill()
				continue
			}
			if err := p.Node.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			p.stop()
		}
		time.Sleep(lease)
		if len(w.takes) != 1 {
			t.Errorf("seed %d: taken by %v", w.seed, w.takes)
		}
		w.mustBeHad(all)
	})
}

// TestOneStatementASecond is all that an idle node says, whether it has the store or not.
func TestOneStatementASecond(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		all := w.cluster(3)
		time.Sleep(lease)
		before := map[string]int{}
		for _, p := range all {
			before[p.id] = p.said()
		}
		time.Sleep(time.Minute)
		for _, p := range all {
			if n := p.said() - before[p.id]; n < 55 || n > 60 {
				t.Errorf("seed %d: %s said %d in a minute", w.seed, p.id, n)
			}
		}
	})
}

func (p *process) said() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.beats
}

// blind is why it cannot read the rows.
func (p *process) blind() error {
	p.Node.mu.Lock()
	defer p.Node.mu.Unlock()
	return p.away
}

// TestTheDatabaseIsAway for longer than a lease: who had the store goes on when it is back.
func TestTheDatabaseIsAway(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		all := w.cluster(3)
		w.set(func() { w.away = true })
		time.Sleep(lease + w.within(10*time.Second))
		if all[0].has() || all[0].blind() == nil {
			t.Errorf("seed %d: it has the store, and does not know whether", w.seed)
		}
		w.set(func() { w.away = false })
		w.mustHave(all[0], 1300*time.Millisecond)
		time.Sleep(lease)
		if len(w.takes) != 1 || all[0].blind() != nil {
			t.Errorf("seed %d: taken by %v", w.seed, w.takes)
		}
		w.mustBeHad(all)
	})
}

// TestWhoIsCutOffKnowsNobody: a node that does not reach the database for a lease says so to who asks whether it
// can send calls on, and knows the owner again when it does.
func TestWhoIsCutOffKnowsNobody(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		p := w.cluster(2)[1]
		until := func(knows bool) {
			for changed := p.Changed(); p.Knows() != knows; changed = p.Changed() {
				<-changed
			}
		}
		until(true)
		p.set(func() { p.cut = true })
		until(false)
		if owners, _ := p.Owners(); len(owners) != 1 {
			t.Errorf("seed %d: what is open to %d owners is let go", w.seed, len(owners))
		}
		p.set(func() { p.cut = false })
		until(true)
	})
}

// TestADatabaseThatRefuses at once is asked five times a second, however often callers who wait for
// an owner ask for news.
func TestADatabaseThatRefuses(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		p := w.cluster(1)[0]
		w.set(func() { w.away, w.refuses = true, true })
		w.until(func() bool { return p.blind() != nil })
		before := p.said()
		for range 10_000 {
			p.Refresh()
			time.Sleep(time.Millisecond)
		}
		if n := p.said() - before; n < 40 || n > 51 {
			t.Errorf("seed %d: it was asked %d times in 10 s", w.seed, n)
		}
		w.set(func() { w.away, w.refuses = false, false })
		w.mustHave(p, 300*time.Millisecond)
	})
}

// TestAStoppedOwner is replaced, and stands by when it goes on.
func TestAStoppedOwner(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		all := w.cluster(3)
		all[0].set(func() { all[0].stopped = time.Now().Add(3 * lease) })
		w.mustHave(all[1], lease+opens)
		time.Sleep(3 * lease)
		w.mustBeHad(all)
		if len(w.takes) != 2 {
			t.Errorf("seed %d: taken by %v", w.seed, w.takes)
		}
	})
}

// TestAStoreThatFails is given up without an end of the process; the others go first.
func TestAStoreThatFails(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		all := w.cluster(2)
		all[0].fail()
		w.mustHave(all[1], 2*opens)
		all[1].kill()
		w.mustHave(all[0], lease+opens)
		all[0].fail()
		w.until(func() bool { return !all[0].has() })
		w.mustHave(all[0], minTakeoverBackoff+2*opens)
		w.mustBeHad(all[:1])
	})
}

// TestWhoStandsBySays for whom, once for each that takes the store.
func TestWhoStandsBySays(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		all := w.cluster(3)
		time.Sleep(lease)
		all[0].kill()
		w.mustHave(all[1], lease+opens)
		time.Sleep(lease)
		for said, want := range map[string]int{"partition acquired by another node": 2, "owner=\"node 00:1\"": 1, "owner=\"node 01:1\"": 1} {
			if got := all[2].log.count(said); got != want {
				t.Errorf("seed %d: %d times %s, want %d", w.seed, got, said, want)
			}
		}
		if got := all[1].log.count("partition acquired by another node"); got != 1 {
			t.Errorf("seed %d: who takes it said %d times that another one has it", w.seed, got)
		}
	})
}

// TestAStranger has the store: it is waited for, and named to nobody.
func TestAStranger(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		w.set(func() { w.owner, w.epoch, w.ends = "a command", 1, time.Now().Add(lease) })
		p := w.start()
		time.Sleep(lease / 2)
		if owner, ok := p.Owner(0); ok {
			t.Errorf("seed %d: %v", w.seed, owner)
		}
		w.mustHave(p, lease/2+opens)
		if got := p.log.count("owned by a process outside the cluster"); got != 1 {
			t.Errorf("seed %d: said %d times", w.seed, got)
		}
	})
}

// TestKeys of nodes that live are known, one that came just now by a further look; of others the
// rows are read ten times a second at most.
func TestKeys(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		all := w.cluster(2)
		late := w.start()
		time.Sleep(10 * time.Millisecond)
		began := time.Now()
		if !all[0].Known(late.key) || time.Since(began) > 2*minRefreshInterval {
			t.Errorf("seed %d: it is not known after %v", w.seed, time.Since(began))
		}
		before := all[0].said()
		for range 10 {
			if all[0].Known([32]byte{9}) || all[0].Known([32]byte{}) {
				t.Errorf("seed %d: a stranger is known", w.seed)
			}
		}
		if n := all[0].said() - before; n > 30 {
			t.Errorf("seed %d: %d looks", w.seed, n)
		}
		late.kill()
		time.Sleep(2 * lease)
		if all[0].Known(late.key) {
			t.Errorf("seed %d: one that is gone is known", w.seed)
		}
		w.set(func() { w.away = true })
		time.Sleep(lease + time.Second)
		if all[0].Known(all[1].key) {
			t.Errorf("seed %d: known from a view of long ago", w.seed)
		}
	})
}

// TestLeaveEndsWithItsContext, and an opening with what leaves.
func TestLeaveEndsWithItsContext(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		p := w.start()
		w.until(func() bool { return w.has() != "" })
		if err := p.Node.Drain(t.Context()); err != nil || w.has() != "" {
			t.Errorf("seed %d: %v, %q has it", w.seed, err, w.has())
		}
		time.Sleep(time.Second)
		other := w.cluster(1)[0]
		other.set(func() { other.stopped = time.Now().Add(lease) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := other.Node.Drain(ctx); err == nil {
			t.Errorf("seed %d: it left while it was stopped", w.seed)
		}
	})
}

// TestALeaseIsNoLongerThanALease: a database whose clock was put back tells of more.
func TestALeaseIsNoLongerThanALease(t *testing.T) {
	t.Parallel()
	n := New(Config{Me: Member{ID: "a", Parts: 1}, Slot: func(int32) Slot { return nil }})
	n.view = View{Parts: []Partition{{Owner: n.cfg.Me, Lease: time.Hour}}}
	sent := time.Now()
	n.checkLease(n.partitions[0], nil, sent)
	if want := sent.Add(n.cfg.Lease - margin); !n.partitions[0].until.Equal(want) {
		t.Errorf("the store is taken for ours for %v", n.partitions[0].until.Sub(sent))
	}
}
