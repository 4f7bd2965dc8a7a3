package dispatch

import (
	"context"
	"math"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

const (
	// scanPage is the number of ready runs that are read at once.
	scanPage = 256
	// maxScanSteps bounds the pending steps of the namespace that one scan reads from the store.
	maxScanSteps = 65536
)

// scan reads the ready turns and pending steps of the namespace from the store. At the same time the shard receives
// commits through [Dispatcher.OnCommit]. If the shard has already received a newer state of a run, the state from the
// store is skipped.
func (sp *namespaceShard) scan() {
	ctx := context.Background()
	for after := ""; sp.dispatcher.cfg.Engine.Health() == nil; {
		runs, err := sp.dispatcher.cfg.Store.ReadyRuns(ctx, sp.ns, after, scanPage)
		if err != nil {
			sp.retryScan()
			return
		}
		for _, run := range runs {
			sp.refresh(run)
		}
		if len(runs) < scanPage {
			break
		}
		after = runs[len(runs)-1]
	}
	sp.scanSteps(ctx)
}

// putOff records that the turn or step stays only in the store, because the ready work of its pack in memory has
// reached its bound.
func (sp *namespaceShard) putOff(work *machine.Work) {
	if work.Kind == machine.StepWork {
		sp.leftSteps[work.Digest] = true
		return
	}
	if from, more := sp.left[work.Digest]; !more || work.RunID < from {
		sp.left[work.Digest] = work.RunID
	}
}

// full reports whether the ready work of a pack in memory has reached its bound. If so, it records that the ready turns
// of the run and of the runs after it stay only in the store.
func (sp *namespaceShard) full(digest, run string) bool {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.waiting[digest] < sp.dispatcher.waiting {
		return false
	}
	sp.putOff(&machine.Work{WorkClass: machine.WorkClass{Kind: machine.TurnWork, Digest: digest}, RunID: run})
	return true
}

// resume reads further ready turns of a pack from the store, beginning with the first run that stayed only there. It
// stops when the work of the pack in memory reaches its bound again. So each turn is read only once, even if turns are
// assigned as fast as they are read.
func (sp *namespaceShard) resume(digest, from string) {
	for runs := []string{from}; len(runs) > 0 && sp.dispatcher.cfg.Engine.Health() == nil; {
		for _, run := range runs {
			if sp.full(digest, run) {
				return
			}
			sp.refresh(run)
			from = run
		}
		var err error
		runs, err = sp.dispatcher.cfg.Store.ReadyRuns(context.Background(), sp.ns, from, scanPage)
		if err != nil {
			sp.dispatcher.timers.set(workRetry, func() { sp.resume(digest, from) })
			return
		}
	}
}

func (sp *namespaceShard) scanSteps(ctx context.Context) {
	rows, err := sp.dispatcher.cfg.Store.OutboxOf(ctx, sp.ns, machine.OutboxStep, math.MaxInt64, maxScanSteps)
	if err != nil {
		sp.retryScan()
		return
	}
	seen := make(map[string]bool)
	for _, row := range rows {
		if !seen[row.RunID] {
			seen[row.RunID] = true
			sp.refresh(row.RunID)
		}
	}
}

func (sp *namespaceShard) retryScan() {
	if sp.dispatcher.cfg.Engine.Health() == nil {
		sp.dispatcher.timers.set(workRetry, sp.scan)
	}
}
