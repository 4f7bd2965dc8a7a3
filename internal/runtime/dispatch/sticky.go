package dispatch

import (
	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// workerName identifies a worker across reconnects. It is unique among the connected workers.
type workerName struct{ principal, id string }

// maxSticky bounds the runs with a remembered last worker.
const maxSticky = 8192

// stickyNames remembers the last worker of each run.
type stickyNames struct {
	byRun *cache.LRU[string, workerName]
}

func newStickyNames() stickyNames {
	return stickyNames{byRun: cache.New[string, workerName](maxSticky)}
}

// of returns the last worker of a run; the zero name = none or forgotten.
func (s *stickyNames) of(run string) workerName {
	name, _ := s.byRun.Get(run)
	return name
}

func (s *stickyNames) put(run string, name workerName) { s.byRun.Put(run, name, 1) }

// maxPastSteps bounds, for each worker, the past steps that are remembered.
const maxPastSteps = 1024

// pastSteps are steps that a worker held. They let a late answer get the recorded outcome of the
// step instead of a refusal.
type pastSteps struct{ byToken *cache.LRU[string, StepLease] }

func newPastSteps() pastSteps {
	return pastSteps{byToken: cache.New[string, StepLease](maxPastSteps)}
}

func (p *pastSteps) put(lease StepLease) { p.byToken.Put(lease.Token, lease, 1) }

// maxPastTurns bounds, for each worker, the past turns that are remembered.
const maxPastTurns = 1024

// pastTurn is a turn that a worker held. The usage of a model call that ends after the turn is
// still counted.
type pastTurn struct {
	run   string
	grant runtime.Grant
	// own reports whether the worker ended the turn itself, so that it needs no revocation.
	own bool
}
