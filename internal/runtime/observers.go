package runtime

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Commit is an input that was committed, as its followers are told of it. It is
// read-only: what it refers to is shared by all of them and with the engine.
type Commit struct {
	Key RunKey
	// Batch is what was stored, Entry how it reads in the journal.
	Batch *machine.Batch
	Entry machine.Entry
	// Graph is the control flow of the run.
	Graph *machine.Graph
	// Holder is the one whose lease the request was made under, Token the word that it
	// showed; nil and "" if there was none.
	Holder LeaseHolder
	Token  string
}

// Observer is told of commits, each once, after its sync. In which order, and what it holds
// up, is said of the list of [Hooks] that it is in.
type Observer interface {
	OnCommit(c *Commit)
}

// ObserverFunc is a function that follows.
type ObserverFunc func(c *Commit)

// OnCommit calls f.
func (f ObserverFunc) OnCommit(c *Commit) { f(c) }

// Hooks are who is told of commits, each list in its order. They are set before the
// first input ([Engine.Attach]) and never after it.
type Hooks struct {
	// OnCommitLocked are told in the run's own turn, after the sync and before the next input
	// of the run is looked at: they see the states of a run in their order, and hold
	// up that run alone. They must not wait for a run.
	OnCommitLocked []Observer
	// OnCommit are told once the turn was given back and the new state can be read.
	// They hold up the caller of the input only; two commits of one run may reach them
	// in either order.
	OnCommit []Observer
	// OnVolatileChange are told of a run of which something has changed that is no record: its
	// turn was handed out.
	OnVolatileChange []func(key RunKey)
	// Served say whether a worker serves a run of execution CALLER: tokens of its turns do not
	// count meanwhile. They must not wait.
	Served []func(key RunKey) bool
	// Background run while [Engine.Run] does; each ends when its ctx does.
	Background []func(ctx context.Context)
}

// Attach adds followers. To be called by the wiring, before the first input.
func (e *Engine) Attach(h Hooks) {
	e.hooks.OnCommitLocked = append(e.hooks.OnCommitLocked, h.OnCommitLocked...)
	e.hooks.OnCommit = append(e.hooks.OnCommit, h.OnCommit...)
	e.hooks.OnVolatileChange = append(e.hooks.OnVolatileChange, h.OnVolatileChange...)
	e.hooks.Served = append(e.hooks.Served, h.Served...)
	e.hooks.Background = append(e.hooks.Background, h.Background...)
}

// notifyChanged tells of a run of which something has changed that is no record.
func (e *Engine) notifyChanged(key RunKey) {
	for _, told := range e.hooks.OnVolatileChange {
		told(key)
	}
}

// leased: the turns of a run are executed under leases of workers, so that no token counts.
func (e *Engine) leased(key RunKey, s *machine.State) bool {
	return s.Execution.Leased() || slices.ContainsFunc(e.hooks.Served, func(served func(RunKey) bool) bool { return served(key) })
}

// commitEvent is what followers are told of a transit that was committed.
func (t *execution) commitEvent() *Commit {
	t.notified = Commit{
		Key: t.op.key, Batch: t.batch, Entry: t.entry, Graph: t.program.Graph, Holder: t.op.holder, Token: t.op.token,
	}
	return &t.notified
}
