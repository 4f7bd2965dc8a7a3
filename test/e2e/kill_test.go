package e2e

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
)

const killClients = 16

// TestKill sends SIGKILL at random points under load, PAWL_KILLS times. It checks that every
// acknowledged record is in the journal with the acknowledged hash, and that the records and totals
// of every run are those of the same script on a sidecar that was not killed.
func TestKill(t *testing.T) {
	t.Parallel()
	killed(t, times("PAWL_KILLS", 8))
}

// times is how often a variable asks for something.
func times(variable string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return otherwise
}

// killed does it, with more arguments for the process, and gives back the stopped one.
func killed(t *testing.T, kills int, more ...string) *sidecar {
	t.Helper()
	args := append([]string{"--pack", "testdata/crash.pack.yaml", "--allow-tool", "*"}, more...)
	s := newSidecar(t, args...)
	s.start()
	drivers := underFire(t, s, kills, killClients, s.runs)
	disturbed := s.runs()
	calm := newSidecar(t, args...)
	calm.start()
	play.CompareAll(t, drivers, disturbed, calm.runs())
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0\n%s", code, s.stderr.String())
	}
	s.check(more...)
	return s
}

// underFire plays scripts from many clients while the process is killed, and
// lets the last ones finish undisturbed.
func underFire(t *testing.T, s *sidecar, kills, clients int, connect func() pawlv1.RunServiceClient) []*play.Driver {
	rng := rand.New(rand.NewPCG(1, 2))
	return play.UnderCrashes(t.Context(), t, kills, clients, connect, func(ctx context.Context, acked *atomic.Int64) {
		play.AwaitCount(ctx, t, acked, acked.Load()+1+rng.Int64N(200))
		s.kill()
		s.start()
	})
}
