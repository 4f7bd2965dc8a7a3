package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store/badgerengine"
	"github.com/pawl-dev/pawl/internal/store/datadir"
)

const testTime = 1_800_000_000_000_000_000

// openTemp opens a store and closes it at the end of the test. The store does not check the free space of the
// disk.
func openTemp(t testing.TB, change ...func(*Options)) *Store {
	t.Helper()
	opts := Options{Dir: filepath.Join(t.TempDir(), "db"), MemTableSize: 8 << 20, MinFree: 1}
	for _, c := range change {
		c(&opts)
	}
	onEngineOf(t, &opts)
	var s *Store
	var err error
	// A process that another test is starting holds our lock until its exec.
	waitFor(t, "the directory is free", func() bool {
		s, err = Open(opts)
		return !errors.Is(err, datadir.ErrLocked)
	})
	if err != nil {
		t.Fatal(err)
	}
	s.ReplayWith(replayTest)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// dirOf returns the directory of a store on Badger.
func dirOf(s *Store) *badgerengine.Directory { return s.engine.(*badgerengine.Directory) }

// replayTest computes the states of runs that a world or eventBatch drives.
func replayTest(_ context.Context, head *machine.State, tail []machine.Entry) (*machine.State, error) {
	if head.Execution == machine.Workers {
		g := loopGraph()
		g.Digest = head.Digest
		return rules.ReplayFrom(g, head, tail)
	}
	s := *head
	for i := range tail {
		b := eventBatch(&s, nil)
		s, s.PrevHash = *b.State, tail[i].Hash
	}
	return &s, nil
}

func runID(n int) string { return fmt.Sprintf("01J%023d", n) }

// startBatch starts a run in the state "plan".
func startBatch(run, request string) *machine.Batch {
	b := &machine.Batch{
		Input: machine.Input{
			At: testTime, Principal: "anonymous", ID: request,
			Command: machine.Start{RunID: run, Execution: machine.Caller, Variables: []byte(`{"goal":"x"}`)},
		},
		Records: []machine.Record{{
			Seq: 1, At: testTime, Principal: "anonymous",
			Body: &machine.Transition{To: "plan", Intended: "plan", Visit: 1, Total: 1, Cause: machine.CauseEntry},
		}},
		State: &machine.State{
			RunID: run, Digest: "sha256:00", PackID: "codegen", PackVersion: "1.0.0", Entry: "plan",
			Execution: machine.Caller, Seq: 1, CreatedAt: testTime, At: testTime, Status: machine.Running,
			Current: "plan", VisitSeq: 1, TotalVisits: 1, Transitions: 1,
			Visits: []machine.Count{{State: "plan", N: 1}}, Turn: &machine.Turn{Seq: 1, Attempt: 1},
		},
	}
	b.Index = rules.Indexes(b.State)
	if request != "" {
		b.Consumed = []machine.Dedupe{{
			Scope: machine.PerPrincipal, Kind: machine.CmdStart, Principal: "anonymous",
			RunID: run, ID: request, First: 1, Last: 1,
		}}
	}
	return b
}

// eventBatch returns a transition of a run with one artifact and the id of an event.
func eventBatch(st *machine.State, value []byte) *machine.Batch {
	next := *st
	next.Seq++
	next.At++
	next.VisitSeq, next.TotalVisits, next.Transitions = next.Seq, next.TotalVisits+1, next.Transitions+1
	next.Visits = []machine.Count{{State: "plan", N: next.TotalVisits}}
	next.Turn = &machine.Turn{Seq: next.Seq, Attempt: 1}
	next.Artifacts = []machine.ArtifactHead{{Name: "report", Type: "text/plain", Mode: machine.Append, Seq: next.Seq, Writes: next.TotalVisits - 1, Bytes: 100}}
	writes := []machine.ArtifactWrite{{Name: "report", Value: value}}
	id := fmt.Sprintf("event-%d", next.Seq)
	return &machine.Batch{
		Prev: st.Seq,
		Input: machine.Input{
			At: next.At, Principal: "anonymous", ID: id,
			Command: machine.EmitEvent{Event: "Done", Artifacts: writes},
		},
		Records: []machine.Record{{
			Seq: next.Seq, At: next.At, Principal: "anonymous",
			Body: &machine.Transition{From: "plan", Event: "Done", To: "plan", Intended: "plan", Visit: next.TotalVisits, Total: next.TotalVisits, Cause: machine.CauseEvent, Artifacts: writes},
		}},
		State: &next,
		Consumed: []machine.Dedupe{{
			Scope: machine.PerRun, Kind: machine.CmdEmitEvent, RunID: st.RunID, ID: id,
			BodyHash: [32]byte{1}, First: next.Seq, Last: next.Seq,
		}},
		Writes: []machine.ArtifactVersion{{Name: "report", Seq: next.Seq, Mode: machine.Append, Bytes: int64(len(value))}},
	}
}

func mustCommit(t testing.TB, s *Store, b *machine.Batch) machine.Committed {
	t.Helper()
	done, err := s.Commit(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// waitFor waits until the condition holds. It sleeps between its checks.
func waitFor(t testing.TB, what string, cond func() bool) {
	t.Helper()
	late, look := time.After(2*time.Minute), time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !cond() {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("never: %s", what)
		}
	}
}
