package pgserver_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// TestPulse: it stands still as long as the standby that commits wait for, and goes on after.
func TestPulse(t *testing.T) {
	t.Parallel()
	pgserver.Require(t)
	primary, standby := pgserver.StartWithStandby(t, pgserver.Synchronous)
	p := pgserver.Listen(t, primary.URL("postgres"))
	primary.Await(t, "postgres", "SELECT to_regclass('pulse') IS NOT NULL AND (SELECT sum(beats) > 0 FROM pulse)")
	began := time.Now()
	standby.Pause(t)
	for p.SilentTime(began, time.Now()) < time.Second {
		time.Sleep(time.Millisecond)
	}
	standby.Resume(t)
	beats := primary.Query(t, "postgres", "SELECT sum(beats) FROM pulse")
	primary.Await(t, "postgres", "SELECT sum(beats) > 1 + "+beats+" FROM pulse")
	if d := p.SilentTime(began, time.Now()); d < time.Second {
		t.Errorf("of a silence of a second %v is known", d)
	}
	// A single slow commit on a busy machine is a silence too, but the pause is not part of this time.
	if d := p.SilentTime(began.Add(-time.Hour), began); d >= time.Second {
		t.Errorf("silent for %v before", d)
	}
}
