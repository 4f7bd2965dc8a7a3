package membership

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// onSeeds runs a test with many seeds. There are no random faults.
func onSeeds(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	for seed := range schedules(t) / 5 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			w.faultless = true
			test(t, w)
			w.end()
		})
		if t.Failed() {
			return
		}
	}
}

// TestALeaseThatNobodyRenews: a node has a partition under an old epoch. No other node owns it, and no
// commit reports the newer epoch. The node takes the partition again.
func TestALeaseThatNobodyRenews(t *testing.T) {
	onSeeds(t, func(_ *testing.T, w *world) {
		p := w.cluster(1)[0]
		w.set(func() { w.epoch, w.owner, w.ends = w.epoch+1, "", time.Time{} })
		took := w.until(func() bool { return p.countServed() == 1 && w.firstOwner() == p.id })
		if took > 3*lease {
			w.t.Errorf("seed %d: it has it again after %v", w.seed, took)
		}
	})
}

// cluster starts some nodes. The first one owns the store.
func (w *world) cluster(n int) (all []*process) {
	for range n {
		all = append(all, w.start())
		time.Sleep(w.randomDuration(time.Second) + 500*time.Millisecond)
	}
	w.mustHave(all[0], 0)
	return all
}

// mustHave waits until a node has the store, and fails the test if that takes too long.
func (w *world) mustHave(p *process, within time.Duration) {
	w.t.Helper()
	if took := w.until(p.servesFirst); took > within {
		w.t.Errorf("seed %d: %s has it after %v, want %v", w.seed, p.id, took, within)
	}
}

// until waits for a condition, and returns how long it waited.
func (w *world) until(holds func() bool) time.Duration {
	began := time.Now()
	for !holds() && time.Since(began) < time.Minute {
		time.Sleep(time.Millisecond)
	}
	return time.Since(began)
}

// opens is about the time that it takes here to open a partition, including the statements before it.
const opens = 70 * time.Millisecond

// TestAFreeStoreIsTaken: a node takes a store without an owner at once.
func TestAFreeStoreIsTaken(t *testing.T) {
	onSeeds(t, func(_ *testing.T, w *world) {
		w.mustHave(w.start(), opens)
	})
}

// TestTheEldestTakesIt: one node takes the store at once, also if many nodes start at the same time.
func TestTheEldestTakesIt(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		var all []*process
		for range 5 {
			all = append(all, w.start())
		}
		if took := w.until(func() bool { return w.firstOwner() != "" }); took > opens {
			t.Errorf("seed %d: taken after %v", w.seed, took)
		}
		time.Sleep(3 * time.Second)
		if len(w.owners) != 1 {
			t.Errorf("seed %d: taken by %v", w.seed, w.owners)
		}
		w.mustBeHad(all)
	})
}

// TestADeadOwnerIsReplaced: the next node takes the store as soon as the lease of a dead owner has ended.
func TestADeadOwnerIsReplaced(t *testing.T) {
	onSeeds(t, func(_ *testing.T, w *world) {
		all := w.cluster(3)
		time.Sleep(w.randomDuration(3 * time.Second))
		all[0].kill()
		w.mustHave(all[1], lease+opens)
	})
}

// TestTheNextOneCannot: if the next node cannot open the store, another node opens it a second later.
func TestTheNextOneCannot(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		all := w.cluster(3)
		all[1].set(func() { all[1].broken = true })
		all[0].kill()
		w.mustHave(all[2], lease+fallbackDelay+2*opens)
		all[1].set(func() { all[1].broken = false })
		all[2].kill()
		w.mustHave(all[1], lease+fallbackDelay+opens)
		if tries := all[1].attempts; tries > 4 {
			t.Errorf("seed %d: %d tries", w.seed, tries)
		}
	})
}

// TestAnOwnerLeaves: the next node has the store at once, and the node that left knows the new owner.
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
		if nodes, _ := all[1].Counts(); nodes != 2 {
			t.Errorf("seed %d: %v are there", w.seed, nodes)
		}
	})
}

// TestNothingMoves: the store stays where it is when other nodes come and go.
func TestNothingMoves(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		all := w.cluster(2)
		for range 10 {
			p := w.start()
			time.Sleep(w.randomDuration(2 * time.Second))
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
		if len(w.owners) != 1 {
			t.Errorf("seed %d: taken by %v", w.seed, w.owners)
		}
		w.mustBeHad(all)
	})
}

// TestOneStatementASecond: an idle node sends one statement a second, whether it has the store or not.
func TestOneStatementASecond(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		all := w.cluster(3)
		time.Sleep(lease)
		before := map[string]int{}
		for _, p := range all {
			before[p.id] = p.countReports()
		}
		time.Sleep(time.Minute)
		for _, p := range all {
			if n := p.countReports() - before[p.id]; n < 55 || n > 60 {
				t.Errorf("seed %d: %s said %d in a minute", w.seed, p.id, n)
			}
		}
	})
}

func (p *process) countReports() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heartbeats
}

// readError returns the error because of which the node cannot read the rows.
func (p *process) readError() error {
	p.Node.mu.Lock()
	defer p.Node.mu.Unlock()
	return p.pollError
}

// TestTheDatabaseIsAway: the database is away for longer than a lease. The owner of the store continues
// when the database is back. In the meantime, each node counts the partition as unowned, and no node as
// alive.
func TestTheDatabaseIsAway(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		all := w.cluster(3)
		w.set(func() { w.unreachable = true })
		time.Sleep(lease + time.Second + w.randomDuration(10*time.Second))
		if all[0].servesFirst() || all[0].readError() == nil {
			t.Errorf("seed %d: it has the store, and does not know whether", w.seed)
		}
		for i, p := range all {
			if living, unowned := p.Counts(); living != 0 || unowned != 1 || !p.Stale() {
				t.Errorf("seed %d: node %d counts %d nodes and %d partitions without an owner", w.seed, i, living, unowned)
			}
		}
		w.set(func() { w.unreachable = false })
		w.mustHave(all[0], 1300*time.Millisecond)
		time.Sleep(lease)
		if len(w.owners) != 1 || all[0].readError() != nil {
			t.Errorf("seed %d: taken by %v", w.seed, w.owners)
		}
		for i, p := range all {
			if living, unowned := p.Counts(); living != 3 || unowned != 0 || p.Stale() {
				t.Errorf("seed %d: node %d counts %d nodes and %d partitions without an owner afterwards", w.seed, i, living, unowned)
			}
		}
		w.mustBeHad(all)
	})
}

// TestWhoIsCutOffKnowsNobody: a node that does not reach the database for a lease reports that it knows no
// other owner. It knows the owner again when it reaches the database again.
func TestWhoIsCutOffKnowsNobody(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		p := w.cluster(2)[1]
		until := func(knows bool) {
			for changed := p.Changed(); p.KnowsOtherOwner() != knows; changed = p.Changed() {
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

// TestADatabaseThatRefuses: a node asks a database that refuses at once five times a second at most,
// however often callers that wait for an owner ask for news.
func TestADatabaseThatRefuses(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		p := w.cluster(1)[0]
		w.set(func() { w.unreachable, w.refusing = true, true })
		w.until(func() bool { return p.readError() != nil })
		before := p.countReports()
		for range 10_000 {
			p.Refresh()
			time.Sleep(time.Millisecond)
		}
		if n := p.countReports() - before; n < 40 || n > 51 {
			t.Errorf("seed %d: it was asked %d times in 10 s", w.seed, n)
		}
		w.set(func() { w.unreachable, w.refusing = false, false })
		w.mustHave(p, 300*time.Millisecond)
	})
}

// TestAStoppedOwner: another node replaces an owner whose process is stopped. The former owner stands by
// when it runs again.
func TestAStoppedOwner(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		all := w.cluster(3)
		all[0].set(func() { all[0].stopped = time.Now().Add(3 * lease) })
		w.mustHave(all[1], lease+opens)
		time.Sleep(3 * lease)
		w.mustBeHad(all)
		if len(w.owners) != 2 {
			t.Errorf("seed %d: taken by %v", w.seed, w.owners)
		}
	})
}

// TestAStoreThatFails: a node closes a failed store, and its process does not end. The other nodes may take
// the store first.
func TestAStoreThatFails(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		all := w.cluster(2)
		all[0].fail()
		w.mustHave(all[1], 2*opens)
		all[1].kill()
		w.mustHave(all[0], lease+opens)
		all[0].fail()
		w.until(func() bool { return !all[0].servesFirst() })
		w.mustHave(all[0], minTakeoverBackoff+2*opens)
		w.mustBeHad(all[:1])
	})
}

// TestWhoStandsBySays: a node that stands by logs each new owner of the store once.
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

// TestAStranger: a process that is not a node has the store. The nodes wait for it, and do not name it to
// callers.
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

// TestKeys: a node knows the keys of live nodes. For the key of a node that has just started, it reads the
// rows again. For unknown keys it reads the rows ten times a second at most.
func TestKeys(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		all := w.cluster(2)
		late := w.start()
		time.Sleep(10 * time.Millisecond)
		began := time.Now()
		if !all[0].KnowsKey(late.key) || time.Since(began) > 2*minRefreshInterval {
			t.Errorf("seed %d: it is not known after %v", w.seed, time.Since(began))
		}
		before := all[0].countReports()
		for range 10 {
			if all[0].KnowsKey([32]byte{9}) || all[0].KnowsKey([32]byte{}) {
				t.Errorf("seed %d: a stranger is known", w.seed)
			}
		}
		if n := all[0].countReports() - before; n > 30 {
			t.Errorf("seed %d: %d looks", w.seed, n)
		}
		late.kill()
		time.Sleep(2 * lease)
		if all[0].KnowsKey(late.key) {
			t.Errorf("seed %d: one that is gone is known", w.seed)
		}
		w.set(func() { w.unreachable = true })
		time.Sleep(lease + time.Second)
		if all[0].KnowsKey(all[1].key) {
			t.Errorf("seed %d: known from a view of long ago", w.seed)
		}
	})
}

// TestLeaveEndsWithItsContext: Drain ends with its context, and it ends an opening that is in progress.
func TestLeaveEndsWithItsContext(t *testing.T) {
	onSeeds(t, func(t *testing.T, w *world) {
		p := w.start()
		w.until(func() bool { return w.firstOwner() != "" })
		if err := p.Node.Drain(t.Context()); err != nil || w.firstOwner() != "" {
			t.Errorf("seed %d: %v, %q has it", w.seed, err, w.firstOwner())
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

// TestALeaseIsNoLongerThanALease: a node shortens a lease that is longer than the configured time. A
// database reports such a lease after its clock was set back.
func TestALeaseIsNoLongerThanALease(t *testing.T) {
	t.Parallel()
	n := New(Config{Self: Member{ID: "a", Parts: 1}, Slot: func(int32) Slot { return nil }})
	n.view = View{Parts: []Partition{{Owner: n.cfg.Self, Lease: time.Hour}}}
	sent := time.Now()
	n.checkLease(n.partitions[0], nil, sent)
	if want := sent.Add(n.cfg.Lease - margin); !n.partitions[0].until.Equal(want) {
		t.Errorf("the store is taken for ours for %v", n.partitions[0].until.Sub(sent))
	}
}
