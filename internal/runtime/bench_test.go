package runtime_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
)

// nullStore commits at once and keeps nothing but heads: what is measured above
// it is the engine.
type nullStore struct {
	runtime.Store
	cursor atomic.Uint64
	failed chan struct{}
}

func (s *nullStore) Commit(_ context.Context, b *machine.Batch) (machine.Committed, error) {
	return machine.Committed{Cursor: s.cursor.Add(1), PrevHash: b.State.PrevHash}, nil
}

func (s *nullStore) Failed() <-chan struct{} { return s.failed }

func benchRig(b *testing.B) *rig {
	b.Helper()
	r := newRig(b)
	r.cfg.Store = &nullStore{Store: r.store, failed: make(chan struct{})}
	r.cfg.Clock, r.cfg.IDs = runtime.SystemClock{}, runtime.NewSystemIDs()
	r.cfg.Limits.MaxTransitions = 1 << 40
	r.open()
	return r
}

// BenchmarkApplyEmit is one EmitEvent with id, token and expected_seq, without
// store: 256 runs, each with one caller.
func BenchmarkApplyEmit(b *testing.B) { benchEmit(b, nil) }

// BenchmarkApplyEmitArtifact writes a JSON artifact besides.
func BenchmarkApplyEmitArtifact(b *testing.B) {
	benchEmit(b, []machine.ArtifactWrite{{Name: "note", Value: []byte("commit 0123456789abcdef, 3 tests failed")}})
}

func benchEmit(b *testing.B, artifacts []machine.ArtifactWrite) {
	const runs = 256
	r := benchRig(b)
	started := make([]runtime.Answer, runs)
	for i := range started {
		started[i] = r.start(fmt.Sprint("s", i))
	}
	b.ReportAllocs()
	b.ResetTimer()
	var all sync.WaitGroup
	for _, run := range started {
		all.Go(func() {
			token, seq := run.Turn.Token, run.State.VisitSeq
			for i := range b.N / runs {
				answer, err := r.EmitEvent(context.Background(), runtime.EmitRequest{
					RunRef: ref(run.RunID, everyone), Event: "Again", EventID: fmt.Sprint("e", i),
					TurnToken: token, ExpectedSeq: seq, Artifacts: artifacts,
				})
				if err != nil {
					b.Error(err)
					return
				}
				token, seq = answer.Turn.Token, answer.State.VisitSeq
			}
		})
	}
	all.Wait()
}

// BenchmarkStartRun is a start with variables and an id, without store.
func BenchmarkStartRun(b *testing.B) {
	r := benchRig(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.start(fmt.Sprint("s", i))
	}
}

// BenchmarkWatch reads a journal of 10 000 transitions.
func BenchmarkWatch(b *testing.B) {
	r := newRig(b)
	run := r.start("s")
	token := run.Turn.Token
	for range 9999 {
		token = r.emit(run.RunID, "Again", "", token).Turn.Token
	}
	b.ReportAllocs()
	for b.Loop() {
		if rows := r.rest(r.watch(watchAll(everyone, streams.Filter{}))); len(rows) != 10_000 {
			b.Fatal(len(rows))
		}
	}
}
