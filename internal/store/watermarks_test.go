package store

import (
	"context"
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

// TestMarkIsLoweredInItsGroup: a row below the mark that its own group raises lowers
// it again, whichever of the two comes first.
func TestMarkIsLoweredInItsGroup(t *testing.T) {
	t.Parallel()
	for _, raiseFirst := range []bool{true, false} {
		t.Run(fmt.Sprint(raiseFirst), func(t *testing.T) {
			t.Parallel()
			s, st := stalled(t)
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
