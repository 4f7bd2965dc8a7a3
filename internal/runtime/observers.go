package runtime

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Commit is a committed input as observers receive it. It is read-only: its parts are shared by all observers
// and the engine.
type Commit struct {
	Key RunKey
	// Batch is what was stored, Entry the same as it reads in the journal.
	Batch *machine.Batch
	Entry machine.Entry
	// Graph is the control flow of the run.
	Graph *machine.Graph
	// Holder is the worker whose lease the request was made under, Token the token that the request showed;
	// nil and "" if it had none.
	Holder LeaseHolder
	Token  string
}

// Observer receives commits, each once, after its sync. The lists of [Hooks] define the order, and what the
// observer blocks while it runs.
type Observer interface {
	OnCommit(c *Commit)
}

// ObserverFunc is a function that is an [Observer].
type ObserverFunc func(c *Commit)

// OnCommit calls f.
func (f ObserverFunc) OnCommit(c *Commit) { f(c) }

// Hooks are the observers of commits, each list in its order. They are set before the first input
// ([Engine.Attach]) and never after it.
type Hooks struct {
	// OnCommitLocked are called in the run's own turn, after the sync and before the next input of the run is
	// executed. They see the states of a run in order and block that run alone. They must not wait for a run.
	OnCommitLocked []Observer
	// OnCommit are called after the turn was released and the new state can be read. They block only the
	// caller of the input. Two commits of one run may reach them in either order.
	OnCommit []Observer
	// OnVolatileChange are called when a run has changed without a record: its turn was handed out.
	OnVolatileChange []func(key RunKey)
	// Served report whether a worker serves a run of execution CALLER. While one does, the caller's turn
	// tokens are not valid. They must not wait.
	Served []func(key RunKey) bool
	// Background run while [Engine.Run] does; each ends when its ctx does.
	Background []func(ctx context.Context)
}

// Attach adds observers. The wiring calls it before the first input.
func (e *Engine) Attach(h Hooks) {
	e.hooks.OnCommitLocked = append(e.hooks.OnCommitLocked, h.OnCommitLocked...)
	e.hooks.OnCommit = append(e.hooks.OnCommit, h.OnCommit...)
	e.hooks.OnVolatileChange = append(e.hooks.OnVolatileChange, h.OnVolatileChange...)
	e.hooks.Served = append(e.hooks.Served, h.Served...)
	e.hooks.Background = append(e.hooks.Background, h.Background...)
}

// notifyChanged calls the OnVolatileChange hooks for a run.
func (e *Engine) notifyChanged(key RunKey) {
	for _, hook := range e.hooks.OnVolatileChange {
		hook(key)
	}
}

// leased reports whether the turns of a run are executed under leases of workers, so that callers' tokens are
// not valid.
func (e *Engine) leased(key RunKey, s *machine.State) bool {
	return s.Execution.Leased() || slices.ContainsFunc(e.hooks.Served, func(served func(RunKey) bool) bool { return served(key) })
}

// commitEvent returns the commit of this execution as the observers receive it.
func (t *execution) commitEvent() *Commit {
	t.notified = Commit{
		Key: t.op.key, Batch: t.batch, Entry: t.entry, Graph: t.program.Graph, Holder: t.op.holder, Token: t.op.token,
	}
	return &t.notified
}
