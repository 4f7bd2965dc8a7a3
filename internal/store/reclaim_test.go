package store

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// fill makes ended runs that write values of these sizes.
func (w *world) fill(from, runs int, sizes ...int) {
	w.t.Helper()
	rnd := rand.NewChaCha8([32]byte{byte(from)})
	for n := from; n < from+runs; n++ {
		w.start(runID(n))
		for _, size := range sizes {
			value := make([]byte, size)
			_, _ = rnd.Read(value)
			for i := range value {
				value[i] = ' ' + value[i]%94
			}
			w.do(runID(n), machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: value}}})
		}
		w.end(runID(n))
	}
}

// TestDiskShrinks: of a store most of whose runs were deleted the files shrink, while it
// goes on working and when it is opened again, and what is left is in order.
func TestDiskShrinks(t *testing.T) {
	t.Parallel()
	if raced {
		t.Skip("Badger itself races here")
	}
	const runs, kept = 600, 50
	quick := func(o *Options) { o.GCInterval = 50 * time.Millisecond }
	w := newWorld(t, openTemp(t, quick))
	dir := w.store.opts.Dir
	// On either side of what lies in the value log, of which one file is full.
	w.fill(0, runs, 12<<10, 12<<10, 60<<10, 60<<10)
	full := allocated(t, dir)
	for n := range runs - kept {
		w.delete(runID(n))
	}
	deleted := allocated(t, dir)
	// Removals lie in memory until work goes on; it need not be much.
	next := runs
	shrunk := func(most int64) func() bool {
		return func() bool {
			w.fill(next, 10, 12<<10, 12<<10)
			next += 10
			return allocated(t, dir) < most
		}
	}
	waitFor(t, "the directory shrinks while it serves", shrunk(full/2))
	t.Logf("full %d MiB, deleted %d MiB, serving on %d MiB with %d runs", full>>20, deleted>>20, allocated(t, dir)>>20, kept+next-runs)
	for n := runs; n < next; n++ {
		w.delete(runID(n))
	}
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	w.store = openTemp(t, quick, func(o *Options) { o.Dir = dir })
	waitFor(t, "the directory shrinks after a start", func() bool { return allocated(t, dir) < full/5 })
	t.Logf("opened again %d MiB with %d runs", allocated(t, dir)>>20, kept)
	w.check()
	if n, err := w.store.CountRuns(context.Background(), 0, []machine.Status{machine.Cancelled}); n != kept || err != nil {
		t.Errorf("%d runs, %v", n, err)
	}
}

// TestCloseWhileACompactionIsHeld: a compaction for what was removed is held for as long as the
// disk is nearly full. It keeps the store from no other chore meanwhile, and from no close.
func TestCloseWhileACompactionIsHeld(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	w := newWorld(t, openTemp(t, func(o *Options) { o.Dir = dir }))
	w.fill(0, 200, 12<<10, 12<<10, 12<<10, 12<<10)
	for n := range 150 {
		w.delete(runID(n))
	}
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	var begun, held, full atomic.Bool
	var chores atomic.Int64
	s, err := Open(Options{
		Dir: dir, MemTableSize: 8 << 20, MinFree: 1, GCInterval: 50 * time.Millisecond, MarkInterval: 10 * time.Millisecond,
		FreeSpace: func(string) (int64, error) {
			switch caller := string(debug.Stack()); {
			case strings.Contains(caller, "worthIt"):
				begun.Store(true)
			case strings.Contains(caller, "AwaitSpace") && begun.Load():
				held.Store(true)
				return 0, nil
			case strings.Contains(caller, "(*maintenance).finishRemovals") && held.Load():
				chores.Add(1)
			}
			if full.Load() {
				return 0, nil
			}
			return 1 << 40, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.ReplayWith(replayTest)
	w.store = s
	for n := 1000; !held.Load() && n < 3000; n += 10 {
		w.fill(n, 10, 12<<10, 12<<10)
	}
	waitFor(t, "a compaction waits for room", held.Load)
	waitFor(t, "other chores are done", func() bool { return chores.Load() > 2 })
	full.Store(true)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	waitFor(t, "the store is closed", func() bool { return len(closed) > 0 })
	if err := <-closed; reasonOf(err) != "DISK_LOW" {
		t.Errorf("closed without flushing: %v", err)
	}
}
