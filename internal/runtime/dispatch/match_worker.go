package dispatch

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// worker is the state of one worker in the matcher.
type worker struct {
	id uint64
	// turns and steps are the worker's load for the two kinds of work.
	turns, steps load
	served       uint64
	draining     bool
}

// load is the amount of work of one kind that a worker holds, and the amount that the worker may still
// get.
type load struct {
	held, credits, capacity int
	// group is the group of the worker. It is nil if the worker serves no work of the kind. place is
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

// free reports whether the worker may get one more piece of work of a kind.
func (w *worker) free(kind machine.WorkKind) bool {
	l := w.of(kind)
	return !w.draining && l.credits > 0 && l.held < l.capacity
}

// before reports whether the worker comes before other in the order of free workers. The worker that holds less work comes first. If both
// hold the same amount, the worker that was served longest ago comes first.
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

// before reports whether the queue is served before other. It compares first the packs, then the
// classes. The pack or class that was served longest ago comes first. Packs or classes that were never
// served are ordered by name.
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

// AddWorker adds a worker that already holds the given amount of work and has no credits. The id
// must not be in use.
func (m *Matcher) AddWorker(id uint64, offer machine.WorkOffer, turns, steps int) {
	w := &worker{id: id}
	w.turns = load{held: turns, capacity: offer.Turns, place: -1}
	w.steps = load{held: steps, capacity: offer.Steps, place: -1}
	m.workers[id] = w
	m.enlist(w, machine.TurnWork, &offer)
	m.enlist(w, machine.StepWork, &offer)
}

// RemoveWorker removes a worker. The work that it held is not ready again until the caller calls Add.
func (m *Matcher) RemoveWorker(id uint64) {
	w := m.workers[id]
	if w == nil {
		return
	}
	m.dismiss(w, machine.TurnWork)
	m.dismiss(w, machine.StepWork)
	delete(m.workers, id)
}

// maxCredits bounds the credits that a worker can collect.
const maxCredits = 1 << 20

// Credit raises the number of turns and steps that a worker may still get. A worker can have at most about a million credits of each
// kind.
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

// Done records that a worker no longer holds a piece of work. The worker does not get the credit back.
func (m *Matcher) Done(id uint64, kind machine.WorkKind) {
	w := m.workers[id]
	if w == nil || w.of(kind).held == 0 {
		return
	}
	w.of(kind).held--
	w.rank()
	m.feed(w, kind)
}

// Drain ends all further assignments to a worker.
func (m *Matcher) Drain(id uint64) {
	if w := m.workers[id]; w != nil {
		w.draining = true
		w.rank()
	}
}

// Workers returns the number of workers.
func (m *Matcher) Workers() int { return len(m.workers) }
