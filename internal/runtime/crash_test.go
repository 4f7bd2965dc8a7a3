package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
	"github.com/pawl-dev/pawl/test/testkit"
)

// TestCrashAtEachStop kills the process at each stop of the way of a transition
// and proves that the repeat at the next process takes effect exactly once. The
// sixth stop, effects, has TestStepRestart and TestStepRestartUnclaimed; the same
// over a real store is in package server.
func TestCrashAtEachStop(t *testing.T) {
	t.Parallel()
	lost := func(*machine.Batch) testkit.Fault { return testkit.Fault{Err: machine.ErrIndeterminate} }
	stored := func(*machine.Batch) testkit.Fault {
		return testkit.Fault{Err: machine.ErrIndeterminate, Stored: true}
	}
	tests := []struct {
		stop string
		// crash sends the input and kills the process at the stop.
		crash func(r *rig, send func() error) error
		// applied: the input took effect before the crash.
		applied bool
	}{
		{"1 before the engine", func(r *rig, _ func() error) error { r.store.Crash(); return nil }, false},
		{"2 while it waits in the queue", crashQueued, false},
		{"3 after the decision, before the commit", func(r *rig, send func() error) error {
			r.store.FailCommits(lost)
			return send()
		}, false},
		{"4 in a group that was never synced", crashHeld, false},
		{"4 after the sync, before the answer", func(r *rig, send func() error) error {
			r.store.FailCommits(stored)
			return send()
		}, true},
		{"5 after the answer", func(r *rig, send func() error) error {
			err := send()
			r.store.Crash()
			return err
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.stop, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			run := r.start("s1")
			send := func() error {
				_, err := r.EmitEvent(context.Background(), runtime.EmitRequest{
					RunRef: ref(run.RunID, everyone), Event: "Again", EventID: "e1", TurnToken: run.Turn.Token,
					Artifacts: []machine.ArtifactWrite{{Name: "log", Value: []byte("1")}},
				})
				return err
			}
			if err := tt.crash(r, send); err != nil {
				wantReason(t, err, "COMMIT_UNKNOWN")
			}
			r.restart()
			if got := r.view(run.RunID).State.Transitions == 2; got != tt.applied {
				t.Fatalf("applied %v, want %v", got, tt.applied)
			}
			token := run.Turn.Token
			if !tt.applied {
				wantReason(t, send(), "TURN_TOKEN_STALE")
				turn, err := r.GetTurn(context.Background(), ref(run.RunID, everyone))
				if err != nil {
					t.Fatal(err)
				}
				token = turn.Token
			}
			again := r.emitLog(run.RunID, token)
			if again.Duplicate != tt.applied {
				t.Fatalf("the repeat is a duplicate: %v", again.Duplicate)
			}
			if s := r.view(run.RunID).State; s.Transitions != 2 || s.TotalVisits != 2 || r.artifact(run.RunID, "log") != "[1]" {
				t.Fatalf("after the repeat: %+v, log %s", s, r.artifact(run.RunID, "log"))
			}
		})
	}
}

func (r *rig) emitLog(run, token string) runtime.Answer {
	r.t.Helper()
	answer, err := r.EmitEvent(context.Background(), runtime.EmitRequest{
		RunRef: ref(run, everyone), Event: "Again", EventID: "e1", TurnToken: token,
		Artifacts: []machine.ArtifactWrite{{Name: "log", Value: []byte("1")}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

// crashHeld kills the process while the input's commit waits for its sync.
func crashHeld(r *rig, send func() error) error {
	r.store.Hold()
	result := make(chan error, 1)
	go func() { result <- send() }()
	r.store.AwaitHeld(1)
	r.store.Crash()
	return <-result
}

// crashQueued kills it while the input waits behind another one.
func crashQueued(r *rig, send func() error) error {
	r.background()
	r.store.Hold()
	first := make(chan error, 1)
	go func() {
		_, err := r.SendInput(context.Background(), runtime.InputRequest{
			RunRef: ref("01J00000000000000000000001", everyone), Parts: []machine.Part{{Kind: machine.PartText, Text: "hi"}},
		})
		first <- err
	}()
	r.store.AwaitHeld(1)
	result := make(chan error, 1)
	go func() { result <- send() }()
	awaitQueue(r.t, r, "01J00000000000000000000001", 1)
	r.store.Crash()
	if err := <-first; reason(err) != "COMMIT_UNKNOWN" {
		return errors.New("the first input got " + reason(err))
	}
	return <-result
}

func TestFailureClosesTheEngine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	other := r.start("s2")
	ended := make(chan error, 1)
	go func() { ended <- r.Run(context.Background()) }()
	if err := r.Health(); err != nil {
		t.Fatal(err)
	}
	r.store.FailCommits(func(*machine.Batch) testkit.Fault { return testkit.Fault{Err: errors.New("disk on fire")} })
	_, err := r.EmitEvent(context.Background(), runtime.EmitRequest{
		RunRef: ref(run.RunID, everyone), Event: "Again", TurnToken: run.Turn.Token,
	})
	wantReason(t, err, "COMMIT_UNKNOWN")
	<-r.Failed()
	if err := <-ended; !errors.Is(err, machine.ErrIndeterminate) {
		t.Fatalf("Run ended with %v", err)
	}
	wantReason(t, r.Health(), "COMMIT_UNKNOWN")
	_, err = r.EmitEvent(context.Background(), runtime.EmitRequest{
		RunRef: ref(other.RunID, everyone), Event: "Again", TurnToken: other.Turn.Token,
	})
	wantReason(t, err, "COMMIT_UNKNOWN")
	_, err = r.RegisterPack(context.Background(), packs.RegisterRequest{
		Call: runtime.Call{Principal: everyone}, Document: []byte(loopPack),
	})
	wantReason(t, err, "COMMIT_UNKNOWN")
}

// TestRefusedCommitChangesNothing: a full disk is no crash.
func TestRefusedCommitChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	low := &machine.Error{Code: machine.CodeResourceExhausted, Reason: "DISK_LOW"}
	r.store.FailCommits(func(*machine.Batch) testkit.Fault { return testkit.Fault{Err: low} })
	send := func() (runtime.Answer, error) {
		return r.EmitEvent(context.Background(), runtime.EmitRequest{
			RunRef: ref(run.RunID, everyone), Event: "Again", EventID: "e1", TurnToken: run.Turn.Token,
		})
	}
	_, err := send()
	wantReason(t, err, "DISK_LOW")
	if r.CachedState(0, run.RunID) != nil {
		t.Fatal("the state is cached although its commit failed")
	}
	r.store.FailCommits(nil)
	answer, err := send()
	if err != nil || answer.Duplicate {
		t.Fatalf("%+v, %v", answer, err)
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	stopped := make(chan error, 1)
	go func() { stopped <- r.Run(context.Background()) }()
	r.store.Hold()
	var all sync.WaitGroup
	for i := range 5 {
		all.Go(func() {
			_, err := r.SendInput(context.Background(), runtime.InputRequest{
				RunRef: ref(run.RunID, everyone), Parts: []machine.Part{{Kind: machine.PartText, Text: fmt.Sprint(i)}},
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	r.store.AwaitHeld(1)
	awaitQueue(t, r, run.RunID, 4)
	tooShort, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Drain(tooShort); !errors.Is(err, context.Canceled) {
		t.Fatalf("Drain with inputs in flight: %v", err)
	}
	_, err := r.SendInput(context.Background(), runtime.InputRequest{RunRef: ref(run.RunID, everyone)})
	wantReason(t, err, "DRAINING")
	wantReason(t, r.Health(), "DRAINING")
	r.store.Sync()
	if err := r.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if got := inputs(t, r, run.RunID); len(got) != 5 {
		t.Fatalf("inputs %v", got)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}
