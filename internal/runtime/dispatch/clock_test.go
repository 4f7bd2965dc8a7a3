package dispatch_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
)

// TestLeasesLastWhateverTheClockSays: a lease is a while, not a moment. Setting the
// clock neither ends it nor lengthens it.
func TestLeasesLastWhateverTheClockSays(t *testing.T) {
	t.Parallel()
	for name, jump := range map[string]time.Duration{"forwards": 30 * time.Minute, "back": -30 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.background()
			r.startWorkers("s1")
			w := r.connect("w")
			first := w.turn()
			r.clock.Jump(jump)
			// A second lease makes the loop of the alarms look at the clock.
			r.startWorkers("s2")
			w.Credit(1, 0)
			second := w.turn()
			r.clock.Advance(50 * time.Second)
			if _, lost := w.Heartbeat([]string{second.TurnLease.Token}); len(lost) != 0 {
				t.Fatal("the second lease is lost")
			}
			nothing(t, "revocation", w.revoked)
			r.clock.AwaitAlarm(10 * time.Second)
			r.clock.Advance(10 * time.Second)
			got := await(t, "revocation", w.revoked)
			if got.Cause != dispatch.RevokedLeaseExpired || got.Turn.RunID != first.TurnLease.RunID {
				t.Fatalf("revoked %+v", got)
			}
		})
	}
}
