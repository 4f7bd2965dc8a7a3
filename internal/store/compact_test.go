package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/test/testkit/damage"
)

func compactOptions(dir string, key []byte) Options {
	return Options{Dir: dir, EncryptionKey: key, MemTableSize: 8 << 20, MinFree: 1}
}

// TestCompact: a compacted directory is the same store, row for row, and accepts new work. A new backup can
// follow a backup from before the compaction. No file contains the removed values. An encrypted store stays
// encrypted.
func TestCompact(t *testing.T) {
	t.Parallel()
	for _, key := range [][]byte{nil, oldKey} {
		t.Run(map[bool]string{true: "plain", false: "encrypted"}[key == nil], func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			w := newWorld(t, openTemp(t, func(o *Options) { o.EncryptionKey = key }))
			for n := range 21 {
				secret := []byte(`"` + strings.Repeat(fmt.Sprintf("walnut%02d", n+1), 4<<10) + `"`)
				w.live(runID(n + 1))
				w.do(runID(n+1), machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: secret}}})
				w.end(runID(n + 1))
			}
			first, after := w.backup("")
			// The last run has the entry that was acknowledged last.
			for n := range 21 {
				if n != 19 {
					w.delete(runID(n + 1))
				}
			}
			dir := w.store.opts.Dir
			before := rows(t, w.store)
			if err := w.store.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "beside"), []byte("kept"), 0o600); err != nil {
				t.Fatal(err)
			}
			done, err := Compact(ctx, compactOptions(dir, key), "", func(*Store) check.Graphs { return w.graphs })
			if err != nil || done.After >= done.Before || done.Rows < int64(len(before)) {
				t.Fatalf("%+v, %v", done, err)
			}
			if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 1 {
				t.Errorf("beside it: %v, %v", left, err)
			}
			if beside, err := os.ReadFile(filepath.Join(dir, "beside")); err != nil || string(beside) != "kept" {
				t.Errorf("the file beside: %q, %v", beside, err)
			}
			if in := filesWithText(t, dir, "walnut01", "walnut19", "walnut21"); len(in) > 0 {
				t.Errorf("what was removed is readable: %v", in)
			}
			if in := filesWithText(t, dir, "walnut20"); (len(in) > 0) != (key == nil) {
				t.Errorf("what is there is readable in %v", in)
			}
			epoch := w.store.Epoch()
			w.store = openTemp(t, func(o *Options) { o.Dir, o.EncryptionKey = dir, key })
			if w.store.Epoch() != epoch {
				t.Error("it is another store")
			}
			checkSameRows(t, rows(t, w.store), before)
			w.live(runID(50))
			second, _ := w.backup(after)
			s, err := restored(t, first, second)
			if err != nil {
				t.Fatal(err)
			}
			sameRows(t, s, w.store)
			w.check()
		})
	}
}

// checkSameRows compares rows. It leaves out the values of watermarks, which a start may raise.
func checkSameRows(t *testing.T, got, want []layout.Op) {
	t.Helper()
	is := map[string][]byte{}
	for _, row := range got {
		is[string(row.Key)] = row.Value
	}
	for _, row := range want {
		if value, ok := is[string(row.Key)]; row.Key[0] != layout.KindWatermark && (!ok || !bytes.Equal(value, row.Value)) {
			t.Errorf("%s %q is %x, it was %x", layout.RowName(row.Key), row.Key, value, row.Value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d rows, there were %d", len(got), len(want))
	}
}

// besideSwap leaves both directories as they are just before Compact exchanges them.
func besideSwap(dir string, graphs func(*Store) check.Graphs, swap func() error) error {
	next := dir + ".compact"
	_, err := Compact(context.Background(), compactOptions(dir, nil), next, graphs)
	if err == nil {
		err = errors.Join(datadir.MarkCompaction(dir), datadir.MarkCompaction(next))
	}
	if err == nil {
		err = swap()
	}
	return err
}

// TestCompactIsBrokenOff: if Compact is aborted at any step, the directory has its content. The next call
// removes the rest of the aborted call and nothing else.
func TestCompactIsBrokenOff(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := travelWorld(t)
	want := rows(t, w.store)
	dir := w.store.opts.Dir
	graphs := func(*Store) check.Graphs { return w.graphs }
	if _, err := Compact(ctx, compactOptions(dir, nil), "", graphs); !errors.Is(err, datadir.ErrLocked) {
		t.Errorf("of a store that is open: %v", err)
	}
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	next := dir + ".compact"
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for name, leave := range map[string]func() error{
		"in its middle": func() error {
			_, err := Compact(ended, compactOptions(dir, nil), "", graphs)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("its caller left: %v", err)
			}
			if held, err := Open(compactOptions(next, nil)); !errors.Is(err, ErrFormat) {
				t.Errorf("what was begun opens: %v, %v", held, err)
			}
			return nil
		},
		"before the swap": func() error { return besideSwap(dir, graphs, func() error { return nil }) },
		"after the swap": func() error {
			return besideSwap(dir, graphs, func() error { return datadir.Swap(dir, next) })
		},
		"while the old one is removed": func() error {
			return besideSwap(dir, graphs, func() error {
				return errors.Join(datadir.Swap(dir, next), datadir.SetProgress(next, "building\n"), os.Remove(filepath.Join(next, datadir.HeadName)))
			})
		},
	} {
		if err := leave(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(next); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := Compact(ctx, compactOptions(dir, nil), "", graphs); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := os.Stat(next); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, datadir.CompactName)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the directory is marked: %v", name, err)
		}
		s, err := Open(compactOptions(dir, nil))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		checkSameRows(t, rows(t, s), want)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// A directory that Compact did not make stays.
	if err := os.Mkdir(next, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(next, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Compact(ctx, compactOptions(dir, nil), "", graphs); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("over somebody's files: %v", err)
	}
	low := compactOptions(dir, nil)
	low.FreeSpace = func(string) (int64, error) { return 1 << 10, nil }
	other := filepath.Join(t.TempDir(), "other")
	var refusal *machine.Error
	if _, err := Compact(ctx, low, other, graphs); !errors.As(err, &refusal) || refusal.Reason != "DISK_LOW" {
		t.Errorf("without room: %v", err)
	}
	if done, err := Compact(ctx, compactOptions(dir, nil), other, graphs); err != nil || done.Dir != other {
		t.Errorf("into another directory: %+v, %v", done, err)
	}
	for _, at := range []string{dir, other} {
		s, err := Open(compactOptions(at, nil))
		if err != nil {
			t.Fatal(err)
		}
		checkSameRows(t, rows(t, s), want)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCompactLeavesOtherStores: Compact does not remove a directory beside the store that no call of Compact
// left, or in which a store was changed since, even if the directory has the name that Compact uses.
func TestCompactLeavesOtherStores(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openTemp(t))
	w.start(runID(1))
	dir := w.store.opts.Dir
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	graphs := func(*Store) check.Graphs { return w.graphs }
	next := dir + ".compact"
	leaves := func(when string, is error, says string) {
		t.Helper()
		_, err := Compact(context.Background(), compactOptions(dir, nil), "", graphs)
		if is != nil && !errors.Is(err, is) || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v", when, err)
		}
		if head, err := datadir.ReadAcked(next); err != nil || head == nil {
			t.Fatalf("%s: it is gone: %v", when, err)
		}
	}
	// An aborted call has made this directory, and a store was opened in it since.
	if err := besideSwap(dir, graphs, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	w.store = openTemp(t, func(o *Options) { o.Dir = next })
	leaves("while it is open", datadir.ErrLocked, next)
	w.start(runID(2))
	leaves("while it is open, and newer", datadir.ErrLocked, next)
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	leaves("newer", nil, "is not empty")
	// The directory was compacted itself, and this compaction was aborted.
	if err := datadir.MarkCompaction(next); err != nil {
		t.Fatal(err)
	}
	leaves("newer, and marked", nil, "is newer than")
	s, err := Open(compactOptions(next, nil))
	if err != nil {
		t.Fatal(err)
	}
	if st, err := s.Head(context.Background(), 0, runID(2)); err != nil || st == nil {
		t.Errorf("the newer one has lost a run: %v", err)
	}
	if err := errors.Join(s.Close(), os.RemoveAll(next), os.CopyFS(next, os.DirFS(dir))); err != nil {
		t.Fatal(err)
	}
	// The directory is a copy that a user made.
	if err := os.Remove(filepath.Join(next, datadir.CompactName)); err != nil {
		t.Fatal(err)
	}
	leaves("a copy", nil, "is not empty")
	// The path is a link to a copy.
	other := filepath.Join(t.TempDir(), "other")
	if err := errors.Join(os.Rename(next, other), os.Symlink(other, next)); err != nil {
		t.Fatal(err)
	}
	leaves("a link", nil, "is not a directory")
}

// TestCompactThroughALink: if the path is a link, Compact compacts the directory to which it leads, and the
// link stays a link.
func TestCompactThroughALink(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openTemp(t))
	w.start(runID(1))
	w.end(runID(1))
	w.delete(runID(1))
	dir := w.store.opts.Dir
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Compact(context.Background(), compactOptions(link, nil), "", func(*Store) check.Graphs { return w.graphs }); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
	if after, err := os.Stat(dir); err != nil || os.SameFile(before, after) {
		t.Errorf("the directory is the old one: %v", err)
	}
	for _, at := range []string{link, dir} {
		if left, err := os.ReadDir(filepath.Dir(at)); err != nil || len(left) != 1 {
			t.Errorf("beside %s: %v, %v", at, left, err)
		}
	}
	w.store = openTemp(t, func(o *Options) { o.Dir = link })
	w.check()
}

// TestCompactRefusesWhatWasLost: Compact refuses a store that has lost an acknowledged group. Otherwise the
// new store would look complete.
func TestCompactRefusesWhatWasLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openTemp(t))
	for n := range 3 {
		w.start(runID(n + 1))
		w.end(runID(n + 1))
	}
	dir := w.store.opts.Dir
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	lost := filepath.Join(t.TempDir(), "lost")
	if err := os.CopyFS(lost, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	// The following deletion has no entry. So only the number of its group shows the loss.
	w.store = openTemp(t, func(o *Options) { o.Dir = dir })
	w.delete(runID(1))
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	head, err := os.ReadFile(filepath.Join(dir, datadir.HeadName))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(lost, datadir.HeadName), head, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Compact(context.Background(), compactOptions(lost, nil), "", func(*Store) check.Graphs { return w.graphs })
	if !errors.Is(err, layout.ErrDamaged) {
		t.Errorf("it was compacted: %v", err)
	}
	if s, err := Open(compactOptions(lost, nil)); err == nil {
		t.Error("it opens")
		_ = s.Close()
	}
}

// TestCopyOnAFullDisk: a command that copies a store ends with DISK_LOW when the disk becomes full, and the store stays
// as it was.
func TestCopyOnAFullDisk(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	dir := copyStore(t, w.store)
	graphs := func(*Store) check.Graphs { return w.graphs }
	for name, do := range map[string]func(opts Options, to string) error{
		"compact": func(opts Options, to string) error {
			_, err := Compact(t.Context(), opts, to, graphs)
			return err
		},
		"salvage": func(opts Options, to string) error {
			_, err := Salvage(t.Context(), opts, to, graphs)
			return err
		},
		"move": func(opts Options, to string) error {
			in := opts
			in.Dir = to
			return MoveOut(opts, func(from engine.Engine) error {
				_, err := MoveIn(t.Context(), in, from, graphs)
				return err
			})
		},
	} {
		for what, full := range map[string]func(of string) bool{
			"its disk": func(of string) bool { return of == dir },
			"new disk": func(of string) bool { return of != dir && of != filepath.Dir(dir) },
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				before, err := damage.Digest(dir, datadir.WithFile)
				if err != nil {
					t.Fatal(err)
				}
				opts := Options{Dir: dir, MemTableSize: 8 << 20, MinFree: 1 << 20, FreeSpace: func(of string) (int64, error) {
					if full(of) {
						return 1, nil
					}
					return 1 << 40, nil
				}}
				err = do(opts, filepath.Join(t.TempDir(), "new"))
				refusal, ok := errors.AsType[*machine.Error](err)
				switch low := ok && refusal.Reason == datadir.DiskLow; {
				case name == "salvage" && what == "its disk":
					if err != nil {
						t.Errorf("a salvage writes nothing there: %v", err)
					}
				case !low:
					t.Errorf("%v, want DISK_LOW", err)
				}
				after, err := damage.Digest(dir, datadir.WithFile)
				if err != nil || (what == "its disk" || name == "salvage") && !maps.Equal(before, after) {
					t.Errorf("the directory was changed: %v", err)
				}
			})
		}
	}
	s := openTemp(t, func(o *Options) { o.Dir = dir })
	if _, err := s.Check(t.Context(), w.graphs); err != nil {
		t.Error(err)
	}
}
