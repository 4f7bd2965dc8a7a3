package dispatch

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// Assigner takes an assignment. The work is the worker's, and counted as held by
// it, until Done. Assign must not call the matcher. It is an alias, so that others
// can name the same contract without this package.
type Assigner = interface {
	Assign(worker uint64, work machine.Work)
}

// Matcher matches the ready work of one namespace with its workers. Not safe for
// concurrent use.
type Matcher struct {
	to      Assigner
	workers map[uint64]*worker
	groups  map[string]*workerGroup
	queues  map[machine.WorkClass]*taskQueue
	packs   map[string]*packQueue
	// ready finds the queue of each piece of work that waits.
	ready map[machine.WorkID]*taskQueue
	// clock counts assignments; a pack, class or worker that was served at a lower
	// count is served before others.
	clock uint64
}

// NewMatcher is a matcher without workers or work. to receives its assignments during
// the calls that make them possible.
func NewMatcher(to Assigner) *Matcher {
	return &Matcher{
		to: to, workers: make(map[uint64]*worker), groups: make(map[string]*workerGroup),
		queues: make(map[machine.WorkClass]*taskQueue), packs: make(map[string]*packQueue), ready: make(map[machine.WorkID]*taskQueue),
	}
}

// packQueue is one pack's place in the order of service.
type packQueue struct {
	served uint64
	queues int
}

// Add makes work ready. Work that has the ID of other work replaces it.
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

// Remove takes work back that was not assigned yet; other IDs are ignored.
func (m *Matcher) Remove(id machine.WorkID) {
	c := m.ready[id]
	if c == nil {
		return
	}
	delete(m.ready, id)
	c.remove(id)
	m.dropIdle(c)
}

// Waiting is the amount of work that nobody has.
func (m *Matcher) Waiting() int { return len(m.ready) }

// Unserved calls see with each class of work that waits and that no worker
// serves, and how much there is of it, until it returns false.
func (m *Matcher) Unserved(see func(machine.WorkClass, int) bool) {
	for of, c := range m.queues {
		if c.count > 0 && len(c.groups) == 0 && !see(of, c.count) {
			return
		}
	}
}

// Queues calls see with each class of work that waits, how much there is of it and
// how many workers serve it.
func (m *Matcher) Queues(see func(of machine.WorkClass, count, workers int)) {
	for of, c := range m.queues {
		if c.count > 0 {
			see(of, c.count, c.workers())
		}
	}
}

// IsQueued reports whether the work with this ID is ready and nobody's.
func (m *Matcher) IsQueued(id machine.WorkID) bool { return m.ready[id] != nil }

func (m *Matcher) assign(c *taskQueue, w *worker, work machine.Work) {
	m.clock++
	c.served, c.pack.served = m.clock, m.clock
	w.take(c.of.Kind, m.clock)
	m.to.Assign(w.id, work)
}

// feed gives a worker work of a kind until it is no longer free or there is none.
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

// queueOf finds or makes the queue of a class and the teams that serve it.
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

// maxIdleQueues is how many classes without work are kept, so that the place
// of their packs in the order of service is not forgotten.
const maxIdleQueues = 4096

// dropIdle forgets a class without work where there are too many.
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
