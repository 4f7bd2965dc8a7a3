package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
	"github.com/pawl-dev/pawl/test/testkit/powerdisk"
)

// cutsOnOneDisk bounds what a disk in memory grows to.
const cutsOnOneDisk = 50

// onDisk is a sidecar whose data directory is on a disk that the test can cut, slow
// down or break.
type onDisk struct {
	*sidecar

	disk    *powerdisk.Disk
	mount   string
	unmount func() error
	random  *rand.Rand
	// lostChanges counts the changes that cuts took back, startCuts those that hit a start.
	lostChanges, startCuts int
}

// newOnDisk is nil where nothing can be mounted by FUSE, and says so.
func newOnDisk(t *testing.T, seed uint64, args ...string) *onDisk {
	t.Helper()
	o := &onDisk{disk: powerdisk.New(), mount: t.TempDir(), random: rand.New(rand.NewPCG(seed, 3))}
	t.Cleanup(func() {
		if o.unmount != nil {
			_ = o.unmount()
		}
	})
	o.sidecar = newSidecar(t, args...)
	// Made by the sidecar itself: its name, too, has to be synced.
	o.dir = filepath.Join(o.mount, "var", "data")
	err := o.attach()
	switch {
	case errors.Is(err, powerdisk.ErrNoFUSE) && os.Getenv("PAWL_CUTS") == "":
		t.Logf("NOT RUN: %v (wants Linux, /dev/fuse and root or fusermount3)", err)
		return nil
	case errors.Is(err, powerdisk.ErrNoFUSE):
		t.Fatalf("NOT RUN: %v (wants Linux, /dev/fuse and root or fusermount3)", err)
	case err != nil:
		t.Fatal(err)
	}
	return o
}

func (o *onDisk) attach() (err error) {
	o.unmount, err = o.disk.Mount(o.mount)
	return err
}

// cut takes the power away at this moment, or has it be gone already, and gives it back.
func (o *onDisk) cut() {
	o.t.Helper()
	o.disk.PowerOff()
	o.kill()
	if err := o.unmount(); err != nil {
		o.t.Fatalf("unmount: %v", err)
	}
	o.lostChanges += o.disk.Cut(o.random)
	if err := o.attach(); err != nil {
		o.t.Fatal(err)
	}
}

// cutPower cuts under load: after some acknowledgements or behind one of the next syncs.
// Then, in turns, the directory is checked first, the power goes again while the process
// starts, or the process starts.
func (o *onDisk) cutPower(ctx context.Context, acked *atomic.Int64) {
	o.t.Helper()
	if o.random.IntN(2) == 0 {
		play.AwaitCount(ctx, o.t, acked, acked.Load()+1+o.random.Int64N(120))
	} else {
		off := o.disk.OffAfter(1 + o.random.Int64N(200))
		select {
		case <-off:
		case <-ctx.Done():
		}
	}
	o.cut()
	switch o.random.IntN(4) {
	case 0:
		o.check()
	case 1:
		o.cutAtStart()
	}
	o.start()
}

// cutAtStart cuts behind one of the syncs of a start.
func (o *onDisk) cutAtStart() {
	o.t.Helper()
	off := o.disk.OffAfter(1 + o.random.Int64N(20))
	first, err := o.launch()
	if err != nil {
		o.t.Fatal(err)
	}
	select {
	case <-off:
		o.startCuts++
	case said := <-first:
		if said.err != nil {
			o.t.Errorf("the start between two cuts: %v\n%s", said.err, o.stderr.String())
		}
	}
	o.cut()
}

// cuts is how many PAWL_CUTS asks for.
func cuts(otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv("PAWL_CUTS")); err == nil {
		return n
	}
	return otherwise
}

// TestPowerCut cuts the power under load, as often as PAWL_CUTS says, of a disk that then
// forgets any of what was not synced and tears pages, and proves what TestKill and
// TestKillWithWorkers prove.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	all, done := cuts(2), 0
	for seed := uint64(1); done < all; seed++ {
		// At least two disks: one is encrypted.
		n := min(max(all/2, 1), cutsOnOneDisk, all-done)
		lost, ran := powerCuts(t, seed, n)
		if !ran {
			return
		}
		done += n
		t.Logf("power cut: %d cuts, the last %d took back %d changes that were not synced", done, n, lost)
		if t.Failed() {
			return
		}
	}
}

// powerCuts cuts one disk n times; with an even seed the directory is encrypted.
func powerCuts(t *testing.T, seed uint64, n int) (lost int, ran bool) {
	t.Helper()
	args := []string{"--pack", "testdata/crash.pack.yaml", "--pack", "testdata/loop.pack.yaml", "--pack", "testdata/count.json", "--allow-tool", "*"}
	o := newOnDisk(t, seed, args...)
	if o == nil {
		return 0, false
	}
	if seed%2 == 0 {
		o.opening = []string{"--encryption-key-file", keyFile(t, 32)}
	}
	o.start()
	ctx, stop := context.WithCancel(deadline(t, 10*patience))
	large := &largeDriver{client: o.runs(), ledger: map[uint64][]byte{}, random: rand.New(rand.NewPCG(seed, 4))}
	var wg sync.WaitGroup
	wg.Go(func() { large.run(ctx) })
	missing := map[string]bool{}
	wg.Go(func() { o.deleteUnderCuts(ctx, missing) })
	counted := o.countUnderCuts(ctx, 2+n/4)
	drivers := play.UnderCrashes(t.Context(), t, n, killClients/2, o.runs, o.cutPower)
	counted()
	stop()
	wg.Wait()
	calm := newSidecar(t, args...)
	calm.start()
	disturbed := o.runs()
	play.CompareAll(t, drivers, disturbed, calm.runs())
	for _, loss := range lostOf(deadline(t, patience), disturbed, large.runID, large.ledger) {
		t.Errorf("large values: %s", loss)
	}
	for run := range missing {
		if _, err := disturbed.GetRun(deadline(t, patience), &pawlv1.GetRunRequest{RunId: run}); play.Reason(err) != "RUN_DELETED" {
			t.Errorf("run %s was deleted: %v", run, err)
		}
	}
	t.Logf("%d cuts met a start; %d runs deleted; %d large values in run %s", o.startCuts, len(missing), len(large.ledger), large.runID)
	if code := o.stop(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0\n%s", code, o.stderr.String())
	}
	o.check()
	calm.kill()
	// A disk takes memory as long as it is mounted.
	if err := o.unmount(); err != nil {
		t.Fatal(err)
	}
	o.unmount = nil
	return o.lostChanges, true
}

// countUnderCuts has workers execute turns and steps of some runs; the returned function
// waits for their ends: each has every visit once, and its tool ran once for each.
func (o *onDisk) countUnderCuts(ctx context.Context, n int) (ended func()) {
	o.t.Helper()
	c := &counter{calls: map[string]int{}}
	runs := o.runs()
	var ids []string
	for range n {
		got, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "count", Execution: pawlv1.Execution_EXECUTION_WORKERS})
		if err != nil {
			o.t.Fatal(err)
		}
		ids = append(ids, got.GetRun().GetRunId())
	}
	stop := c.startAlone(ctx, o.t, o.sidecar)
	return func() {
		o.t.Helper()
		for _, id := range ids {
			c.verify(ctx, o.t, runs, id)
		}
		stop()
	}
}

// deleteUnderCuts starts, ends and deletes runs, one after the other.
func (o *onDisk) deleteUnderCuts(ctx context.Context, gone map[string]bool) {
	client := o.runs()
	for n := 0; ctx.Err() == nil; n++ {
		run, deleted, err := lifeOf(ctx, client, fmt.Sprint("short-", n), true)
		if err == nil && deleted {
			gone[run] = true
		}
		if err != nil && ctx.Err() == nil {
			o.t.Errorf("a short run: %v", err)
			return
		}
	}
}

// largeDriver emits events with values that lie in the value log, one after the other.
type largeDriver struct {
	client pawlv1.RunServiceClient
	random *rand.Rand
	runID  string
	ledger map[uint64][]byte
}

// maxLarge bounds what all values of one run hold.
const maxLarge = 128 << 20

func (d *largeDriver) run(ctx context.Context) {
	started, err := play.Retry(ctx, func(ctx context.Context) (*pawlv1.StartRunResponse, error) {
		return d.client.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "loop", Execution: pawlv1.Execution_EXECUTION_CALLER, RequestId: "large"})
	})
	if err != nil {
		return
	}
	d.runID = started.GetRun().GetRunId()
	for n, sum := 0, 0; sum < maxLarge && ctx.Err() == nil; n++ {
		value := d.value()
		sum += len(value)
		answer, err := d.emit(ctx, fmt.Sprint("large-", n), value)
		if err != nil {
			return
		}
		d.ledger[answer.GetTransition().GetSeq()] = answer.GetTransition().GetHash()
	}
}

// value is text that does not compress, of up to 60 KiB.
func (d *largeDriver) value() string {
	var b strings.Builder
	for n := 1 + d.random.IntN(60<<10); b.Len() < n; {
		fmt.Fprintf(&b, "%016x", d.random.Uint64())
	}
	return b.String()
}

// emit sends an event until it is answered, each time with the token of the open turn:
// the event's id makes it one.
func (d *largeDriver) emit(ctx context.Context, id, value string) (*pawlv1.EmitEventResponse, error) {
	for {
		turn, err := play.Retry(ctx, func(ctx context.Context) (*pawlv1.GetTurnResponse, error) {
			return d.client.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: d.runID})
		})
		if err != nil {
			return nil, err
		}
		answer, err := play.Retry(ctx, func(ctx context.Context) (*pawlv1.EmitEventResponse, error) {
			return d.client.EmitEvent(ctx, &pawlv1.EmitEventRequest{
				RunId: d.runID, Event: "Again", EventId: id, TurnToken: turn.GetTurn().GetToken(),
				Artifacts: []*pawlv1.ArtifactWrite{{Name: "mark", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: value}}}},
			})
		})
		if play.Reason(err) != "TURN_TOKEN_STALE" {
			return answer, err
		}
	}
}

// lostOf names what was acknowledged and is not in the journal of a run.
func lostOf(ctx context.Context, client pawlv1.RunServiceClient, run string, ledger map[uint64][]byte) (missing []string) {
	records := map[uint64][]byte{}
	req := &pawlv1.ListTransitionsRequest{RunId: run, Kinds: play.EveryKind(), PageSize: 200}
	for {
		page, err := client.ListTransitions(ctx, req)
		if err != nil {
			return append(missing, fmt.Sprintf("run %s: %v", run, err))
		}
		for _, r := range page.GetRecords() {
			records[r.GetSeq()] = r.GetHash()
		}
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			break
		}
	}
	for seq, hash := range ledger {
		if !bytes.Equal(records[seq], hash) {
			missing = append(missing, fmt.Sprintf("run %s: acknowledged record %d is not in the journal", run, seq))
		}
	}
	return missing
}

// TestLyingDiskIsFound: where syncs are answered without being done, the same judgement
// finds what is missing, or the start names it.
func TestLyingDiskIsFound(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 20; seed++ {
		found, ran := cutLyingDisk(t, seed)
		if !ran {
			return
		}
		if found != "" {
			t.Logf("found at cut %d: %s", seed, found)
			return
		}
	}
	t.Error("20 cuts of a disk that does not sync, and nothing was missing")
}

// cutLyingDisk cuts a disk that began to lie when the process served, and says what is missing.
func cutLyingDisk(t *testing.T, seed uint64) (found string, ran bool) {
	t.Helper()
	o := newOnDisk(t, seed, "--pack", "testdata/loop.pack.yaml")
	if o == nil {
		return "", false
	}
	o.start()
	o.disk.Set(powerdisk.Faults{Lies: true})
	ctx := deadline(t, patience)
	d := &largeDriver{client: o.runs(), ledger: map[uint64][]byte{}, random: o.random}
	started, err := d.client.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "loop", Execution: pawlv1.Execution_EXECUTION_CALLER})
	if err != nil {
		t.Fatal(err)
	}
	d.runID = started.GetRun().GetRunId()
	d.ledger[started.GetRecord().GetSeq()] = started.GetRecord().GetHash()
	for n := range 5 {
		answer, err := d.emit(ctx, fmt.Sprint(n), "small")
		if err != nil {
			t.Fatal(err)
		}
		d.ledger[answer.GetTransition().GetSeq()] = answer.GetTransition().GetHash()
	}
	o.cut()
	if out, err := o.checked(); err != nil {
		return strings.TrimSpace(out), true
	}
	if _, err := o.tryStart(); err != nil {
		return o.stderr.String(), true
	}
	lost := lostOf(ctx, d.client, d.runID, d.ledger)
	return strings.Join(lost, "\n"), true
}

// TestFirstAnswerSurvives: the power goes right behind the first answer of a sidecar that
// made its directory itself, and the one above it.
func TestFirstAnswerSurvives(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 2; seed++ {
		o := newOnDisk(t, seed, "--pack", "testdata/loop.pack.yaml")
		if o == nil {
			return
		}
		o.start()
		ctx := deadline(t, patience)
		started, err := o.runs().StartRun(ctx, &pawlv1.StartRunRequest{Pack: "loop", Execution: pawlv1.Execution_EXECUTION_CALLER})
		if err != nil {
			t.Fatal(err)
		}
		o.cut()
		o.start()
		for _, loss := range lostOf(ctx, o.runs(), started.GetRun().GetRunId(), map[uint64][]byte{started.GetRecord().GetSeq(): started.GetRecord().GetHash()}) {
			t.Errorf("seed %d: %s", seed, loss)
		}
	}
}
