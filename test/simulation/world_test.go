//go:build sim

package simulation

import (
	_ "embed"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/test/simulation/disk"
	"github.com/pawl-dev/pawl/test/simulation/pg"
	"github.com/pawl-dev/pawl/test/simulation/pipes"
)

//go:embed testdata/pack.json
var packDocument []byte

// world is one simulation: two nodes and all parties around them. It runs in a synctest bubble on one
// processor, so that one goroutine at a time accesses its fields. A field that a goroutine may be
// changing when it is interrupted has a mutex.
type world struct {
	seed  uint64
	knobs knobs
	dice  *rand.Rand
	nodes [2]*node
	// stores are the nodes and, after them, the wards of a cluster. Each has a journal of its own.
	stores []*node
	began  time.Time

	people    *people
	workers   []*workman
	readers   []*reader
	receivers *receivers
	tools     *tools
	bookings  *bookings
	endpoint  *endpoint
	till      *till
	deciders  *deciders
	ledger    *ledger
	// oracles are those of the stores, in their order.
	oracles []*oracle

	// healing means that faults are over and that all parties try to make progress.
	healing bool
	// jumped: a wall clock was set, so that deadlines may have passed.
	jumped bool
	// trips are the faults of a node that begin when conversations have reached a certain point.
	trips [2]trip

	mu        sync.Mutex
	violation *violation
	trace     []string
	keep      bool
	sum       uint64
	steps     int
	// stuck counts the loops that were ended because they made no progress.
	stuck int
	// over ends readers, workers and receivers.
	over chan struct{}
	busy sync.WaitGroup
}

// violation is a promise that was not kept.
type violation struct{ promise, detail string }

func (v *violation) Error() string { return v.promise + ": " + v.detail }

// fail notes the first violation.
func (w *world) fail(promise, format string, args ...any) {
	w.mu.Lock()
	first := w.violation == nil
	if first {
		w.violation = &violation{promise: promise, detail: fmt.Sprintf(format, args...)}
	}
	w.mu.Unlock()
	if first {
		w.note("VIOLATION %s: %s", promise, fmt.Sprintf(format, args...))
	}
}

func (w *world) failed() *violation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.violation
}

// note adds a line to the trace, of which a hash is kept in any case.
func (w *world) note(format string, args ...any) {
	line := fmt.Sprintf("%12v ", time.Since(w.began)) + fmt.Sprintf("%016x ", drawn()) + fmt.Sprintf(format, args...)
	h := fnv.New64a()
	_, _ = h.Write([]byte(line))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sum = w.sum*31 + h.Sum64()
	w.steps++
	if w.keep {
		w.trace = append(w.trace, line)
	}
}

// outcome of a simulation.
type outcome struct {
	violation *violation
	// sum is of the whole trace: the same for the same plan, in every process.
	sum   uint64
	trace []string
	stats stats
}

// stats count what happened in simulations.
type stats struct{ entries, calls, lives, stuck, sales, decided int }

func (s *stats) add(more stats) {
	s.entries += more.entries
	s.calls += more.calls
	s.lives += more.lives
	s.stuck += more.stuck
	s.sales += more.sales
	s.decided += more.decided
}

// run simulates a plan. It must be called in a bubble.
func run(p plan, keep bool) (out outcome) {
	w := &world{seed: p.seed, knobs: p.knobs, dice: rand.New(rand.NewPCG(p.seed, 3)), keep: keep, over: make(chan struct{}), began: time.Now()}
	defer func() {
		if r := recover(); r != nil {
			w.fail("panic", "%v\n%s", r, debug.Stack())
		}
		out.violation, out.sum, out.trace = w.failed(), w.sum, w.trace
	}()
	w.people, w.receivers, w.tools = newPeople(w), newReceivers(w), newTools(w)
	w.bookings = newBookings(w)
	w.endpoint, w.ledger = newEndpoint(w), newLedger(w)
	w.till, w.deciders = newTill(w), newDeciders(w)
	current.Store(w)
	w.found()
	for _, n := range w.nodes {
		n.start()
	}
	w.settle()
	w.enter()
	for _, a := range p.actions {
		if w.failed() != nil {
			break
		}
		if !a.together {
			w.look()
			time.Sleep(a.after)
		}
		w.note("%s", a)
		w.do(a)
	}
	w.look()
	if w.failed() == nil {
		w.heal()
	}
	w.leave()
	out.stats = w.stats()
	return out
}

// found makes the nodes and their observers.
func (w *world) found() {
	for i := range w.nodes {
		w.nodes[i] = newNode(w, fmt.Sprintf("n%d", i))
	}
	w.nodes[0].other, w.nodes[1].other = w.nodes[1], w.nodes[0]
	w.stores = w.nodes[:]
	for _, n := range w.nodes {
		for _, ward := range n.wards() {
			ward.other = n.other
			w.stores = append(w.stores, ward)
		}
	}
	for _, n := range w.stores {
		w.oracles = append(w.oracles, newOracle(w, n))
		n.call()
	}
}

// enter starts the parties that act by themselves.
func (w *world) enter() {
	for i := range 3 {
		w.workers = append(w.workers, newWorkman(w, w.nodes[i%2], fmt.Sprintf("w%d", i)))
	}
	for i, n := range w.nodes {
		w.readers = append(w.readers, &reader{world: w, node: n, name: fmt.Sprintf("r%d", i), snapshots: i == 0, slow: i == 1})
	}
	w.readers = append(w.readers, &reader{world: w, node: w.nodes[w.seed%2], name: "consumer", named: true})
	for _, n := range w.stores[len(w.nodes):] {
		n.offer()
		w.workers = append(w.workers, newWorkman(w, n, "w"+n.space))
	}
	for _, m := range w.workers {
		m.start()
	}
	for _, r := range w.readers {
		w.busy.Go(r.run)
	}
	for _, n := range w.stores {
		n.followed()
	}
	for _, n := range w.nodes {
		if n.cluster != nil {
			w.busy.Go(n.cluster.watch)
		}
	}
}

// settle waits until each partition of a cluster has an owner.
func (w *world) settle() {
	for _, n := range w.stores {
		for range 100 {
			if n.cluster == nil || n.process() != nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// look is called after every step, when no goroutine can continue without the passing of time.
func (w *world) look() {
	synctest.Wait()
	for _, o := range w.oracles {
		o.look()
	}
	w.solvent()
}

// leave ends everything, so that the bubble can end.
func (w *world) leave() {
	w.mu.Lock()
	w.healing = true
	w.mu.Unlock()
	close(w.over)
	for _, m := range w.workers {
		m.stop()
	}
	w.down()
	w.people.wait()
	w.busy.Wait()
	w.down() // a node that was being started lives only now
	for _, n := range w.stores {
		_ = n.calls.Close()
	}
	for _, n := range w.nodes {
		if n.cluster != nil {
			n.cluster.hangUp()
		}
	}
	for _, n := range w.nodes {
		n.buried.Wait()
		disk.Forget(n.dir)
		pg.Forget(n.url())
	}
	pipes.Forget()
	// Calls in progress, and waits that only end by a timeout, end during this sleep.
	time.Sleep(lastSleep)
}

// down ends all processes that live.
func (w *world) down() {
	for _, n := range w.nodes {
		if p := n.process(); p != nil {
			n.crash(p, false)
		}
		if n.cluster != nil {
			n.cluster.end()
		}
	}
}

// lastSleep is longer than every timeout of those that end.
const lastSleep = 2 * time.Minute

func (w *world) stats() stats {
	s := stats{calls: w.people.calls, stuck: w.stuck, sales: len(w.till.sales), decided: w.deciders.count()}
	for i, n := range w.stores {
		s.lives += n.lives
		s.entries += len(w.oracles[i].journal)
	}
	return s
}
