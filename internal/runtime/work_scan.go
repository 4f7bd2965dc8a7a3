package runtime

import (
	"context"
	"math"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

const (
	// scanPage is how many ready runs are read at once.
	scanPage = 256
	// maxScanSteps bounds the pending steps that one scan reads.
	maxScanSteps = 65536
)

// scan finds ready turns and pending steps in the store. What changes meanwhile
// is seen by [work.observe]; a state that is older than what was seen is skipped.
func (sp *workSpace) scan() {
	ctx := context.Background()
	for after := ""; sp.e.gate.check() == nil; {
		runs, err := sp.e.store.ReadyRuns(ctx, sp.ns, after, scanPage)
		if err != nil {
			sp.scanAgain()
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

func (sp *workSpace) scanSteps(ctx context.Context) {
	rows, err := sp.e.store.Outbox(ctx, machine.OutboxStep, math.MaxInt64, maxScanSteps)
	if err != nil {
		sp.scanAgain()
		return
	}
	seen := make(map[string]bool)
	for _, row := range rows {
		if row.Namespace == sp.ns && !seen[row.RunID] {
			seen[row.RunID] = true
			sp.refresh(row.RunID)
		}
	}
}

func (sp *workSpace) scanAgain() {
	if sp.e.gate.check() == nil {
		sp.e.work.alarms.set(workRetry, sp.scan)
	}
}
