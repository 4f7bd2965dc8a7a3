package dispatch

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// workerGroup is the workers that offer the same of one kind of work, whatever their
// capacities. Work looks for a worker team by team: what it costs grows with the
// number of different offers, not with that of the workers.
type workerGroup struct {
	key  string
	kind machine.WorkKind
	// offer is that of its first member.
	offer   machine.WorkOffer
	members int
	// free are the members that may be given more, the next one first.
	free freeHeap
	// queues are those that it serves, waiting those of them that have work.
	queues, waiting map[*taskQueue]struct{}
}

// groupKey names what an offer says of a kind; "": nothing.
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
	case kind == machine.TurnWork && o.Turns > 0:
		add(o.Prompts)
		add(o.Agents)
		fmt.Fprintf(&key, "%t", o.Sidecar)
	default:
		return ""
	}
	return key.String()
}

// enlist puts a worker into its team of a kind; it is not free yet.
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

// dismiss takes a worker out of its team of a kind.
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

// next is the class whose work a member is to be given: of the pack that was
// served longest ago, the class that was. nil: nothing waits for it.
func (t *workerGroup) next() *taskQueue {
	var best *taskQueue
	for c := range t.waiting {
		if best == nil || c.before(best) {
			best = c
		}
	}
	return best
}

// rank puts a worker at its place among the free ones of its teams, or takes it
// from there. To be called after each change of what it holds or may be given.
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

// freeHeap is ordered by [worker.before]; a worker that is not in it has place -1.
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
