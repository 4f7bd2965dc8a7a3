package play

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/testkit"
)

const (
	// limit bounds what one test plays or compares.
	limit = 3 * time.Hour
	// comparers compare at once.
	comparers = 16
)

// UnderCrashes plays scripts from many clients during crashes, and lets the last scripts finish without a crash. The
// function crash reads the number of acknowledged calls to choose its moment, and returns when the process serves again.
func UnderCrashes(ctx context.Context, t *testing.T, crashes, clients int, connect func() pawlv1.RunServiceClient, crash func(context.Context, *atomic.Int64)) []*Driver {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var acked, next atomic.Int64
	var over atomic.Bool
	var mu sync.Mutex
	var drivers []*Driver
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			client := connect()
			for !over.Load() && ctx.Err() == nil {
				d := &Driver{Client: client, Script: int(next.Add(1)), Acked: &acked, Ledger: map[uint64][]byte{}}
				if err := d.Play(ctx); err != nil && !errors.Is(err, ErrRunEnded) {
					t.Errorf("script %d, run %s: %v", d.Script, d.Run, err)
				}
				mu.Lock()
				drivers = append(drivers, d)
				mu.Unlock()
			}
		})
	}
	for range crashes {
		if ctx.Err() == nil {
			crash(ctx, &acked)
		}
	}
	over.Store(true)
	wg.Wait()
	testkit.ReportTried(t, crashes, "crashes")
	t.Logf("%d runs, %d acknowledged changes", len(drivers), acked.Load())
	return drivers
}

// AwaitCount returns when n has reached want, when ctx has ended, or when the test has failed: the goroutines
// that count stop at a failure, and a test that waited on would hide its first error until it times out.
func AwaitCount(ctx context.Context, tb testing.TB, n *atomic.Int64, want int64) {
	tb.Helper()
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for n.Load() < want && ctx.Err() == nil && !tb.Failed() {
		<-tick.C
	}
}

// CompareAll replays every script undisturbed and compares.
func CompareAll(t *testing.T, drivers []*Driver, disturbed, calm pawlv1.RunServiceClient) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	work := make(chan *Driver)
	var wg sync.WaitGroup
	for range comparers {
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

func compareOne(ctx context.Context, t *testing.T, d *Driver, disturbed, calm pawlv1.RunServiceClient) {
	t.Helper()
	var acked atomic.Int64
	c := &Driver{Client: calm, Script: d.Script, Acked: &acked, Ledger: map[uint64][]byte{}}
	if err := c.Play(ctx); err != nil && !errors.Is(err, ErrRunEnded) {
		t.Errorf("script %d undisturbed: %v", d.Script, err)
		return
	}
	got, want := Journal(ctx, t, disturbed, d.Run), Journal(ctx, t, calm, c.Run)
	for seq, hash := range d.Ledger {
		if seq > uint64(len(got)) || !bytes.Equal(got[seq-1].Hash, hash) {
			t.Errorf("script %d: acknowledged record %d is not in the Journal", d.Script, seq)
		}
	}
	if len(got) != len(want) {
		t.Errorf("script %d: %d records, undisturbed %d", d.Script, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if g, w := timeless(got[i]), timeless(want[i]); !proto.Equal(g, w) {
			t.Fatalf("script %d record %d:\n%s\nundisturbed:\n%s", d.Script, i+1, prototext.Format(g), prototext.Format(w))
		}
	}
	if g, w := totals(ctx, t, disturbed, d.Run), totals(ctx, t, calm, c.Run); !proto.Equal(g, w) {
		t.Errorf("script %d:\n%s\nundisturbed:\n%s", d.Script, prototext.Format(g), prototext.Format(w))
	}
}

// Journal reads all records of a run, page by page.
func Journal(ctx context.Context, t *testing.T, client pawlv1.RunServiceClient, run string) []*pawlv1.Record {
	t.Helper()
	var records []*pawlv1.Record
	req := &pawlv1.ListTransitionsRequest{RunId: run, Kinds: EveryKind(), PageSize: 40}
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

// EveryKind is every kind of records.
func EveryKind() []pawlv1.RecordKind {
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
	t.Helper()
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
