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
	"github.com/pawl-dev/pawl/internal/store/inspect"
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
			for n := range 20 {
				secret := []byte(`"` + strings.Repeat(fmt.Sprintf("walnut%02d", n+1), 4<<10) + `"`)
				w.live(runID(n + 1))
				w.do(runID(n+1), machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: secret}}})
				w.end(runID(n + 1))
			}
			first, after := w.backup("")
			for n := range 19 {
				w.delete(runID(n + 1))
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
			if in := finds(t, dir, "walnut01", "walnut19"); len(in) > 0 {
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

// TestCompactIsBrokenOff: wherever a call ended, the directory holds what it held, and the
// next call removes what was begun, and nothing else.
func TestCompactIsBrokenOff(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := travelWorld(t)
	want := rows(t, w.store)
	dir := w.store.opts.Dir
	graphs := func(*Store) check.Graphs { return w.graphs }
	if _, err := Compact(ctx, compacting(dir, nil), "", graphs); !errors.Is(err, inspect.ErrLocked) {
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
		"beside the swap": func() error { return os.CopyFS(next, os.DirFS(dir)) },
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
	var refusal *machine.Refusal
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
