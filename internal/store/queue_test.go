package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// timerBatch returns a batch that only sets and clears timers of a run.
func timerBatch(st *machine.State, set, cleared []machine.Timer) *machine.Batch {
	next := *st
	next.Seq++
	return &machine.Batch{
		Prev: st.Seq, State: &next,
		Input:     machine.Input{At: testTime, Command: machine.Pause{}},
		Records:   []machine.Record{{Seq: next.Seq, At: testTime, Body: &machine.Paused{}}},
		TimersSet: set, TimersCleared: cleared,
	}
}

func dueTimers(t testing.TB, s *Store, now int64, limit int) ([]int64, int64) {
	t.Helper()
	timers, next, err := s.DueTimers(context.Background(), now, limit)
	if err != nil {
		t.Fatal(err)
	}
	var due []int64
	for _, timer := range timers {
		due = append(due, timer.Due)
	}
	return due, next
}

func TestDueTimersInOrder(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	if due, next := dueTimers(t, s, math.MaxInt64, 10); due != nil || next != 0 {
		t.Fatalf("an empty store has timers: %v, %d", due, next)
	}
	for ns := range uint32(2) {
		b := startBatch(runID(int(ns)), "")
		b.State.Namespace = ns
		for i := range 4 {
			b.TimersSet = append(b.TimersSet, machine.Timer{Due: int64(10*i) + int64(ns), RunID: b.State.RunID, Kind: machine.TimerStep, Step: uint32(i + 1), Turn: 7})
		}
		mustCommit(t, s, b)
	}
	for _, c := range []struct {
		now   int64
		limit int
		due   []int64
		next  int64
	}{
		{-1, 10, nil, 0},
		{0, 10, []int64{0}, 1},
		{15, 10, []int64{0, 1, 10, 11}, 20},
		{15, 3, []int64{0, 1, 10}, 11},
		{math.MaxInt64, 10, []int64{0, 1, 10, 11, 20, 21, 30, 31}, 0},
	} {
		due, next := dueTimers(t, s, c.now, c.limit)
		if c.next == 0 && c.now < 0 {
			c.next = 0 // the first of all timers
		}
		if !slices.Equal(due, c.due) || next != c.next {
			t.Errorf("at %d, %d at most: %v, next %d; want %v, %d", c.now, c.limit, due, next, c.due, c.next)
		}
	}
	timers, _, _ := s.DueTimers(context.Background(), 1, 10)
	want := machine.Timer{Namespace: 1, Due: 1, RunID: runID(1), Kind: machine.TimerStep, Step: 1, Turn: 7}
	if len(timers) != 2 || timers[1] != want {
		t.Fatalf("%+v, want %+v", timers, want)
	}
}

// TestMovedTimerStays: a timer that a batch clears and sets exists afterwards, even if its time is unchanged.
func TestMovedTimerStays(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	b := startBatch(runID(1), "")
	timer := machine.Timer{Due: 50, RunID: runID(1), Kind: machine.TimerWall}
	b.TimersSet = []machine.Timer{timer}
	mustCommit(t, s, b)
	again := timerBatch(b.State, []machine.Timer{timer}, []machine.Timer{timer})
	mustCommit(t, s, again)
	moved := timer
	moved.Due = 60
	mustCommit(t, s, timerBatch(again.State, []machine.Timer{moved}, []machine.Timer{timer}))
	if due, next := dueTimers(t, s, 55, 10); due != nil || next != 60 {
		t.Fatalf("%v, %d", due, next)
	}
}

// TestWatermarkNeverHidesATimer: a scan finds exactly the live timers that are due, for any order of sets,
// clears, scans and restarts.
func TestWatermarkNeverHidesATimer(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		w := &timerWalk{t: t, rnd: rand.New(rand.NewPCG(seed, 9)), s: openTemp(t), now: 1000, live: make(map[int64]bool)}
		start := startBatch(runID(1), "")
		mustCommit(t, w.s, start)
		w.st = start.State
		for range 60 {
			w.step()
		}
		// The heads of runs do not contain these timers, so the check fails at the first one. It must not
		// fail because of the watermark.
		if _, err := w.s.Check(t.Context(), nil); err != nil {
			if fault, ok := errors.AsType[*check.Fault](err); !ok || strings.HasPrefix(fault.Detail, "due at") {
				t.Fatal(err)
			}
		}
	}
}

// timerWalk sets, clears and scans timers at random, and knows the live timers.
type timerWalk struct {
	t    *testing.T
	rnd  *rand.Rand
	s    *Store
	st   *machine.State
	now  int64
	live map[int64]bool
}

func (w *timerWalk) step() {
	w.t.Helper()
	switch w.rnd.IntN(10) {
	case 0:
		w.s = reopen(w.t, w.s)
	case 1:
		raiseMarks(w.t, w.s)
	case 2, 3:
		w.now += w.rnd.Int64N(3 * watermarkSlack)
	case 4, 5, 6:
		due := w.now + w.rnd.Int64N(6*watermarkSlack) - 2*watermarkSlack
		w.commit([]machine.Timer{{Due: due, RunID: runID(1), Kind: machine.TimerWall}}, nil)
		w.live[due] = true
	default:
		w.scan()
	}
}

func (w *timerWalk) commit(set, cleared []machine.Timer) {
	w.t.Helper()
	b := timerBatch(w.st, set, cleared)
	mustCommit(w.t, w.s, b)
	w.st = b.State
}

// scan checks that a scan returns exactly the live timers that are due, and clears the first of them.
func (w *timerWalk) scan() {
	w.t.Helper()
	var want []int64
	for due := range w.live {
		if due <= w.now {
			want = append(want, due)
		}
	}
	slices.Sort(want)
	got, _ := dueTimers(w.t, w.s, w.now, 1000)
	if !slices.Equal(got, want) {
		w.t.Fatalf("at %d: %v, want %v", w.now, got, want)
	}
	if len(got) > 0 {
		w.commit(nil, []machine.Timer{{Due: got[0], RunID: runID(1), Kind: machine.TimerWall}})
		delete(w.live, got[0])
	}
}

// raiseMarks stores the present watermarks, as the committer does from time to time.
func raiseMarks(t testing.TB, s *Store) {
	t.Helper()
	if err := s.write(context.Background(), &Writes{entry: -1, flushWatermarks: true}); err != nil {
		t.Fatal(err)
	}
}

// TestTimerBelowTheStoredMark: a timer below the stored watermark is found after a crash, because its commit
// lowers the watermark.
func TestTimerBelowTheStoredMark(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	start := startBatch(runID(1), "")
	start.TimersSet = []machine.Timer{{Due: 10 * watermarkSlack, RunID: runID(1), Kind: machine.TimerWall}}
	mustCommit(t, s, start)
	cleared := timerBatch(start.State, nil, start.TimersSet)
	mustCommit(t, s, cleared)
	dueTimers(t, s, 10*watermarkSlack, 1)
	raiseMarks(t, s)
	due := 5 * watermarkSlack
	mustCommit(t, s, timerBatch(cleared.State, []machine.Timer{{Due: due, RunID: runID(1), Kind: machine.TimerWall}}, nil))
	crashed := openTemp(t, func(o *Options) { o.Dir = copyStore(t, s) })
	if low := crashed.watermarks.get(layout.QueueID{Kind: layout.TimerQueue}).low; low != due-watermarkSlack {
		t.Errorf("the first scan starts at %d, want %d", low, due-watermarkSlack)
	}
	if got, _ := dueTimers(t, crashed, 10*watermarkSlack, 10); !slices.Equal(got, []int64{due}) {
		t.Fatalf("%v, want %d", got, due)
	}
}

// TestTimersSetDuringScans: all timers that are set during scans are found at the end, and cleared timers
// never come back.
func TestTimersSetDuringScans(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	const runs, each = 8, 50
	var wg sync.WaitGroup
	for n := range runs {
		wg.Go(func() {
			b := startBatch(runID(n), "")
			mustCommit(t, s, b)
			for i := range each {
				due := int64(rand.IntN(1000))*runs*each + int64(n*each+i)
				b = timerBatch(b.State, []machine.Timer{{Due: due, RunID: runID(n), Kind: machine.TimerWall, Turn: b.State.Seq}}, nil)
				mustCommit(t, s, b)
			}
		})
	}
	stop := make(chan struct{})
	var scans sync.WaitGroup
	for range 2 {
		scans.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					dueTimers(t, s, math.MaxInt64, 5)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	scans.Wait()
	if due, _ := dueTimers(t, s, math.MaxInt64, 10*runs*each); len(due) != runs*each {
		t.Fatalf("%d of %d timers found", len(due), runs*each)
	}
}

// TestScanSkipsTheDead: a scan after many cleared timers starts above them.
func TestScanSkipsTheDead(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	b := startBatch(runID(1), "")
	mustCommit(t, s, b)
	for due := range int64(200) {
		b = timerBatch(b.State, []machine.Timer{{Due: due, RunID: runID(1), Kind: machine.TimerWall}}, nil)
		mustCommit(t, s, b)
		b = timerBatch(b.State, nil, b.TimersSet)
		mustCommit(t, s, b)
	}
	dueTimers(t, s, 500, 10)
	if low := s.watermarks.get(layout.QueueID{Kind: layout.TimerQueue}).low; low != 199 {
		t.Fatalf("the next scan starts at %d", low)
	}
	set := timerBatch(b.State, []machine.Timer{{Due: 100, RunID: runID(1), Kind: machine.TimerWall}}, nil)
	mustCommit(t, s, set)
	if due, _ := dueTimers(t, s, 500, 10); !slices.Equal(due, []int64{100}) {
		t.Fatalf("a timer below the watermark: %v", due)
	}
}

// TestOutboxOfANamespace: rows of another namespace that are due earlier take no place of a namespace's own rows.
func TestOutboxOfANamespace(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	for ns := range uint32(2) {
		b := startBatch(runID(int(ns)), "")
		b.State.Namespace = ns
		for i := range uint32(3) {
			b.OutboxAdded = append(b.OutboxAdded, machine.OutboxRow{Kind: machine.OutboxStep, Due: int64(9 - ns), RunID: b.State.RunID, Step: i + 1, Attempt: 1})
		}
		mustCommit(t, s, b)
	}
	for ns, want := range []int{2, 2, 0} {
		rows, err := s.OutboxOf(ctx, uint32(ns), machine.OutboxStep, 9, 2)
		if err != nil || len(rows) != want {
			t.Errorf("of namespace %d: %+v, %v", ns, rows, err)
		}
		for _, row := range rows {
			if row.Namespace != uint32(ns) || row.RunID != runID(ns) {
				t.Errorf("of namespace %d: %+v", ns, row)
			}
		}
	}
	if rows, err := s.Outbox(ctx, machine.OutboxStep, 9, 4); err != nil || len(rows) != 4 || rows[2].Namespace != 1 || rows[3].Namespace != 0 {
		t.Errorf("of all: %+v, %v", rows, err)
	}
}

func TestOutboxAndReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openTemp(t))
	ctx := context.Background()
	w.live(runID(1))
	w.start(runID(2))
	w.start(runID(3))
	rows, err := w.store.Outbox(ctx, machine.OutboxStep, math.MaxInt64, 10)
	if err != nil || len(rows) != 1 || rows[0].RunID != runID(1) || rows[0].Step != 2 || rows[0].Attempt != 1 {
		t.Fatalf("%+v, %v", rows, err)
	}
	for _, c := range []struct {
		kind machine.OutboxKind
		now  int64
		max  int
	}{{machine.OutboxDelegation, math.MaxInt64, 10}, {machine.OutboxStep, testTime - 1, 10}, {machine.OutboxStep, math.MaxInt64, 0}} {
		if rows, err := w.store.Outbox(ctx, c.kind, c.now, c.max); err != nil || len(rows) != 0 {
			t.Errorf("%+v: %+v, %v", c, rows, err)
		}
	}
	var ready []string
	for after := ""; ; {
		page, err := w.store.ReadyRuns(ctx, 0, after, 2)
		if err != nil || len(page) > 2 {
			t.Fatal(page, err)
		}
		if len(page) == 0 {
			break
		}
		ready, after = append(ready, page...), page[len(page)-1]
	}
	if want := []string{runID(1), runID(2), runID(3)}; !slices.Equal(ready, want) {
		t.Fatalf("ready %v, want %v", ready, want)
	}
	w.end(runID(2))
	if ready, err := w.store.ReadyRuns(ctx, 0, "", 10); err != nil || slices.Contains(ready, runID(2)) {
		t.Fatalf("an ended run is ready: %v, %v", ready, err)
	}
	w.check()
}

// BenchmarkDueTimers scans for due timers after many cleared ones.
func BenchmarkDueTimers(b *testing.B) {
	s := openTemp(b)
	batch := startBatch(runID(1), "")
	mustCommit(b, s, batch)
	for i := range 300 {
		var timers []machine.Timer
		for j := range 1000 {
			timers = append(timers, machine.Timer{Due: int64(i*1000 + j), RunID: fmt.Sprint(j), Kind: machine.TimerWall})
		}
		batch = timerBatch(batch.State, timers, nil)
		mustCommit(b, s, batch)
		batch = timerBatch(batch.State, nil, timers)
		mustCommit(b, s, batch)
	}
	for b.Loop() {
		if due, _ := dueTimers(b, s, testTime, 100); len(due) != 0 {
			b.Fatal(due)
		}
	}
}
