package dispatch

import (
	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// workerName identifies a worker across reconnects. No two connected workers have the same name.
type workerName struct{ principal, id string }

// maxSticky bounds the number of runs whose last worker is remembered.
const maxSticky = 8192

// stickyNames remembers which worker last had a turn of each run, so that the next work of the run goes to the same worker.
type stickyNames struct {
	byRun *cache.LRU[string, workerName]
}

func newStickyNames() stickyNames {
	return stickyNames{byRun: cache.New[string, workerName](maxSticky)}
}

// of returns the last worker of a run. The zero name means that no worker is remembered.
func (s *stickyNames) of(run string) workerName {
	name, _ := s.byRun.Get(run)
	return name
}

func (s *stickyNames) put(run string, name workerName) { s.byRun.Put(run, name, 1) }

// maxPastSteps bounds the earlier steps that are remembered for each worker.
const maxPastSteps = 1024

// pastSteps are the steps that a worker had earlier. If the worker answers one of them late, it gets the recorded
// outcome instead of an error.
type pastSteps struct{ byToken *cache.LRU[string, StepLease] }

func newPastSteps() pastSteps {
	return pastSteps{byToken: cache.New[string, StepLease](maxPastSteps)}
}

func (p *pastSteps) put(lease StepLease) { p.byToken.Put(lease.Token, lease, 1) }

// maxPastTurns bounds the earlier turns that are remembered for each worker.
const maxPastTurns = 1024

// pastTurn is a turn that a worker had earlier. It is remembered because a model call can end after the turn that
// made it, and the usage of the call must still be counted.
type pastTurn struct {
	run   string
	grant runtime.Grant
	// own reports whether the worker itself ended the turn, so that the worker needs no notification.
	own bool
}
