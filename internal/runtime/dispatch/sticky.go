package dispatch

import (
	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// workerName is a worker over its reconnects: nobody else can be it.
type workerName struct{ principal, id string }

// maxSticky bounds the runs whose last worker is remembered.
const maxSticky = 8192

// stickyNames remembers which worker had a run last.
type stickyNames struct {
	byRun *cache.LRU[string, workerName]
}

func newStickyNames() stickyNames {
	return stickyNames{byRun: cache.New[string, workerName](maxSticky)}
}

// of is the zero name for a run that nobody had, or not lately.
func (s *stickyNames) of(run string) workerName {
	name, _ := s.byRun.Get(run)
	return name
}

func (s *stickyNames) put(run string, name workerName) { s.byRun.Put(run, name, 1) }

// maxPastSteps bounds, per worker, the steps that are remembered after they were
// its own.
const maxPastSteps = 1024

// pastSteps are steps that a worker had: an answer that comes too late is told
// what became of it, not that it never had a say.
type pastSteps struct{ byToken *cache.LRU[string, StepLease] }

func newPastSteps() pastSteps {
	return pastSteps{byToken: cache.New[string, StepLease](maxPastSteps)}
}

func (p *pastSteps) put(lease StepLease) { p.byToken.Put(lease.Token, lease, 1) }

// maxPastTurns bounds, per worker, the turns that are remembered after they were its own.
const maxPastTurns = 1024

// pastTurn is a turn that a worker had: what a call of a model consumed that outlasted it
// is counted.
type pastTurn struct {
	run   string
	grant runtime.Grant
	// own: the worker ended it, and knows without being told.
	own bool
}
