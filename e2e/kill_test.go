package e2e

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/testkit"
)

const killClients = 16

// TestKill sends SIGKILL at random points under load, as often as PAWL_KILLS
// says, and proves: every acknowledged record is in the journal with the hash
// that was acknowledged; and every run's records and totals are those of the
// same script on a sidecar that nobody killed.
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
	compareAll(t, drivers, disturbed, calm.runs())
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0\n%s", code, s.stderr.String())
	}
	s.check(more...)
	return s
}

// underFire plays scripts from many clients while the process is killed, and
// lets the last ones finish undisturbed.
func underFire(t *testing.T, s *sidecar, kills, clients int, connect func() pawlv1.RunServiceClient) []*driver {
	rng := rand.New(rand.NewPCG(1, 2))
	return underCrashes(t, kills, clients, connect, func(ctx context.Context, acked *atomic.Int64) {
		awaitCount(ctx, acked, acked.Load()+1+rng.Int64N(200))
		s.kill()
		s.start()
	})
}

// underCrashes does so for any crash, which counts what is acknowledged to choose its
// moment and ends when the process serves again.
func underCrashes(t *testing.T, crashes, clients int, connect func() pawlv1.RunServiceClient, crash func(context.Context, *atomic.Int64)) []*driver {
	ctx := deadline(t, 10*time.Minute)
	var acked, next atomic.Int64
	var over atomic.Bool
	var mu sync.Mutex
	var drivers []*driver
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			client := connect()
			for !over.Load() && ctx.Err() == nil {
				d := &driver{client: client, script: int(next.Add(1)), acked: &acked, ledger: map[uint64][]byte{}}
				if err := d.play(ctx); err != nil && !errors.Is(err, errRunEnded) {
					t.Errorf("script %d, run %s: %v", d.script, d.runID, err)
				}
				mu.Lock()
				drivers = append(drivers, d)
				mu.Unlock()
			}
		})
	}
	for range crashes {
		crash(ctx, &acked)
	}
	over.Store(true)
	wg.Wait()
	testkit.Tried(t, crashes, "crashes")
	t.Logf("%d runs, %d acknowledged changes", len(drivers), acked.Load())
	return drivers
}

// awaitCount returns when n has reached want.
func awaitCount(ctx context.Context, n *atomic.Int64, want int64) {
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for n.Load() < want && ctx.Err() == nil {
		<-tick.C
	}
}

// compareAll replays every script undisturbed and compares.
func compareAll(t *testing.T, drivers []*driver, disturbed, calm pawlv1.RunServiceClient) {
	ctx := deadline(t, 10*time.Minute)
	work := make(chan *driver)
	var wg sync.WaitGroup
	for range killClients {
		wg.Go(func() {
			for d := range work {
				compareOne(ctx, t, d, disturbed, calm)
			}
		})
	}
	for _, d := range drivers {
		work <- d
	}
	close(work)
	wg.Wait()
}

func compareOne(ctx context.Context, t *testing.T, d *driver, disturbed, calm pawlv1.RunServiceClient) {
	var acked atomic.Int64
	c := &driver{client: calm, script: d.script, acked: &acked, ledger: map[uint64][]byte{}}
	if err := c.play(ctx); err != nil && !errors.Is(err, errRunEnded) {
		t.Errorf("script %d undisturbed: %v", d.script, err)
		return
	}
	got, want := journal(ctx, t, disturbed, d.runID), journal(ctx, t, calm, c.runID)
	for seq, hash := range d.ledger {
		if seq > uint64(len(got)) || !bytes.Equal(got[seq-1].Hash, hash) {
			t.Errorf("script %d: acknowledged record %d is not in the journal", d.script, seq)
		}
	}
	if len(got) != len(want) {
		t.Errorf("script %d: %d records, undisturbed %d", d.script, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if g, w := timeless(got[i]), timeless(want[i]); !proto.Equal(g, w) {
			t.Fatalf("script %d record %d:\n%s\nundisturbed:\n%s", d.script, i+1, prototext.Format(g), prototext.Format(w))
		}
	}
	if g, w := totals(ctx, t, disturbed, d.runID), totals(ctx, t, calm, c.runID); !proto.Equal(g, w) {
		t.Errorf("script %d:\n%s\nundisturbed:\n%s", d.script, prototext.Format(g), prototext.Format(w))
	}
}

// journal reads all records of a run, page by page.
func journal(ctx context.Context, t *testing.T, client pawlv1.RunServiceClient, run string) []*pawlv1.Record {
	var records []*pawlv1.Record
	req := &pawlv1.ListTransitionsRequest{RunId: run, Kinds: everyKind(), PageSize: 40}
	for {
		page, err := client.ListTransitions(ctx, req)
		if err != nil {
			t.Errorf("ListTransitions %s: %v", run, err)
			return records
		}
		records = append(records, page.Records...)
		if req.PageToken = page.NextPageToken; req.PageToken == "" {
			break
		}
	}
	for i, r := range records {
		if r.Seq != uint64(i+1) {
			t.Errorf("run %s: record %d has seq %d", run, i+1, r.Seq)
		}
	}
	return records
}

func everyKind() []pawlv1.RecordKind {
	var kinds []pawlv1.RecordKind
	for n := range pawlv1.RecordKind_name {
		if n != 0 {
			kinds = append(kinds, pawlv1.RecordKind(n))
		}
	}
	return kinds
}

// timeless drops what differs between any two runs: ids, times, hashes, and the
// deadlines and backoffs that are made of times.
func timeless(r *pawlv1.Record) *pawlv1.Record {
	c := proto.Clone(r).(*pawlv1.Record)
	c.RunId, c.At, c.Cursor, c.PrevHash, c.Hash = "", nil, "", nil, nil
	if step := c.GetStepRequested(); step != nil {
		step.Deadline = nil
	}
	if failed := c.GetTurnFailed(); failed != nil {
		failed.NotBefore = nil
	}
	return c
}

// totals is the run's head without what differs between any two runs.
func totals(ctx context.Context, t *testing.T, client pawlv1.RunServiceClient, run string) *pawlv1.GetRunResponse {
	got, err := client.GetRun(ctx, &pawlv1.GetRunRequest{RunId: run, IncludeArtifacts: true})
	if err != nil {
		t.Errorf("GetRun %s: %v", run, err)
		return nil
	}
	r := got.Run
	for _, step := range r.Steps {
		// It is the run's id and the step's number.
		step.IdempotencyKey = strings.TrimPrefix(step.IdempotencyKey, r.RunId)
	}
	r.RunId, r.CreatedAt, r.UpdatedAt, r.StatusAt, r.Deadline = "", nil, nil, nil, nil
	return got
}
