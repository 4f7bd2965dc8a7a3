package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/compact"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

func compacting(dir string, key []byte) Options {
	return Options{Dir: dir, EncryptionKey: key, MemTableSize: 8 << 20, MinFree: 1}
}

// TestCompact: a directory that was compacted is the same store, row for row, goes on, and
// a backup follows on one from before; what was removed is in no file of it. An encrypted
// one stays encrypted.
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
			// The last of them has what was acknowledged last.
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
			done, err := Compact(ctx, compacting(dir, key), "", func(*Store) check.Graphs { return w.graphs })
			if err != nil || done.After >= done.Before || done.Rows < int64(len(before)) {
				t.Fatalf("%+v, %v", done, err)
			}
			if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 1 {
				t.Errorf("beside it: %v, %v", left, err)
			}
			if beside, err := os.ReadFile(filepath.Join(dir, "beside")); err != nil || string(beside) != "kept" {
				t.Errorf("the file beside: %q, %v", beside, err)
			}
			if in := finds(t, dir, "walnut01", "walnut19", "walnut21"); len(in) > 0 {
				t.Errorf("what was removed is readable: %v", in)
			}
			if in := finds(t, dir, "walnut20"); (len(in) > 0) != (key == nil) {
				t.Errorf("what is there is readable in %v", in)
			}
			epoch := w.store.Epoch()
			w.store = openTemp(t, func(o *Options) { o.Dir, o.EncryptionKey = dir, key })
			if w.store.Epoch() != epoch {
				t.Error("it is another store")
			}
			same(t, rows(t, w.store), before)
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

// same compares rows, but for the queues' watermarks, which a start may raise.
func same(t *testing.T, got, want []layout.Op) {
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

// besideSwap leaves both directories as a call does just before it exchanges them.
func besideSwap(dir string, graphs func(*Store) check.Graphs, swap func() error) error {
	next := dir + ".compact"
	_, err := Compact(context.Background(), compacting(dir, nil), next, graphs)
	if err == nil {
		err = errors.Join(compact.Mark(dir), compact.Mark(next))
	}
	if err == nil {
		err = swap()
	}
	return err
}

// TestCompactIsBrokenOff: wherever a call ended, the directory holds what it held, and the
// next call removes what was begun, and nothing else.
func TestCompactIsBrokenOff(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := travelWorld(t)
	want := rows(t, w.store)
	dir := w.store.opts.Dir
	graphs := func(*Store) check.Graphs { return w.graphs }
	if _, err := Compact(ctx, compacting(dir, nil), "", graphs); !errors.Is(err, datadir.ErrLocked) {
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
			_, err := Compact(ended, compacting(dir, nil), "", graphs)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("its caller left: %v", err)
			}
			if held, err := Open(compacting(next, nil)); !errors.Is(err, ErrFormat) {
				t.Errorf("what was begun opens: %v, %v", held, err)
			}
			return nil
		},
		"before the swap": func() error { return besideSwap(dir, graphs, func() error { return nil }) },
		"after the swap": func() error {
			return besideSwap(dir, graphs, func() error { return compact.Swap(dir, next) })
		},
		"while the old one is removed": func() error {
			return besideSwap(dir, graphs, func() error {
				return errors.Join(compact.Swap(dir, next), datadir.SetProgress(next, "building\n"), os.Remove(filepath.Join(next, datadir.HeadName)))
			})
		},
	} {
		if err := leave(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(next); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := Compact(ctx, compacting(dir, nil), "", graphs); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := os.Stat(next); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, datadir.CompactName)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the directory is marked: %v", name, err)
		}
		s, err := Open(compacting(dir, nil))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		same(t, rows(t, s), want)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// What is not its own stays.
	if err := os.Mkdir(next, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(next, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Compact(ctx, compacting(dir, nil), "", graphs); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("over somebody's files: %v", err)
	}
	low := compacting(dir, nil)
	low.FreeSpace = func(string) (int64, error) { return 1 << 10, nil }
	other := filepath.Join(t.TempDir(), "other")
	var refusal *machine.Error
	if _, err := Compact(ctx, low, other, graphs); !errors.As(err, &refusal) || refusal.Reason != "DISK_LOW" {
		t.Errorf("without room: %v", err)
	}
	if done, err := Compact(ctx, compacting(dir, nil), other, graphs); err != nil || done.Dir != other {
		t.Errorf("into another directory: %+v, %v", done, err)
	}
	for _, at := range []string{dir, other} {
		s, err := Open(compacting(at, nil))
		if err != nil {
			t.Fatal(err)
		}
		same(t, rows(t, s), want)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCompactLeavesOtherStores: a directory beside the store that no call left, or that
// somebody has gone on with, is not removed, though it has the store's own name.
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
		_, err := Compact(context.Background(), compacting(dir, nil), "", graphs)
		if is != nil && !errors.Is(err, is) || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v", when, err)
		}
		if head, err := datadir.ReadAcked(next); err != nil || head == nil {
			t.Fatalf("%s: it is gone: %v", when, err)
		}
	}
	// One that a call made and the caller has gone on with.
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
	// It was compacted itself, and broken off.
	if err := compact.Mark(next); err != nil {
		t.Fatal(err)
	}
	leaves("newer, and marked", nil, "is newer than")
	s, err := Open(compacting(next, nil))
	if err != nil {
		t.Fatal(err)
	}
	if st, err := s.Head(context.Background(), 0, runID(2)); err != nil || st == nil {
		t.Errorf("the newer one has lost a run: %v", err)
	}
	if err := errors.Join(s.Close(), os.RemoveAll(next), os.CopyFS(next, os.DirFS(dir))); err != nil {
		t.Fatal(err)
	}
	// A copy that somebody made.
	if err := os.Remove(filepath.Join(next, datadir.CompactName)); err != nil {
		t.Fatal(err)
	}
	leaves("a copy", nil, "is not empty")
	// A link to one.
	other := filepath.Join(t.TempDir(), "other")
	if err := errors.Join(os.Rename(next, other), os.Symlink(other, next)); err != nil {
		t.Fatal(err)
	}
	leaves("a link", nil, "is not a directory")
}

// TestCompactThroughALink: what a link leads to is compacted, and the link stays one.
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
	if _, err := Compact(context.Background(), compacting(link, nil), "", func(*Store) check.Graphs { return w.graphs }); err != nil {
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

// TestCompactRefusesWhatWasLost: a store that lost a group that was acknowledged is not made
// one that looks whole.
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
	// What follows has no entry, so that only the group's number tells.
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
	_, err = Compact(context.Background(), compacting(lost, nil), "", func(*Store) check.Graphs { return w.graphs })
	if !errors.Is(err, layout.ErrDamaged) {
		t.Errorf("it was compacted: %v", err)
	}
	if s, err := Open(compacting(lost, nil)); err == nil {
		t.Error("it opens")
		_ = s.Close()
	}
}
