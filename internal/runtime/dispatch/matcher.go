package dispatch

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// Assigner receives the assignments of a [Matcher]. The worker counts as having the work until the caller calls
// [Matcher.Done]. Assign must not call the matcher. Assigner is an alias, so that other packages can declare the same
// interface without importing this package.
type Assigner = interface {
	Assign(worker uint64, work machine.Work)
}

// Matcher assigns the ready work of one namespace to its workers. It is pure: no clock, no lock, no I/O. Not safe for
// concurrent use.
//
// Problem: thousands of runs of several packs compete for workers with different offers. Each assignment must be fair
// and cheap.
//
// Invariants: ready work waits only while no worker that can execute it is free. No worker gets work beyond its
// capacity or its credits.
//
// New work is assigned to the worker that had the run last, or else to the worker with the least work
// ([taskQueue.choose]). A worker that becomes free gets work of the pack that got a worker longest ago; within the
// pack, of the class that got one longest ago; within the class, of the run that got one longest ago; and within the
// run, the oldest work ([workerGroup.next]).
//
// Cost: workers with the same offer form a group, so an assignment looks at groups and queues and not at every worker
// or run.
type Matcher struct {
	to      Assigner
	workers map[uint64]*worker
	groups  map[string]*workerGroup
	queues  map[machine.WorkClass]*taskQueue
	packs   map[string]*packQueue
	// ready maps each turn or step that waits for a worker to the queue that contains it.
	ready map[machine.WorkID]*taskQueue
	// clock counts the assignments and serves as a time. Packs, classes and workers whose last assignment has a lower
	// count come first.
	clock uint64
}

// NewMatcher returns a matcher without workers or work. Methods that make an assignment possible call to.Assign before
// they return.
func NewMatcher(to Assigner) *Matcher {
	return &Matcher{
		to: to, workers: make(map[uint64]*worker), groups: make(map[string]*workerGroup),
		queues: make(map[machine.WorkClass]*taskQueue), packs: make(map[string]*packQueue), ready: make(map[machine.WorkID]*taskQueue),
	}
}

// packQueue records when a worker last got work of one pack, so that packs get workers in rotation.
type packQueue struct {
	served uint64
	queues int
}

// Add makes work ready. It replaces ready work with the same ID.
func (m *Matcher) Add(work machine.Work) {
	m.Remove(work.ID())
	c := m.queueOf(&work.WorkClass)
	if w := c.choose(m.workers[work.Last]); w != nil {
		m.assign(c, w, work)
		m.dropIdle(c)
		return
	}
	c.push(work)
	m.ready[work.ID()] = c
}

// Remove removes work that no worker has yet. If there is no such work with this ID, Remove does nothing.
func (m *Matcher) Remove(id machine.WorkID) {
	c := m.ready[id]
	if c == nil {
		return
	}
	delete(m.ready, id)
	c.remove(id)
	m.dropIdle(c)
}

// Waiting returns the amount of ready work that no worker has yet.
func (m *Matcher) Waiting() int { return len(m.ready) }

// Unserved calls the function see for each class with ready work that no connected worker can execute, with the amount
// of work. Unserved stops when see returns false.
func (m *Matcher) Unserved(see func(machine.WorkClass, int) bool) {
	for of, c := range m.queues {
		if c.count > 0 && len(c.groups) == 0 && !see(of, c.count) {
			return
		}
	}
}

// Queues calls the function see for each class with ready work, with the amount of work and the number of workers that
// can execute it.
func (m *Matcher) Queues(see func(of machine.WorkClass, count, workers int)) {
	for of, c := range m.queues {
		if c.count > 0 {
			see(of, c.count, c.workers())
		}
	}
}

// IsQueued reports whether the work with this ID is ready and no worker has it yet.
func (m *Matcher) IsQueued(id machine.WorkID) bool { return m.ready[id] != nil }

func (m *Matcher) assign(c *taskQueue, w *worker, work machine.Work) {
	m.clock++
	c.served, c.pack.served = m.clock, m.clock
	w.take(c.of.Kind, m.clock)
	m.to.Assign(w.id, work)
}

// feed assigns work of a kind to a worker until the worker is not free any more or no work is left.
func (m *Matcher) feed(w *worker, kind machine.WorkKind) {
	for w.free(kind) {
		c := w.of(kind).group.next()
		if c == nil {
			return
		}
		work := c.pop()
		delete(m.ready, work.ID())
		m.assign(c, w, work)
		m.dropIdle(c)
	}
}

// queueOf returns the queue of a class of work. If there is none, it creates the queue and connects it with the groups
// that can execute the work.
func (m *Matcher) queueOf(of *machine.WorkClass) *taskQueue {
	if c := m.queues[*of]; c != nil {
		return c
	}
	pack := m.packs[of.Digest]
	if pack == nil {
		pack = &packQueue{}
		m.packs[of.Digest] = pack
	}
	pack.queues++
	c := newTaskQueue(*of, pack)
	m.queues[*of] = c
	for _, t := range m.groups {
		c.join(t)
	}
	return c
}

// maxIdleQueues is the number of queues above which an empty queue is not kept. An empty queue is kept because it records when its pack
// and class last got a worker.
const maxIdleQueues = 4096

// dropIdle removes an empty queue if there are too many queues.
func (m *Matcher) dropIdle(c *taskQueue) {
	if c.count > 0 || len(m.queues) <= maxIdleQueues {
		return
	}
	for t := range c.groups {
		delete(t.queues, c)
	}
	delete(m.queues, c.of)
	if c.pack.queues--; c.pack.queues == 0 {
		delete(m.packs, c.of.Digest)
	}
}
