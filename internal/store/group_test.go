package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// stall makes the committer stand still with a synced group in hand, so that
// what comes meanwhile becomes one group.
type stall struct {
	mu      sync.Mutex
	gate    chan struct{}
	arrived chan struct{}
}

func newStalledStore(t *testing.T) (*Store, *stall) {
	t.Helper()
	st := &stall{}
	s := openTemp(t, func(o *Options) {
		o.Hooks.AfterCommit = func(Group) error {
			st.mu.Lock()
			gate, arrived := st.gate, st.arrived
			st.arrived = nil
			st.mu.Unlock()
			if gate != nil {
				if arrived != nil {
					close(arrived)
				}
				<-gate
			}
			return nil
		}
	})
	t.Cleanup(st.release)
	return s, st
}

// hold stops the committer at the end of the next group, which it begins with
// the given call; it returns when the committer stands still.
func (st *stall) hold(commit func()) {
	st.mu.Lock()
	arrived := make(chan struct{})
	st.gate, st.arrived = make(chan struct{}), arrived
	st.mu.Unlock()
	go commit()
	<-arrived
}

func (st *stall) release() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.gate != nil {
		close(st.gate)
		st.gate = nil
	}
}

// TestOneRequestIDMakesOneRun: 100 concurrent starts with one request id make
// one run; the others learn which when it is visible.
func TestOneRequestIDMakesOneRun(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	var wg sync.WaitGroup
	errs := make([]error, 100)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = s.Commit(ctx, startBatch(runID(i), "same"))
			if !errors.Is(errs[i], machine.ErrConsumed) {
				return
			}
			key := machine.Dedupe{Scope: machine.PerPrincipal, Kind: machine.CmdStart, Principal: "anonymous", ID: "same"}
			if row, ok, err := s.FindRequestID(ctx, 0, key); err != nil || !ok || row.RunID == "" {
				errs[i] = fmt.Errorf("the winner is not visible: %+v %v %w", row, ok, err)
			}
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, machine.ErrConsumed) {
			t.Error(err)
		}
	}
	runs, _, err := s.ListRuns(ctx, 0, machine.RunFilter{}, "", 0)
	if won != 1 || len(runs) != 1 || err != nil {
		t.Fatalf("%d commits won, %d runs, %v", won, len(runs), err)
	}
}

// TestLargeGroupsAreCut: 256 runs that write 64 KiB each at once all succeed,
// although Badger takes no transaction of 16 MiB.
func TestLargeGroupsAreCut(t *testing.T) {
	t.Parallel()
	s, st := newStalledStore(t)
	states := make([]*machine.State, 256)
	for i := range states {
		b := startBatch(runID(i), "")
		mustCommit(t, s, b)
		states[i] = b.State
	}
	values := make([][]byte, len(states))
	for i := range values {
		values[i] = make([]byte, 64<<10)
		rand.Read(values[i])
	}
	st.hold(func() { mustCommit(t, s, startBatch(runID(300), "")) })
	var wg sync.WaitGroup
	for i, state := range states {
		wg.Go(func() {
			if _, err := s.Commit(context.Background(), eventBatch(state, values[i])); err != nil {
				t.Error(err)
			}
		})
	}
	waitFor(t, "all batches wait", func() bool { return len(s.committer.queue) == len(states) })
	st.release()
	wg.Wait()
	if groups := s.Stats().Groups; groups < 4 {
		t.Errorf("%d groups", groups)
	}
	for i := range states {
		e, err := s.Entry(context.Background(), 0, runID(i), 2)
		if err != nil || !bytes.Equal(e.Input.Command.(machine.EmitEvent).Artifacts[0].Value, values[i]) {
			t.Fatalf("run %d reads back other bytes, %v", i, err)
		}
	}
	if _, err := s.Check(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
}

// TestConflictFailsOnlyItsBatch: of batches in one group only the one whose
// precondition fails is refused, also when it lost against its own group.
func TestConflictFailsOnlyItsBatch(t *testing.T) {
	t.Parallel()
	s, st := newStalledStore(t)
	a, b := startBatch(runID(1), ""), startBatch(runID(2), "")
	mustCommit(t, s, a)
	mustCommit(t, s, b)
	type outcome struct {
		name string
		err  error
	}
	outcomes := make(chan outcome)
	send := func(name string, batch *machine.Batch) {
		go func() {
			_, err := s.Commit(context.Background(), batch)
			outcomes <- outcome{name, err}
		}()
	}
	// A first commit occupies the committer, the others wait for it together.
	st.hold(func() { mustCommit(t, s, startBatch(runID(3), "")) })
	send("a", eventBatch(a.State, []byte("one")))
	send("b", eventBatch(b.State, []byte("one")))
	stale := eventBatch(b.State, nil)
	stale.Prev, stale.State.Seq, stale.Records[0].Seq = 7, 8, 8
	send("stale", stale)
	send("unknown run", eventBatch(&machine.State{RunID: runID(9), Seq: 4}, nil))
	send("exists", startBatch(runID(1), ""))
	waitFor(t, "five batches wait", func() bool { return len(s.committer.queue) == 5 })
	st.release()
	for range 5 {
		o := <-outcomes
		conflict := o.name == "stale" || o.name == "unknown run" || o.name == "exists"
		if conflict != errors.Is(o.err, machine.ErrSeqConflict) || !conflict && o.err != nil {
			t.Errorf("%s: %v", o.name, o.err)
		}
	}
	if _, err := s.Check(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
}

// TestTwoSuccessorsOfOneSeq: of two successors of one seq exactly one is
// stored, however they meet.
func TestTwoSuccessorsOfOneSeq(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	start := startBatch(runID(1), "")
	mustCommit(t, s, start)
	st := start.State
	for range 50 {
		var wg sync.WaitGroup
		batches := []*machine.Batch{eventBatch(st, []byte("x")), eventBatch(st, []byte("y"))}
		errs := make([]error, 2)
		for i := range batches {
			batches[i].Consumed = nil
			wg.Go(func() { _, errs[i] = s.Commit(context.Background(), batches[i]) })
		}
		wg.Wait()
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		if errs[winner] != nil || !errors.Is(errs[1-winner], machine.ErrSeqConflict) {
			t.Fatal(errs)
		}
		st = batches[winner].State
	}
	if _, err := s.Check(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
}

func TestRecentTurnsOver(t *testing.T) {
	t.Parallel()
	r := recentSeqs{now: map[string]uint64{}, before: map[string]uint64{}}
	for i := range 3 * recentRuns {
		r.put([]byte(runID(i)), uint64(i))
		if i%100 == 0 {
			r.turn()
		}
		if seq, ok := r.last([]byte(runID(max(0, i-100)))); !ok || seq != uint64(max(0, i-100)) {
			t.Fatalf("at %d: the group before is forgotten", i)
		}
	}
	if n := len(r.now) + len(r.before); n > 3*recentRuns {
		t.Fatalf("%d runs remembered", n)
	}
}

// TestBatchTooLarge: what does not fit one transaction is refused with limit and
// size, and nothing of it is stored.
func TestBatchTooLarge(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	start := startBatch(runID(1), "")
	mustCommit(t, s, start)
	for name, c := range map[string]struct {
		change func(*machine.Batch)
		limit  int64
	}{
		"bytes": {func(b *machine.Batch) {
			b.Input.Command = machine.EmitEvent{Artifacts: []machine.ArtifactWrite{{Value: make([]byte, 8<<20)}}}
		}, maxGroupBytes},
		"keys": {func(b *machine.Batch) { b.Messages = make([]machine.MessageRow, maxGroupKeys) }, int64(s.bounds.Keys)},
	} {
		b := eventBatch(start.State, nil)
		c.change(b)
		var refusal *machine.Error
		if _, err := s.Commit(ctx, b); !errors.As(err, &refusal) || refusal.Reason != "BATCH_TOO_LARGE" ||
			refusal.Code != machine.CodeResourceExhausted || refusal.Limit != c.limit || refusal.Got <= c.limit {
			t.Errorf("%s: %v %+v", name, err, refusal)
		}
	}
	// Just below the limit a batch is stored: its body lies in the value log.
	b := eventBatch(start.State, make([]byte, 7<<20))
	mustCommit(t, s, b)
	if _, err := s.Check(ctx, nil); err != nil {
		t.Fatal(err)
	}
}

// TestNameTooLong: a name that Badger would not take as part of a key is the
// caller's fault, not the store's end.
func TestNameTooLong(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	long := string(bytes.Repeat([]byte("n"), layout.MaxKey))
	for field, change := range map[string]func(*machine.Batch){
		"id":        func(b *machine.Batch) { b.Consumed[0].ID = long },
		"artifacts": func(b *machine.Batch) { b.Writes = []machine.ArtifactVersion{{Name: long}} },
		"labels":    func(b *machine.Batch) { b.Index = []machine.IndexChange{{Index: "label", Value: long, Add: true}} },
		"run_id":    func(b *machine.Batch) { b.State.RunID = long },
	} {
		b := startBatch(runID(1), "r")
		change(b)
		var refusal *machine.Error
		if _, err := s.Commit(ctx, b); !errors.As(err, &refusal) || refusal.Reason != "NAME_TOO_LONG" || refusal.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	mustCommit(t, s, startBatch(runID(1), "r"))
}

// TestBrokenBatch: a batch that contradicts itself is refused before anything of
// it is written.
func TestBrokenBatch(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	for name, change := range map[string]func(*machine.Batch){
		"no state":    func(b *machine.Batch) { b.State = nil },
		"no records":  func(b *machine.Batch) { b.Records = nil },
		"other seq":   func(b *machine.Batch) { b.State.Seq = 5 },
		"no run":      func(b *machine.Batch) { b.State.RunID = "" },
		"no command":  func(b *machine.Batch) { b.Input.Command = nil },
		"record gaps": func(b *machine.Batch) { b.Records[0].Seq = 9 },
	} {
		b := startBatch(runID(1), "")
		change(b)
		if _, err := s.Commit(ctx, b); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if tail, _ := s.Tail(ctx, 0); tail != 0 {
		t.Fatalf("something was stored: tail %d", tail)
	}
}

// rounds is how often a race is run: few, or what PAWL_ROUNDS says.
func rounds(t testing.TB, few int) int {
	t.Helper()
	if text := os.Getenv("PAWL_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return few
}

// stepBatch adds the outbox row of one step to a run, or removes it.
func stepBatch(st *machine.State, row machine.OutboxRow, add bool) *machine.Batch {
	b := timerBatch(st, nil, nil)
	if add {
		b.OutboxAdded = []machine.OutboxRow{row}
	} else {
		b.OutboxRemoved = []machine.OutboxRow{row}
	}
	return b
}

func stepsIn(t testing.TB, s *Store) map[machine.OutboxRow]bool {
	t.Helper()
	rows, err := s.Outbox(context.Background(), machine.OutboxStep, math.MaxInt64, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[machine.OutboxRow]bool)
	for _, row := range rows {
		out[row] = true
	}
	return out
}

// TestMarksNeverHideARow: rows that were acknowledged are found after a crash,
// although watermarks are stored all the time and the outbox is looked at while it is
// empty.
func TestMarksNeverHideARow(t *testing.T) {
	t.Parallel()
	for range rounds(t, 4) {
		s := openTemp(t, func(o *Options) { o.MarkInterval = time.Millisecond })
		stop := make(chan struct{})
		var looks, work sync.WaitGroup
		looks.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					stepsIn(t, s)
				}
			}
		})
		const runs, each = 4, 4
		live := make([][]machine.OutboxRow, runs)
		for n := range runs {
			work.Go(func() {
				b := startBatch(runID(n), "")
				mustCommit(t, s, b)
				for i := range each {
					row := machine.OutboxRow{Kind: machine.OutboxStep, Due: time.Now().UnixNano(), RunID: runID(n), Step: uint32(i + 1), Attempt: 1}
					b = stepBatch(b.State, row, true)
					mustCommit(t, s, b)
					if i == each-1 {
						live[n] = append(live[n], row)
						continue
					}
					b = stepBatch(b.State, row, false)
					mustCommit(t, s, b)
				}
			})
		}
		work.Wait()
		close(stop)
		looks.Wait()
		crashed := openTemp(t, func(o *Options) { o.Dir = copyStore(t, s) })
		found := stepsIn(t, crashed)
		for _, rows := range live {
			for _, row := range rows {
				if !found[row] {
					t.Errorf("the row of %s, step %d, was acknowledged and is not found", row.RunID, row.Step)
				}
			}
		}
		marksHold(t, crashed)
	}
}

// marksHold: no queue's watermark is above a row of it.
func marksHold(t *testing.T, s *Store) {
	t.Helper()
	stored := make(map[layout.QueueID]int64)
	for _, row := range rows(t, s) {
		if row.Key[0] == layout.KindWatermark {
			s.watermarks.mu.Lock()
			for q, k := range s.watermarks.queues {
				stored[q] = k.stored
			}
			s.watermarks.mu.Unlock()
		}
		if queue := layout.Kinds[row.Key[0]].Queue; queue != nil {
			q, at := queue(row.Key)
			if low, known := stored[q]; known && at < low {
				t.Errorf("a row due at %d lies below the mark %d", at, low)
			}
		}
	}
}

// TestALookRaisesNothing: a look at an empty queue, however far ahead, moves the
// watermark no further than the last row that there was.
func TestALookRaisesNothing(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	low := func() int64 {
		s.watermarks.mu.Lock()
		defer s.watermarks.mu.Unlock()
		return s.watermarks.get(layout.QueueID{Kind: byte(machine.OutboxStep)}).low
	}
	b := startBatch(runID(1), "")
	mustCommit(t, s, b)
	if found := stepsIn(t, s); len(found) != 0 || low() != math.MinInt64 {
		t.Fatalf("found %v, the mark is at %d", found, low())
	}
	row := machine.OutboxRow{Kind: machine.OutboxStep, Due: testTime, RunID: runID(1), Step: 1, Attempt: 1}
	b = stepBatch(b.State, row, true)
	mustCommit(t, s, b)
	mustCommit(t, s, stepBatch(b.State, row, false))
	for range 2 {
		if found := stepsIn(t, s); len(found) != 0 || low() != testTime {
			t.Fatalf("found %v, the mark is at %d, want %d", found, low(), int64(testTime))
		}
	}
}

// TestMarkIsLoweredInItsGroup: a group raises the mark, and a row of the same group is below it. The row lowers the
// mark again, in both orders.
func TestMarkIsLoweredInItsGroup(t *testing.T) {
	t.Parallel()
	for _, raiseFirst := range []bool{true, false} {
		t.Run(fmt.Sprint(raiseFirst), func(t *testing.T) {
			t.Parallel()
			s, st := newStalledStore(t)
			b := startBatch(runID(1), "")
			mustCommit(t, s, b)
			late := machine.OutboxRow{Kind: machine.OutboxStep, Due: testTime, RunID: runID(1), Step: 1, Attempt: 1}
			b = stepBatch(b.State, late, true)
			mustCommit(t, s, b)
			b = stepBatch(b.State, late, false)
			mustCommit(t, s, b)
			stepsIn(t, s)
			early := late
			early.Due, early.Step = testTime-10*watermarkSlack, 2
			row, err := s.Encode(stepBatch(b.State, early, true))
			if err != nil {
				t.Fatal(err)
			}
			order := []*Writes{{entry: -1, flushWatermarks: true}, row}
			if !raiseFirst {
				order[0], order[1] = order[1], order[0]
			}
			st.hold(func() { _, _ = s.Commit(context.Background(), startBatch(runID(2), "")) })
			var done []chan error
			for _, w := range order {
				r := &request{w: w, done: make(chan error, 1)}
				s.committer.queue <- r
				done = append(done, r.done)
			}
			st.release()
			for _, c := range done {
				if err := <-c; err != nil {
					t.Fatal(err)
				}
			}
			crashed := openTemp(t, func(o *Options) { o.Dir = copyStore(t, s) })
			if found := stepsIn(t, crashed); !found[early] {
				t.Fatalf("found %v", found)
			}
		})
	}
}
