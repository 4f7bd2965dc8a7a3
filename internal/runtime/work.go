package runtime

import (
	"sync"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// work hands ready turns and pending steps to connected workers. All of it is
// memory: what is ready is found in the store when the first worker of a
// namespace connects, and followed commit by commit from then on.
type work struct {
	e *Engine
	// spaces is read on every commit and written when a namespace gets its first
	// worker.
	mu     sync.RWMutex
	spaces map[uint32]*workSpace
	alarms *alarms
	// waiting bounds, per pack of a namespace, the ready work that is held in memory.
	waiting int
}

func newWork(e *Engine) *work {
	return &work{e: e, spaces: make(map[uint32]*workSpace), alarms: newAlarms(e.cfg.Clock), waiting: maxWaiting}
}

// space is the namespace's, or nil if no worker ever connected to it.
func (w *work) space(ns uint32) *workSpace {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.spaces[ns]
}

// open finds or makes the namespace's space; its first worker makes it look for
// what is ready.
func (w *work) open(ns uint32) *workSpace {
	w.mu.Lock()
	defer w.mu.Unlock()
	if sp := w.spaces[ns]; sp != nil {
		return sp
	}
	sp := newWorkSpace(w.e, ns)
	w.spaces[ns] = sp
	return sp
}

// Follow is told of a commit. It runs in the run's own turn, so that the states
// of a run are seen in their order.
func (w *work) Follow(c *Commit) {
	sp := w.space(c.Key.Namespace)
	if sp == nil {
		return
	}
	s := c.Batch.State
	sp.mu.Lock()
	run := sp.runs[s.RunID]
	if run == nil && !rules.Ready(c.Graph, s) && !hasPending(s) {
		sp.mu.Unlock()
		return
	}
	told := sp.settle(s, c.Graph, c, issued(c))
	sp.mu.Unlock()
	if told != nil {
		go told()
	}
}

func hasPending(s *machine.State) bool {
	for i := range s.Steps {
		if s.Steps[i].Status == machine.StepStatusPending && !s.Steps[i].Delegation {
			return true
		}
	}
	return false
}

// drain stops all assignments: the server is going.
func (w *work) drain() {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, sp := range w.spaces {
		sp.mu.Lock()
		for id := range sp.workers {
			sp.matcher.Drain(id)
		}
		sp.draining = true
		sp.mu.Unlock()
	}
}
