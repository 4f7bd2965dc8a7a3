package dispatch

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// Assigner receives the assignments of a [Matcher]. The worker holds the assigned work until the caller
// calls [Matcher.Done]. Assign must not call the matcher. Assigner is an alias, so that other packages
// can declare the same interface without importing this package.
type Assigner = interface {
	Assign(worker uint64, work machine.Work)
}

// Matcher assigns the ready work of one namespace to its workers. It is pure: no clock, no lock, no
// I/O. Not safe for concurrent use.
//
// Problem: thousands of runs of several packs compete for workers with different offers. Each
// assignment must be fair and cheap.
//
// Invariants: ready work waits only while no worker that serves it is free. No worker gets work
// beyond its capacity or its credits.
//
// When work becomes ready, it is assigned to the worker that had the run last, else to the worker with the least work
// ([taskQueue.choose]). When a worker becomes free, it gets work of the pack that was served longest ago; within the pack, of the class
// that was served longest ago; within the class, of the run that was served longest ago; and within the run, the oldest work
// ([workerGroup.next]).
//
// Cost: workers with the same offer form a group, so an assignment looks at groups and queues and
// not at every worker or run.
type Matcher struct {
	to      Assigner
	workers map[uint64]*worker
	groups  map[string]*workerGroup
	queues  map[machine.WorkClass]*taskQueue
	packs   map[string]*packQueue
	// ready maps each piece of waiting work to its queue.
	ready map[machine.WorkID]*taskQueue
	// clock counts assignments and is used as a time. Packs, classes and workers whose last assignment
	// has a lower count are served first.
	clock uint64
}

// NewMatcher returns a matcher without workers or work. The matcher calls to.Assign during the
// calls that make an assignment possible.
func NewMatcher(to Assigner) *Matcher {
	return &Matcher{
		to: to, workers: make(map[uint64]*worker), groups: make(map[string]*workerGroup),
		queues: make(map[machine.WorkClass]*taskQueue), packs: make(map[string]*packQueue), ready: make(map[machine.WorkID]*taskQueue),
	}
}

// packQueue records when one pack was last served, for the order in which packs are served.
type packQueue struct {
	served uint64
	queues int
}

// Add makes work ready. It replaces work with the same ID.
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

// Remove removes work that is not assigned yet. If there is no such work with this ID, Remove does
// nothing.
func (m *Matcher) Remove(id machine.WorkID) {
	c := m.ready[id]
	if c == nil {
		return
	}
	delete(m.ready, id)
	c.remove(id)
	m.dropIdle(c)
}

// Waiting returns the amount of unassigned work.
func (m *Matcher) Waiting() int { return len(m.ready) }

// Unserved calls see for each class that has waiting work and no worker, with the amount of work. It stops when see returns false.
func (m *Matcher) Unserved(see func(machine.WorkClass, int) bool) {
	for of, c := range m.queues {
		if c.count > 0 && len(c.groups) == 0 && !see(of, c.count) {
			return
		}
	}
}

// Queues calls see for each class that has waiting work, with the amount of work and the number of workers that serve the class.
func (m *Matcher) Queues(see func(of machine.WorkClass, count, workers int)) {
	for of, c := range m.queues {
		if c.count > 0 {
			see(of, c.count, c.workers())
		}
	}
}

// IsQueued reports whether the work with this ID is ready and not assigned.
func (m *Matcher) IsQueued(id machine.WorkID) bool { return m.ready[id] != nil }

func (m *Matcher) assign(c *taskQueue, w *worker, work machine.Work) {
	m.clock++
	c.served, c.pack.served = m.clock, m.clock
	w.take(c.of.Kind, m.clock)
	m.to.Assign(w.id, work)
}

// feed assigns work of a kind to a worker until the worker is not free or no work is left.
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

// queueOf returns the queue of a class. If the queue does not exist, it creates the queue and joins the groups that serve the class.
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

// maxIdleQueues bounds the queues without work that are kept. A kept queue preserves the position of its pack and class in the service
// order.
const maxIdleQueues = 4096

// dropIdle removes a queue without work if there are too many queues.
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
