package dispatch

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// workerGroup is the set of workers with the same offer for one kind of work. Their capacities may differ. The
// matcher compares work with groups instead of workers, so the cost of an assignment depends on the number of
// different offers and not on the number of workers.
type workerGroup struct {
	key  string
	kind machine.WorkKind
	// offer is the offer that all workers of the group have in common.
	offer   machine.WorkOffer
	members int
	// free are the workers of the group that may get more work, as a heap. The first worker gets the next work.
	free freeHeap
	// queues are the queues of work that workers of the group can execute. waiting are those of them that are not
	// empty.
	queues, waiting map[*taskQueue]struct{}
}

// groupKey returns a key that is equal for all workers of the same group. It encodes everything that an offer
// contains for one kind of work. It is "" if the offer contains no work of this kind.
func groupKey(kind machine.WorkKind, o *machine.WorkOffer) string {
	var key strings.Builder
	fmt.Fprintf(&key, "%d", kind)
	add := func(names []string) {
		names = slices.Compact(slices.Sorted(slices.Values(names)))
		fmt.Fprintf(&key, "%q", names)
	}
	add(o.Packs)
	switch {
	case kind == machine.StepWork && o.Steps > 0:
		add(o.Tools)
		fmt.Fprintf(&key, "%t", o.Sidecar)
	case kind == machine.TurnWork && o.Turns > 0:
		add(o.Prompts)
		add(o.Agents)
		fmt.Fprintf(&key, "%t", o.Sidecar)
	default:
		return ""
	}
	return key.String()
}

// enlist adds a worker to the group of workers with the same offer for one kind of work. A later call of rank makes it
// a free worker.
func (m *Matcher) enlist(w *worker, kind machine.WorkKind, offer *machine.WorkOffer) {
	key := groupKey(kind, offer)
	if key == "" {
		return
	}
	t := m.groups[key]
	if t == nil {
		t = &workerGroup{
			key: key, kind: kind, offer: *offer, free: freeHeap{kind: kind},
			queues: make(map[*taskQueue]struct{}), waiting: make(map[*taskQueue]struct{}),
		}
		m.groups[key] = t
		for _, c := range m.queues {
			c.join(t)
		}
	}
	t.members++
	w.of(kind).group = t
}

// dismiss removes a worker from the group of workers with the same offer for one kind of work.
func (m *Matcher) dismiss(w *worker, kind machine.WorkKind) {
	l := w.of(kind)
	t := l.group
	if t == nil {
		return
	}
	if l.place >= 0 {
		heap.Remove(&t.free, l.place)
	}
	l.group = nil
	if t.members--; t.members > 0 {
		return
	}
	for c := range t.queues {
		delete(c.groups, t)
	}
	delete(m.groups, t.key)
}

// next returns the queue from which a worker of the group gets its next work. It chooses the pack that got a worker
// longest ago, and within this pack the class that got one longest ago. It returns nil if there is no work.
func (t *workerGroup) next() *taskQueue {
	var best *taskQueue
	for c := range t.waiting {
		if best == nil || c.before(best) {
			best = c
		}
	}
	return best
}

// rank sorts a worker into the lists of free workers of its groups. It removes a worker that is no longer free. The
// caller must call rank after each change of the work that the worker has or may get.
func (w *worker) rank() {
	for _, kind := range []machine.WorkKind{machine.TurnWork, machine.StepWork} {
		l := w.of(kind)
		switch {
		case l.group == nil:
		case !w.free(kind):
			if l.place >= 0 {
				heap.Remove(&l.group.free, l.place)
			}
		case l.place >= 0:
			heap.Fix(&l.group.free, l.place)
		default:
			heap.Push(&l.group.free, w)
		}
	}
}

// freeHeap is a heap of the free workers of a group, ordered by [worker.before]. The field place of a worker outside
// of the heap is -1.
type freeHeap struct {
	kind    machine.WorkKind
	workers []*worker
}

func (h *freeHeap) first() *worker {
	if len(h.workers) == 0 {
		return nil
	}
	return h.workers[0]
}

func (h *freeHeap) Len() int           { return len(h.workers) }
func (h *freeHeap) Less(i, j int) bool { return h.workers[i].before(h.workers[j], h.kind) }

func (h *freeHeap) Swap(i, j int) {
	h.workers[i], h.workers[j] = h.workers[j], h.workers[i]
	h.workers[i].of(h.kind).place, h.workers[j].of(h.kind).place = i, j
}

func (h *freeHeap) Push(x any) {
	w := x.(*worker)
	w.of(h.kind).place = len(h.workers)
	h.workers = append(h.workers, w)
}

func (h *freeHeap) Pop() any {
	last := len(h.workers) - 1
	w := h.workers[last]
	h.workers[last] = nil
	h.workers = h.workers[:last]
	w.of(h.kind).place = -1
	return w
}
