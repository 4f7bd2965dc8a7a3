package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
	"github.com/pawl-dev/pawl/test/testkit/relay"
)

// onDatabase is a sidecar whose store is at a URL.
func onDatabase(t *testing.T, url string) *sidecar {
	t.Helper()
	s := newSidecar(t, "--pack", "testdata/crash.pack.yaml", "--allow-tool", "*")
	s.database = url
	return s
}

// compareDrivers compares the answers of drivers on a disturbed sidecar with those of an undisturbed one on
// the same server, and verifies both stores. No output contains the password.
func compareDrivers(t *testing.T, server *pgserver.Server, s *sidecar, drivers []*play.Driver) {
	t.Helper()
	calm := onDatabase(t, server.Database(t))
	calm.start()
	play.CompareAll(t, drivers, s.runs(), calm.runs())
	for _, one := range []*sidecar{s, calm} {
		if code := one.stop(); code != 0 {
			t.Errorf("exit code %d after SIGTERM, want 0\n%s", code, one.stderr.String())
		}
		one.check()
		if strings.Contains(one.stderr.String(), pgserver.Password) {
			t.Errorf("the password is in the log:\n%s", one.stderr.String())
		}
	}
}

// checkProcess fails the test if the sidecar is not the process that it was.
func (s *sidecar) checkProcess(pid int) {
	s.t.Helper()
	select {
	case <-s.done:
		s.t.Fatalf("the sidecar ended:\n%s", s.stderr.String())
	default:
	}
	if s.cmd.Process.Pid != pid {
		s.t.Fatal("it is another process")
	}
}

// TestKillSidecarOnPostgres: [TestKill] with the store in a database.
func TestKillSidecarOnPostgres(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t, pgserver.Durable())
	s := onDatabase(t, server.Database(t))
	s.start()
	drivers := underFire(t, s, times("PAWL_KILLS", 4), killClients, s.runs)
	compareDrivers(t, server, s, drivers)
}

// TestKillPostgres kills the database and all its processes under load, as often as
// PAWL_DATABASE_KILLS says, and starts it again: the sidecar is the same process at the end,
// nothing acknowledged is lost and nothing is there twice.
func TestKillPostgres(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t, pgserver.Durable())
	s := onDatabase(t, server.Database(t))
	s.start()
	pid, rng := s.cmd.Process.Pid, rand.New(rand.NewPCG(3, 4))
	drivers := play.UnderCrashes(t.Context(), t, times("PAWL_DATABASE_KILLS", 4), killClients, s.runs, func(ctx context.Context, acked *atomic.Int64) {
		play.AwaitCount(ctx, t, acked, acked.Load()+1+rng.Int64N(200))
		server.Kill(t)
		server.Restart(t)
		play.AwaitCount(ctx, t, acked, acked.Load()+1)
		s.checkProcess(pid)
	})
	compareDrivers(t, server, s, drivers)
}

// TestKillConnectionsToPostgres cuts all connections to the database under load,
// PAWL_CONNECTION_CUTS times: in turn at any moment, between a stored commit and its answer, and
// until calls are refused.
func TestKillConnectionsToPostgres(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t, pgserver.Durable())
	between := relay.Start(t, server.Addr())
	url := server.Database(t)
	s := onDatabase(t, strings.Replace(url, server.Addr(), between.Addr(), 1))
	s.start()
	pid, rng, n := s.cmd.Process.Pid, rand.New(rand.NewPCG(5, 6)), 0
	cuts := []func(){
		func() { between.Cut() },
		func() {
			// The commit of a run that starts, whose variables say so.
			<-between.LoseAnswer("ratchets").Triggered()
		},
		func() {
			between.Refuse()
			s.refusedForDatabase()
			between.Accept()
		},
	}
	drivers := play.UnderCrashes(t.Context(), t, times("PAWL_CONNECTION_CUTS", 6), killClients, s.runs, func(ctx context.Context, acked *atomic.Int64) {
		play.AwaitCount(ctx, t, acked, acked.Load()+1+rng.Int64N(200))
		cuts[n%len(cuts)]()
		n++
		play.AwaitCount(ctx, t, acked, acked.Load()+1)
		s.checkProcess(pid)
	})
	s.database = url
	compareDrivers(t, server, s, drivers)
}

// refusedForDatabase returns once new work is refused because the database is away.
func (s *sidecar) refusedForDatabase() {
	s.t.Helper()
	ctx, runs := deadline(s.t, patience), s.runs()
	for n := 0; ctx.Err() == nil; n++ {
		one, cancel := context.WithTimeout(ctx, time.Second)
		_, err := runs.StartRun(one, &pawlv1.StartRunRequest{
			Pack: "crash", Execution: pawlv1.Execution_EXECUTION_CALLER, VariablesJson: `{"topic":"away"}`, RequestId: fmt.Sprintf("away-%d", n),
		})
		cancel()
		if play.Reason(err) == "DATABASE_AWAY" {
			return
		}
	}
	s.t.Fatal("no work is refused although the database is away")
}
