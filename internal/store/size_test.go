package store

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/badgerengine"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// allocated is what the files of a directory take on disk.
func allocated(t testing.TB, dir string) int64 {
	t.Helper()
	var n int64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				n += info.Sys().(*syscall.Stat_t).Blocks * 512
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a compaction has deleted it
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDiskIsProportionalToWhatWasWritten: a run of 800 transitions that appends
// 2 KB of random bytes at each takes less than twice that, everything included.
func TestDiskIsProportionalToWhatWasWritten(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	b := startBatch(runID(1), "")
	mustCommit(t, s, b)
	const transitions, size = 800, 2048
	for range transitions {
		value := make([]byte, size)
		rand.Read(value)
		b = eventBatch(b.State, value)
		mustCommit(t, s, b)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	flatten(t, s.opts)
	ratio := float64(allocated(t, s.opts.Dir)) / (transitions * size)
	t.Logf("allocated / written = %.2f", ratio)
	if ratio > 2 {
		t.Errorf("allocated / written = %.2f", ratio)
	}
	again := openTemp(t, func(o *Options) { o.Dir = s.opts.Dir })
	if report, err := again.Check(t.Context(), nil); err != nil || report.Records != transitions+1 {
		t.Fatalf("%+v, %v", report, err)
	}
}

// TestKeysPerTransition: a transition with one artifact and an event id writes
// two keys, whatever the length of its run; every 16th writes the head and the versions
// of the artifact too, every 256th a checkpoint.
func TestKeysPerTransition(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	for _, seq := range []uint64{2, 14, 15, 16, 100, 254, 255, 20_000} {
		w, err := s.Encode(eventBatch(&machine.State{RunID: runID(1), Seq: seq, TotalVisits: int(seq), Status: machine.Running}, []byte("value")))
		if err != nil {
			t.Fatal(err)
		}
		want := "jd"
		switch {
		case (seq+1)%layout.CheckpointEvery == 0:
			want = "jhkad"
		case (seq+1)%layout.HeadEvery == 0:
			want = "jhad"
		}
		kinds := ""
		for _, op := range w.Ops() {
			kinds += string(op.Key[:1])
		}
		if kinds != want || w.Bytes() == 0 {
			t.Errorf("after seq %d: %s, want %s", seq, kinds, want)
		}
	}
}

// flatten brings a closed store into its smallest form, as its own compactions do in
// time: all tables in one level, without what was overwritten.
func flatten(t *testing.T, opts Options) {
	t.Helper()
	dir, err := badgerengine.OpenOld(opts.directory())
	if err != nil {
		t.Fatal(err)
	}
	dir.Release(dir.Last())
	if err := errors.Join(dir.Badger().Flatten(1), dir.CloseFiles(), dir.Unlock()); err != nil {
		t.Fatal(err)
	}
}
