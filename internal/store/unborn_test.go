package store

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// TestOpenAfterACrashInTheBirthOfAFile: a crash may leave a new file of Badger or of the store without a
// byte, with its space and no content, or with its first bytes only. The store can be opened in each case. It
// makes such files at a start or when a log is full.
func TestOpenAfterACrashInTheBirthOfAFile(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	putBlob(t, w.store, "large", testTime, string(make([]byte, 20<<10)))
	before := w.check()
	killed := copyStore(t, w.store)
	content := map[string][]byte{"empty": nil, "zeros": make([]byte, 1<<20), "header": make([]byte, datadir.LogHeader), "cut": []byte("Bdg")}
	for name, births := range map[string][]string{
		"00003.mem":           {"empty", "zeros", "header", "cut"},
		"000002.vlog":         {"empty", "zeros", "header", "cut"},
		"000009.sst":          {"empty", "zeros", "cut"},
		"DISCARD":             {"empty", "zeros", "cut"},
		"KEYREGISTRY":         {"empty", "cut"},
		"MANIFEST-REWRITE":    {"empty", "cut"},
		"REWRITE-KEYREGISTRY": {"empty", "cut"},
		"HEAD.new":            {"empty", "zeros", "cut"},
		"LOCK":                {"empty", "cut"},
	} {
		for _, birth := range births {
			t.Run(name+" "+birth, func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "db")
				if out, err := exec.Command("cp", "-r", "--sparse=auto", killed, dir).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				if err := os.WriteFile(filepath.Join(dir, name), content[birth], 0o600); err != nil {
					t.Fatal(err)
				}
				mine := newWorld(t, openTemp(t, func(o *Options) { o.Dir = dir }))
				if after := mine.check(); after != before {
					t.Fatalf("before %+v, after %+v", before, after)
				}
				mine.ids = 1000
				mine.live(runID(9))
				mine.check()
			})
		}
	}
}

// TestEmptiedLogIsNotTakenForUnborn: an empty file is a fault if acknowledged data was in it. The file is not
// changed.
func TestEmptiedLogIsNotTakenForUnborn(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	putBlob(t, w.store, "large", testTime, string(make([]byte, 20<<10)))
	for _, name := range []string{"00001.mem", "000001.vlog"} {
		dir := copyStore(t, w.store)
		if err := os.Truncate(filepath.Join(dir, name), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Options{Dir: dir, MinFree: 1, MemTableSize: 8 << 20}); !errors.Is(err, layout.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() != 0 {
			t.Errorf("%s was touched: %v, %v", name, info, err)
		}
	}
}

// TestEmptyLogOfALivingProcessIsLeftAlone: the new log of a living process may be empty for a moment. Another
// process must not remove it.
func TestEmptyLogOfALivingProcessIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	empty := filepath.Join(w.store.opts.Dir, "09999.mem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(w.store.opts); !errors.Is(err, datadir.ErrLocked) {
		t.Fatalf("opened a directory in use: %v", err)
	}
	if err := os.Remove(empty); err != nil {
		t.Fatal(err)
	}
}

// TestKilledStart is the process that the following tests kill while it starts: it kills itself after a step,
// or the test kills it after it has printed that it begins.
func TestKilledStart(t *testing.T) {
	dir, step := os.Getenv("PAWL_STORE_START_DIR"), os.Getenv("PAWL_STORE_START_STEP")
	if dir == "" {
		return
	}
	opts := Options{Dir: dir, MinFree: 1, MemTableSize: 8 << 20}
	opts.Hooks.Opening = func(at string) {
		if at == step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	fmt.Println("begins")
	if _, err := Open(opts); err != nil {
		t.Fatal(err)
	}
	fmt.Println("open")
	select {}
}

// startAndKill runs TestKilledStart, and returns whether it was killed before the store was open.
func startAndKill(t *testing.T, dir, step string, after time.Duration) (inTime bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledStart$")
	cmd.Env = append(os.Environ(), "PAWL_STORE_START_DIR="+dir, "PAWL_STORE_START_STEP="+step)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inTime = true
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		switch lines.Text() {
		case "begins":
			if step == "" {
				time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
			}
		case "open":
			inTime = false
			_ = cmd.Process.Kill()
		}
	}
	if err := cmd.Wait(); cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the start ended by itself: %v", err)
	}
	return inTime
}

// TestStartKilledAtEachStep: after a start was killed at any step, the next start finds all data. This holds
// for a new directory and for a store that was killed before.
func TestStartKilledAtEachStep(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	before := w.check()
	for _, step := range []string{"locked", "inspected", "cleared", "opened", "marked", "confirmed"} {
		t.Run(step, func(t *testing.T) {
			for dir, want := range map[string]check.Report{filepath.Join(t.TempDir(), "new"): {}, copyStore(t, w.store): before} {
				if !startAndKill(t, dir, step, 0) {
					t.Fatal("the step was never reached")
				}
				if got := newWorld(t, openTemp(t, func(o *Options) { o.Dir = dir })).check(); got != want {
					t.Errorf("%s: after %+v, before %+v", dir, got, want)
				}
			}
		})
	}
}

// TestStartKilledAtAnyInstant kills starts of one directory from outside, PAWL_START_KILLS times.
func TestStartKilledAtAnyInstant(t *testing.T) {
	t.Parallel()
	kills := 12
	if n, err := strconv.Atoi(os.Getenv("PAWL_START_KILLS")); err == nil {
		kills = n
	}
	w := busyWorld(t)
	putBlob(t, w.store, "large", testTime, string(make([]byte, 20<<10)))
	before := w.check()
	dir := copyStore(t, w.store)
	inTime := 0
	for range kills {
		if startAndKill(t, dir, "", time.Duration(rand.Int64N(int64(60*time.Millisecond)))) {
			inTime++
		}
	}
	t.Logf("%d of %d starts were killed before they were done", inTime, kills)
	if got := newWorld(t, openTemp(t, func(o *Options) { o.Dir = dir })).check(); got != before {
		t.Fatalf("after %+v, before %+v", got, before)
	}
}
