package delivery

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// deletedRuns are delegations of runs that were deleted; stop is called when it is asked
// for one once more.
type deletedRuns struct {
	Delegations
	asked int
	stop  func()
}

func (d *deletedRuns) CalledOff(context.Context, machine.OutboxRow) (machine.Delegation, error) {
	if d.asked++; d.asked > 1 {
		d.stop()
	}
	return machine.Delegation{}, (&machine.Deleted{RunID: "r"}).Err()
}

// TestCancelOfADeletedRun: whose run was deleted has nothing to call off any more.
func TestCancelOfADeletedRun(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	runs := &deletedRuns{stop: stop}
	o := &Outbox{cfg: Config{Delegations: runs, Log: slog.New(slog.DiscardHandler), Pause: time.Nanosecond, MaxPause: time.Nanosecond}}
	o.callOff(ctx, machine.OutboxRow{RunID: "r"})
	if runs.asked != 1 || ctx.Err() != nil {
		t.Errorf("asked %d times, want 1", runs.asked)
	}
}
