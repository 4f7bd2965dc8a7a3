package dispatch

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// worker is what the matcher knows about one worker.
type worker struct {
	id uint64
	// turns and steps are the amounts of work of the two kinds that the worker has and may get.
	turns, steps load
	served       uint64
	draining     bool
}

// load is the amount of work of one kind that a worker has, and the amount that it may still get.
type load struct {
	held, credits, capacity int
	// group is the worker's group for this kind of work. It is nil if the worker offers no work of this kind. place is
	// the worker's index among the free workers of the group. It is -1 if the worker is not free.
	group *workerGroup
	place int
}

func (w *worker) of(kind machine.WorkKind) *load {
	if kind == machine.StepWork {
		return &w.steps
	}
	return &w.turns
}

// free reports whether the worker may get one more piece of work of the kind.
func (w *worker) free(kind machine.WorkKind) bool {
	l := w.of(kind)
	return !w.draining && l.credits > 0 && l.held < l.capacity
}

// before reports whether the worker gets work before the other worker: it has less work, or it has the same amount and
// got work longer ago.
func (w *worker) before(other *worker, kind machine.WorkKind) bool {
	mine, theirs := w.of(kind).held, other.of(kind).held
	if mine != theirs {
		return mine < theirs
	}
	if w.served != other.served {
		return w.served < other.served
	}
	return w.id < other.id
}

func (w *worker) take(kind machine.WorkKind, clock uint64) {
	l := w.of(kind)
	l.held++
	l.credits--
	w.served = clock
	w.rank()
}

// before reports whether a worker gets work from this queue before the other queue. First the packs are compared, then
// the classes. The pack or class that got a worker longest ago comes first. Those that never got one are ordered by
// name.
func (c *taskQueue) before(other *taskQueue) bool {
	switch {
	case c.pack.served != other.pack.served:
		return c.pack.served < other.pack.served
	case c.of.Digest != other.of.Digest:
		return c.of.Digest < other.of.Digest
	case c.served != other.served:
		return c.served < other.served
	case c.of.Prompt != other.of.Prompt:
		return c.of.Prompt < other.of.Prompt
	case c.of.Agent != other.of.Agent:
		return c.of.Agent < other.of.Agent
	}
	return c.of.Tool < other.of.Tool
}

// AddWorker adds a worker that already has the given amount of work and no credits. The id must not be in use.
func (m *Matcher) AddWorker(id uint64, offer machine.WorkOffer, turns, steps int) {
	w := &worker{id: id}
	w.turns = load{held: turns, capacity: offer.Turns, place: -1}
	w.steps = load{held: steps, capacity: offer.Steps, place: -1}
	m.workers[id] = w
	m.enlist(w, machine.TurnWork, &offer)
	m.enlist(w, machine.StepWork, &offer)
}

// RemoveWorker removes a worker. The work that it had becomes ready only when the caller calls Add for it.
func (m *Matcher) RemoveWorker(id uint64) {
	w := m.workers[id]
	if w == nil {
		return
	}
	m.dismiss(w, machine.TurnWork)
	m.dismiss(w, machine.StepWork)
	delete(m.workers, id)
}

// maxCredits bounds the credits (announced free capacity) that a worker can collect.
const maxCredits = 1 << 20

// Credit raises the number of turns and steps that a worker may still get, up to about a million of each kind.
func (m *Matcher) Credit(id uint64, turns, steps int) {
	w := m.workers[id]
	if w == nil {
		return
	}
	w.turns.credits = min(w.turns.credits+turns, maxCredits)
	w.steps.credits = min(w.steps.credits+steps, maxCredits)
	w.rank()
	m.feed(w, machine.TurnWork)
	m.feed(w, machine.StepWork)
}

// Done records that a worker no longer has a piece of work. The worker gets further work only if it has credits.
func (m *Matcher) Done(id uint64, kind machine.WorkKind) {
	w := m.workers[id]
	if w == nil || w.of(kind).held == 0 {
		return
	}
	w.of(kind).held--
	w.rank()
	m.feed(w, kind)
}

// Drain stops assignments to a worker that shuts down.
func (m *Matcher) Drain(id uint64) {
	if w := m.workers[id]; w != nil {
		w.draining = true
		w.rank()
	}
}

// Workers returns the number of workers.
func (m *Matcher) Workers() int { return len(m.workers) }
