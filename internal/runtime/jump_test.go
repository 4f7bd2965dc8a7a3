package runtime_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/test/testkit"
)

// TestTheClockIsSetForwards: a timer whose time has come by the wall clock fires
// within a second, however long the loop meant to sleep.
func TestTheClockIsSetForwards(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	asked := r.emit(run.RunID, "Ask", "", run.Turn.Token)
	r.background()
	r.clock.AwaitAlarm(time.Second)
	r.clock.Jump(time.Minute)
	r.clock.Advance(time.Second)
	s, settled, err := r.WaitRun(within60(t), streams.WaitRequest{RunRef: ref(run.RunID, everyone), AfterSeq: asked.State.Seq})
	if err != nil || !settled || s.Current != "work" {
		t.Fatalf("a minute after the clock was set %+v, %v", s, err)
	}
}

// TestTheClockIsSetBack: a timer fires at its time by the wall clock, not before.
func TestTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	asked := r.emit(run.RunID, "Ask", "", run.Turn.Token)
	r.background()
	r.clock.AwaitAlarm(time.Second)
	r.clock.Jump(-time.Minute)
	for range 2 {
		r.clock.Advance(30 * time.Second)
		r.clock.AwaitAlarm(time.Second)
	}
	if s := r.view(run.RunID).State; s.Seq != asked.State.Seq {
		t.Fatalf("it fired a minute early: %s", s.Current)
	}
	r.clock.Advance(time.Minute)
	s, settled, err := r.WaitRun(within60(t), streams.WaitRequest{RunRef: ref(run.RunID, everyone), AfterSeq: asked.State.Seq})
	if err != nil || !settled || s.Current != "work" {
		t.Fatalf("%+v, %v", s, err)
	}
}

// TestAStuckTimerOutlivesASetClock: what did not go through is tried again after one
// second, although the clock was set back meanwhile.
func TestAStuckTimerOutlivesASetClock(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	tried := make(chan struct{}, 100)
	r.store.FailCommits(func(*machine.Batch) testkit.Fault {
		tried <- struct{}{}
		return testkit.Fault{Err: &machine.Error{Code: machine.CodeResourceExhausted, Reason: "DISK_LOW"}}
	})
	r.clock.Advance(2 * time.Hour)
	r.background()
	await(t, "try", tried)
	r.clock.AwaitAlarm(time.Second)
	// Its time has come by both clocks.
	r.clock.Jump(-time.Minute)
	r.store.FailCommits(nil)
	r.clock.Advance(time.Second)
	s, settled, err := r.WaitRun(within60(t), streams.WaitRequest{RunRef: ref(run.RunID, everyone)})
	if err != nil || !settled || s.Status != machine.BudgetExhausted {
		t.Fatalf("after a second %+v, %v", s, err)
	}
}

// TestWatchesBeatWhateverTheClockSays: the silence of a watch is a while, too.
func TestWatchesBeatWhateverTheClockSays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := watchAll(everyone, streams.Filter{})
	req.Follow = true
	w := r.watch(req)
	defer w.Close()
	r.clock.Jump(-time.Hour)
	beat := make(chan streams.Page, 1)
	go func() {
		page, err := w.Next(context.Background())
		if err != nil {
			t.Error(err)
		}
		beat <- page
	}()
	r.clock.AwaitAlarm(streams.DefaultHeartbeat)
	r.clock.Advance(streams.DefaultHeartbeat)
	if page := await(t, "heartbeat", beat); !page.Heartbeat {
		t.Fatalf("page %+v", page)
	}
}

func within60(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	t.Cleanup(cancel)
	return ctx
}
