package runtime

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Commit is a committed input, as observers receive it. It is read-only, because the engine and all
// observers share its parts.
type Commit struct {
	Key RunKey
	// Batch is the batch that was stored. Entry is the same data in the form of the journal.
	Batch *machine.Batch
	Entry machine.Entry
	// Graph is the control flow of the run.
	Graph *machine.Graph
	// Holder is the worker under whose lease the request was made, or nil. Token is the token in the
	// request, or "".
	Holder LeaseHolder
	Token  string
}

// Observer receives each commit once, after its sync. [Hooks] defines the order of the observers, and
// which work waits while an observer runs.
type Observer interface {
	OnCommit(c *Commit)
}

// ObserverFunc is a function that is an [Observer].
type ObserverFunc func(c *Commit)

// OnCommit calls f.
func (f ObserverFunc) OnCommit(c *Commit) { f(c) }

// Hooks are the observers of commits. Each list is called in its order. They must be set before the first input ([Engine.Attach]).
type Hooks struct {
	// OnCommitLocked are called while the run's execution slot is held, after the sync and before the next input
	// of the run is executed. They receive the states of a run in order. They block only this run. They
	// must not wait for a run.
	OnCommitLocked []Observer
	// OnCommit are called after the run's execution slot is released and the new state can be read. They block
	// only the caller of the input. They may receive two commits of the same run in any order.
	OnCommit []Observer
	// OnVolatileChange are called when a run has changed without a record, because its turn was sent to
	// an executor.
	OnVolatileChange []func(key RunKey)
	// Served report whether a worker serves a run of the execution CALLER. While a worker serves the
	// run, the tokens of callers are not valid. These functions must not block.
	Served []func(key RunKey) bool
	// Background are functions that run while [Engine.Run] runs. Each must return when its ctx ends.
	Background []func(ctx context.Context)
}

// Attach adds observers. It must be called before the first input.
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

// commitEvent returns the commit of this execution, as observers receive it.
func (t *execution) commitEvent() *Commit {
	t.notified = Commit{
		Key: t.op.key, Batch: t.batch, Entry: t.entry, Graph: t.program.Graph, Holder: t.op.holder, Token: t.op.token,
	}
	return &t.notified
}
