package store

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

func TestCommitIsReadBack(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	start := startBatch(runID(1), "req")
	first := mustCommit(t, s, start)
	event := eventBatch(start.State, []byte("hello"))
	second := mustCommit(t, s, event)
	if first.Cursor != 1 || second.Cursor != 2 || second.PrevHash != first.Hash || event.State.PrevHash != second.Hash {
		t.Fatalf("first %+v, second %+v, head %x", first, second, event.State.PrevHash)
	}
	st, err := s.Head(ctx, 0, runID(1))
	if err != nil || !reflect.DeepEqual(st, event.State) {
		t.Fatalf("head %+v, %v; want %+v", st, err, event.State)
	}
	entries, err := s.Entries(ctx, 0, runID(1), 1, machine.Page{})
	if err != nil || len(entries) != 2 {
		t.Fatalf("entries %+v, %v", entries, err)
	}
	if !reflect.DeepEqual(entries[1].Input, event.Input) || !reflect.DeepEqual(entries[1].Records, event.Records) {
		t.Fatalf("entry %+v, want %+v", entries[1], event)
	}
}

// BenchmarkCommit is the throughput of the committer: transitions with one
// artifact of 64 bytes and an event id, from 1 to 256 runs at once.
func BenchmarkCommit(b *testing.B) { benchmarkCommit(b) }

// BenchmarkCommitEncrypted is the same on an encrypted store.
func BenchmarkCommitEncrypted(b *testing.B) { benchmarkCommit(b, encrypted) }

// BenchmarkCommitErasable is the same of runs that can be erased.
func BenchmarkCommitErasable(b *testing.B) { benchmarkCommitOf(b, true) }

func benchmarkCommit(b *testing.B, change ...func(*Options)) { benchmarkCommitOf(b, false, change...) }

func benchmarkCommitOf(b *testing.B, erasable bool, change ...func(*Options)) {
	for _, runs := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("runs=%d", runs), func(b *testing.B) {
			s := openTemp(b, append(change, func(o *Options) { o.MemTableSize = 32 << 20 })...)
			states := make([]*machine.State, runs)
			for i := range states {
				start := startBatch(runID(i), "")
				start.State.Erasable = erasable
				mustCommit(b, s, start)
				states[i] = start.State
			}
			value := make([]byte, 64)
			before, worked := s.Stats(), cpuTime(b)
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for _, st := range states {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						batch := eventBatch(st, value)
						if _, err := s.Commit(context.Background(), batch); err != nil {
							b.Error(err)
							return
						}
						st = batch.State
					}
				})
			}
			wg.Wait()
			after := s.Stats()
			b.ReportMetric(float64(cpuTime(b)-worked)/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
			b.ReportMetric(float64(after.Batches-before.Batches)/float64(after.Groups-before.Groups), "batches/group")
		})
	}
}

// cpuTime is what this process has worked, in ns: it does not depend on what others do.
func cpuTime(b *testing.B) int64 {
	b.Helper()
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return use.Utime.Nano() + use.Stime.Nano()
}

// BenchmarkHeadUnderLoad reads heads while 64 runs commit: no read waits for a
// sync.
func BenchmarkHeadUnderLoad(b *testing.B) {
	s := openTemp(b, func(o *Options) { o.MemTableSize = 32 << 20 })
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 64 {
		start := startBatch(runID(i), "")
		mustCommit(b, s, start)
		wg.Go(func() {
			for st := start.State; ; {
				select {
				case <-stop:
					return
				default:
				}
				batch := eventBatch(st, make([]byte, 64))
				if _, err := s.Commit(context.Background(), batch); err != nil {
					b.Error(err)
					return
				}
				st = batch.State
			}
		})
	}
	took := make([]time.Duration, 0, 1<<16)
	for i := 0; b.Loop(); i++ {
		at := time.Now()
		if _, err := s.Head(context.Background(), 0, runID(i%64)); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(at))
	}
	close(stop)
	wg.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}
