package e2e

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/test/e2e/play"
)

const linearClients = 6

// TestCallsAreLinearizable lets clients race for the same runs and webhooks with starts, events and
// decisions, steps and their answers, cancellations and reads, while the process is killed,
// PAWL_LINEAR times. There must be an order of the calls in which the pure machine gives the same
// answers. A call whose answer was lost may be in the order or not.
func TestCallsAreLinearizable(t *testing.T) {
	t.Parallel()
	kills := times("PAWL_LINEAR", 1)
	s := newSidecar(t, "--pack", "testdata/desk.pack.yaml", "--allow-tool", "*", "--push-allow", "127.0.0.1")
	s.start()
	ctx := deadline(t, time.Minute+time.Duration(kills)*patience)
	l := play.NewLinear(ctx)
	clients := make([]*play.LinearClient, linearClients)
	for n := range clients {
		clients[n] = l.Client(s.dial())
	}
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(c.Race)
	}
	random := rand.New(rand.NewPCG(1, 7))
	for range kills {
		play.AwaitCount(ctx, t, &l.Calls, l.Calls.Load()+50+random.Int64N(150))
		s.kill()
		s.start()
	}
	play.AwaitCount(ctx, t, &l.Calls, l.Calls.Load()+100)
	l.Ended.Store(true)
	all.Wait()
	l.Judge(t, "testdata/desk.pack.yaml")
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0\n%s", code, s.stderr.String())
	}
	s.check()
}
