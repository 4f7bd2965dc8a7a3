package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// TestCommitErrorIsIndeterminate: after an error of the commit itself, the outcome is unknown. The store is
// damaged and accepts no commits. The callers of the group and all waiting callers receive this error. Reads
// continue. The journal decides the outcome at the next start.
func TestCommitErrorIsIndeterminate(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk on fire")
	for name, c := range map[string]struct {
		hooks  func(fail *atomic.Bool) Hooks
		stored bool
	}{
		"before the commit": {func(fail *atomic.Bool) Hooks {
			return Hooks{BeforeCommit: func(Group) error { return ifSet(fail, broken) }}
		}, false},
		"after the commit": {func(fail *atomic.Bool) Hooks {
			return Hooks{AfterCommit: func(Group) error { return ifSet(fail, broken) }}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var fail atomic.Bool
			s, ctx := openTemp(t, func(o *Options) { o.Hooks = c.hooks(&fail) }), context.Background()
			start := startBatch(runID(1), "")
			mustCommit(t, s, start)
			fail.Store(true)
			var wg sync.WaitGroup
			for i := range 10 {
				wg.Go(func() {
					if _, err := s.Commit(ctx, startBatch(runID(10+i), "")); !errors.Is(err, machine.ErrIndeterminate) || !errors.Is(err, broken) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			<-s.Failed()
			fail.Store(false)
			if _, err := s.Commit(ctx, eventBatch(start.State, nil)); !errors.Is(err, machine.ErrIndeterminate) {
				t.Errorf("a commit after the failure: %v", err)
			}
			if _, err := s.PutPack(ctx, 0, putOf("p", "1", true)); !errors.Is(err, machine.ErrIndeterminate) {
				t.Errorf("a pack after the failure: %v", err)
			}
			if st, err := s.Head(ctx, 0, runID(1)); err != nil || st.Seq != 1 {
				t.Errorf("reads end with the failure: %+v, %v", st, err)
			}
			again := reopen(t, s)
			report, err := again.Check(ctx, nil)
			if err != nil || report.Runs < 1 || (report.Runs > 1) != c.stored {
				t.Errorf("after the restart: %+v, %v", report, err)
			}
			mustCommit(t, again, eventBatch(start.State, nil))
		})
	}
}

func ifSet(fail *atomic.Bool, err error) error {
	if fail.Load() {
		return err
	}
	return nil
}

// TestSwallowedSyncErrorIsAnError: Badger only logs a failed sync of the value log. The store returns an
// error for such a commit.
func TestSwallowedSyncErrorIsAnError(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	mustCommit(t, s, startBatch(runID(1), ""))
	dirOf(s).Log.Errorf("Error while curlf sync: %v\n", "input/output error")
	if _, err := s.Commit(context.Background(), startBatch(runID(2), "")); !errors.Is(err, machine.ErrIndeterminate) || !strings.Contains(err.Error(), "input/output error") {
		t.Fatal(err)
	}
}

// TestAnswerFollowsTheSync: the store hands a group to Badger only after the sync of the group before it. A
// caller receives its answer only after the sync of its group.
func TestAnswerFollowsTheSync(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var events []string
	note := func(what string, g Group) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, fmt.Sprintf("%d %s", g.Number, what))
	}
	var synced atomic.Int64
	s := openTemp(t, func(o *Options) {
		o.Hooks = Hooks{
			BeforeCommit: func(g Group) error { note("commit", g); return nil },
			AfterCommit:  func(g Group) error { note("synced", g); synced.Add(int64(g.Batches)); return nil },
			Answered:     func(g Group) { note("answered", g) },
		}
	})
	var answered atomic.Int64
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			if _, err := s.Commit(context.Background(), startBatch(runID(i), "")); err != nil {
				t.Error(err)
			}
			if n := answered.Add(1); n > synced.Load() {
				t.Errorf("%d callers have an answer, %d batches are synced", n, synced.Load())
			}
		})
	}
	wg.Wait()
	waitFor(t, "the last group is answered", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(events)%3 == 0
	})
	at := func(n int, what string) int { return slices.Index(events, fmt.Sprintf("%d %s", n, what)) }
	for n := 1; n <= len(events)/3; n++ {
		if at(n, "commit") < 0 || at(n, "commit") > at(n, "synced") || at(n, "synced") > at(n, "answered") {
			t.Fatalf("group %d: %v", n, events)
		}
		if n > 1 && at(n-1, "synced") > at(n, "commit") {
			t.Fatalf("groups %d and %d are in flight at once: %v", n-1, n, events)
		}
	}
}

// TestDiskLow: below the minimum of free space, new work is refused with both figures, and reads continue.
// When there is enough space again, new work is accepted.
func TestDiskLow(t *testing.T) {
	t.Parallel()
	var free atomic.Int64
	free.Store(1 << 40)
	s := openTemp(t, func(o *Options) {
		o.MinFree, o.FreeSpace = 1000, func(string) (int64, error) { return free.Load(), nil }
	})
	ctx, start := context.Background(), startBatch(runID(1), "")
	mustCommit(t, s, start)
	free.Store(999)
	dirOf(s).Disk.Forget()
	var refusal *machine.Error
	_, err := s.Commit(ctx, eventBatch(start.State, nil))
	if !errors.As(err, &refusal) || refusal.Reason != "DISK_LOW" || refusal.Code != machine.CodeResourceExhausted ||
		refusal.Limit != 1000 || refusal.Got != 999 || refusal.RetryAfter <= 0 {
		t.Fatalf("%v %+v", err, refusal)
	}
	if st, err := s.Head(ctx, 0, runID(1)); err != nil || st.Seq != 1 {
		t.Fatalf("reads end: %+v, %v", st, err)
	}
	free.Store(1000)
	dirOf(s).Disk.Forget()
	mustCommit(t, s, eventBatch(start.State, nil))
}

func TestFreeSpaceThatNobodyKnows(t *testing.T) {
	t.Parallel()
	if _, err := Open(Options{Dir: t.TempDir(), FreeSpace: func(string) (int64, error) { return 0, errors.New("no answer") }}); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Fatal(err)
	}
	if _, err := datadir.FreeSpace(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Fatal("free space of a directory that is not there")
	}
	var refusal *machine.Error
	if _, err := Open(Options{Dir: t.TempDir(), FreeSpace: func(string) (int64, error) { return 1 << 20, nil }}); !errors.As(err, &refusal) || refusal.Reason != "DISK_LOW" {
		t.Fatalf("opened without room: %v", err)
	}
}

// TestCloseWhileNothingCanBeFlushed: no memtable can be flushed, so there is no space for writers. The
// waiting writers do not block the close of the store. They receive an unknown outcome.
func TestCloseWhileNothingCanBeFlushed(t *testing.T) {
	t.Parallel()
	// The test does not use TempDir, because Badger continues to make tables while the directory is removed.
	dir, err := os.MkdirTemp("", "unflushed-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s, err := Open(Options{Dir: dir, MemTableSize: 8 << 20, MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	// Directories have the names of the tables, so that Badger cannot make them.
	for id := range 2000 {
		if err := os.MkdirAll(filepath.Join(dir, fmt.Sprintf("%06d.sst", id+1)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const writers, each = 400, 10
	value := make([]byte, 15<<10)
	answers := make(chan error, writers)
	for n := range writers {
		go func() {
			var ops []layout.Op
			for i := range each {
				ops = append(ops, layout.Op{Key: layout.PieceKey(0, [16]byte{byte(n), byte(n >> 8)}, i), Value: value})
			}
			answers <- s.put(context.Background(), ops)
		}()
	}
	waitFor(t, "a flush fails", func() bool { return len(dirOf(s).Log.Unflushed) > 0 })
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "without flushing") {
		t.Fatalf("closed: %v", err)
	}
	unknown := 0
	for range writers {
		err := <-answers
		if errors.Is(err, machine.ErrIndeterminate) {
			unknown++
		} else if err != nil && !errors.Is(err, ErrClosed) {
			t.Errorf("a writer heard %v", err)
		}
	}
	if unknown == 0 {
		t.Error("there was room for all")
	}
}

// smallDisk mounts a file system of 192 MiB, if the environment allows it.
func smallDisk(t *testing.T) (dir string, ok bool) {
	t.Helper()
	dir = t.TempDir()
	if err := exec.Command("mount", "-t", "tmpfs", "-o", "size=192m", "tmpfs", dir).Run(); err != nil {
		return "", false
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir, true
}

// TestFullDiskProcess is the process that TestFullDiskNeverKills watches. It writes until the store refuses a
// write, fills the rest of the disk, and continues to read.
func TestFullDiskProcess(t *testing.T) {
	dir := os.Getenv("PAWL_STORE_FULL_DIR")
	if dir == "" {
		t.Skip("started by TestFullDiskNeverKills only")
	}
	s, err := Open(Options{Dir: filepath.Join(dir, "db"), MemTableSize: 8 << 20, MinFree: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var refusal *machine.Error
	value := make([]byte, 64<<10)
	start := startBatch(runID(1), "")
	mustCommit(t, s, start)
	st, acked := start.State, uint64(1)
	for !errors.As(err, &refusal) {
		// Some of the values are in the value log, the others in the tree.
		rand.Read(value)
		b := eventBatch(st, value[:len(value)>>(2*(acked%2))])
		if _, err = s.Commit(context.Background(), b); err == nil {
			st, acked = b.State, b.State.Seq
		} else if !errors.As(err, &refusal) {
			t.Fatal(err)
		}
	}
	// A memtable that is being flushed needs the space that is left.
	waitFor(t, "the memtables are flushed", func() bool {
		logs, err := filepath.Glob(filepath.Join(dir, "db", "*.mem"))
		return err == nil && len(logs) == 1
	})
	fill, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = fill.Write(make([]byte, 1<<20))
	}
	for range 200 {
		if _, err := s.Commit(context.Background(), eventBatch(st, value)); !errors.As(err, &refusal) || refusal.Reason != "DISK_LOW" {
			t.Fatal(err)
		}
	}
	if entries, err := s.Entries(context.Background(), 0, runID(1), acked, machine.Page{}); err != nil || len(entries) != 1 {
		t.Fatal(len(entries), err)
	}
	fmt.Printf("acked %d, closing: %v\n", acked, s.Close())
}

// TestFullDiskNeverKills: a process survives a file system without a free byte. All acknowledged writes can
// be read afterwards.
func TestFullDiskNeverKills(t *testing.T) {
	t.Parallel()
	dir, ok := smallDisk(t)
	if !ok {
		t.Skip("mounting a small file system needs privileges; TestDiskLow covers the guard itself")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFullDiskProcess$")
	cmd.Env = append(os.Environ(), "PAWL_STORE_FULL_DIR="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var acked uint64
	at := strings.Index(string(out), "acked ")
	if _, err := fmt.Sscanf(string(out[max(at, 0):]), "acked %d", &acked); err != nil || acked < 100 {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Remove(filepath.Join(dir, "fill")); err != nil {
		t.Fatal(err)
	}
	s := openTemp(t, func(o *Options) { o.Dir = filepath.Join(dir, "db") })
	st, err := s.Head(context.Background(), 0, runID(1))
	if err != nil || st.Seq != acked {
		t.Fatalf("acknowledged up to %d, the store has %+v, %v", acked, st, err)
	}
	if _, err := s.Check(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
