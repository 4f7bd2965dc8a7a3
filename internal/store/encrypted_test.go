package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/badgerengine"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/test/testkit/damage"
)

var (
	oldKey = []byte("0123456789abcdef0123456789abcdef")
	newKey = []byte("fedcba9876543210")
)

func encrypted(o *Options) { o.EncryptionKey = oldKey }

// openWith opens a directory with a key, and closes it again if it opens.
func openWith(dir string, key []byte) error {
	s, err := Open(Options{Dir: dir, MinFree: 1, MemTableSize: 8 << 20, EncryptionKey: key})
	if err == nil {
		err = s.Close()
	}
	return err
}

// filesWithText counts the files of a directory that hold any of the texts.
func filesWithText(t *testing.T, dir string, texts ...string) (in []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		err := datadir.WithFile(dir, f.Name(), func(data []byte) error {
			for _, text := range texts {
				if bytes.Contains(data, []byte(text)) {
					in = append(in, f.Name()+" has "+text)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return in
}

// TestNothingReadableOnDisk: values, names, labels and blobs, small and large, in logs, in
// tables and in value logs are in no file of the directory; without a key they are.
func TestNothingReadableOnDisk(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("kumquat-", 4000)
	texts := []string{"kumquat-", "3 passed", "codegen", "please", "report"}
	for name, change := range map[string]func(*Options){"encrypted": encrypted, "plain": func(*Options) {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openTemp(t, change)
			w := newWorld(t, s)
			if _, err := s.PutPack(context.Background(), 0, putOf("codegen", "1.0.0", true)); err != nil {
				t.Fatal(err)
			}
			w.live(runID(1))
			w.do(runID(1), machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: []byte(large)}}})
			putBlob(t, s, "one", testTime, large)
			open := filesWithText(t, s.opts.Dir, texts...)
			w.store = reopen(t, s)
			w.check()
			closed := filesWithText(t, s.opts.Dir, texts...)
			if name == "plain" {
				if len(open) < len(texts) {
					t.Fatalf("without a key the look finds only %v", open)
				}
				return
			}
			if len(open)+len(closed) > 0 {
				t.Fatalf("readable: %v, after a restart %v", open, closed)
			}
		})
	}
}

// TestKeyAndDirectoryBelongTogether: every other pair is refused in words, and nothing is
// changed.
func TestKeyAndDirectoryBelongTogether(t *testing.T) {
	t.Parallel()
	made := map[string]string{}
	for name, change := range map[string]func(*Options){"encrypted": encrypted, "plain": func(*Options) {}} {
		w := newWorld(t, openTemp(t, change))
		w.live(runID(1))
		made[name] = copyStore(t, w.store)
	}
	for _, c := range []struct {
		dir    string
		key    []byte
		reason string
	}{
		{"encrypted", nil, datadir.KeyMissing},
		{"encrypted", newKey, datadir.KeyWrong},
		{"plain", oldKey, datadir.KeyUnexpected},
	} {
		dir := copyDir(t, made[c.dir], "other-"+c.reason)
		before := digest(t, dir)
		err := openWith(dir, c.key)
		if fault, ok := errors.AsType[*datadir.KeyError](err); !ok || fault.Reason != c.reason || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s with key %q: %v", c.dir, c.key, err)
		}
		if !maps.Equal(before, digest(t, dir)) {
			t.Errorf("%s with key %q: the directory was changed", c.dir, c.key)
		}
	}
	if err := openWith(t.TempDir(), []byte("short")); err == nil || !strings.Contains(err.Error(), "16, 24 or 32") {
		t.Errorf("a key of 5 bytes: %v", err)
	}
}

// TestRotate: after it the new key opens and the old one does not, under many data keys,
// and everything is there.
func TestRotate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openTemp(t, encrypted, func(o *Options) { o.DataKeyAge = time.Second }))
	for n := range 3 {
		w.live(runID(n))
		// The next opening makes files of its own, under a key of its own.
		awaitSecond()
		w.store = reopen(t, w.store)
	}
	before := w.check()
	dir := w.store.opts.Dir
	if keys := dataKeys(t, dir); keys < 3 {
		t.Fatalf("%d data keys", keys)
	}
	if err := badgerengine.RotateKey(dir, oldKey, newKey); !errors.Is(err, datadir.ErrLocked) {
		t.Fatalf("of an open store: %v", err)
	}
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		from, to []byte
		want     error
	}{
		{newKey, oldKey, badgerengine.ErrSameKey}, {oldKey, oldKey, badgerengine.ErrSameKey}, {oldKey, newKey, nil}, {oldKey, newKey, badgerengine.ErrSameKey},
	} {
		if err := badgerengine.RotateKey(dir, step.from, step.to); !errors.Is(err, step.want) {
			t.Fatalf("%q to %q: %v", step.from, step.to, err)
		}
	}
	var fault *datadir.KeyError
	if err := openWith(dir, oldKey); !errors.As(err, &fault) || fault.Reason != datadir.KeyWrong {
		t.Fatalf("the old key: %v", err)
	}
	w.store = openTemp(t, func(o *Options) { o.Dir, o.EncryptionKey = dir, newKey })
	if after := w.check(); after != before {
		t.Fatalf("before %+v, after %+v", before, after)
	}
}

// awaitSecond waits until Badger's clock, which counts seconds, has gone on by one.
func awaitSecond() {
	for began := time.Now().Unix(); time.Now().Unix() <= began+1; {
		<-time.After(10 * time.Millisecond)
	}
}

func dataKeys(t *testing.T, dir string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, datadir.RegistryName))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for at := 28; at < len(data); n++ {
		at += 8 + int(binary.BigEndian.Uint32(data[at:]))
	}
	return n
}

// TestDataKeyCutShort: a crash while a data key was being added leaves a part of it that
// Badger refuses; nothing was written under it, so it goes.
func TestDataKeyCutShort(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openTemp(t, encrypted))
	w.live(runID(1))
	before := w.check()
	for _, part := range [][]byte{{0}, {0, 0, 0, 60, 1, 2}, append([]byte{0, 0, 0, 60, 1, 2, 3, 4}, "half of a key"...), make([]byte, 100)} {
		dir := copyStore(t, w.store)
		file, err := os.OpenFile(filepath.Join(dir, datadir.RegistryName), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write(part); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		again := &world{t: t, store: openTemp(t, encrypted, func(o *Options) { o.Dir = dir }), graph: w.graph, runs: w.runs}
		if after := again.check(); after != before {
			t.Fatalf("%x: before %+v, after %+v", part, before, after)
		}
	}
}

// TestHeaderOfAnEncryptedLog: every checksum holds where the header of a log was changed,
// and what is read is noise; each is found before anything is served.
func TestHeaderOfAnEncryptedLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openTemp(t, encrypted))
	w.live(runID(1))
	putBlob(t, w.store, "one", testTime, strings.Repeat("x", 40<<10))
	w.store = reopen(t, w.store)
	putBlob(t, w.store, "two", testTime, strings.Repeat("y", 40<<10))
	whole := copyStore(t, w.store)
	logs, err := filepath.Glob(filepath.Join(whole, "*.vlog"))
	if err != nil || len(logs) < 2 {
		t.Fatalf("%v, %v", logs, err)
	}
	more, err := filepath.Glob(filepath.Join(whole, "*.mem"))
	if err != nil || len(more) == 0 {
		t.Fatalf("%v, %v", more, err)
	}
	if err := openWith(copyDir(t, whole, "whole"), oldKey); err != nil {
		t.Fatal(err)
	}
	for _, path := range append(logs, more...) {
		for _, at := range []int64{0, 7, 8, 13, 19} {
			dir := copyDir(t, whole, fmt.Sprintf("%s-%d", filepath.Base(path), at))
			if err := damage.Flip(filepath.Join(dir, filepath.Base(path)), at); err != nil {
				t.Fatal(err)
			}
			if err := openWith(dir, oldKey); !errors.Is(err, layout.ErrDamaged) {
				t.Errorf("byte %d of %s: %v", at, filepath.Base(path), err)
			}
		}
		dir := copyDir(t, whole, filepath.Base(path)+"-plain")
		if err := overwrite(filepath.Join(dir, filepath.Base(path)), 0, make([]byte, datadir.LogHeader)); err != nil {
			t.Fatal(err)
		}
		if err := openWith(dir, oldKey); !errors.Is(err, layout.ErrDamaged) {
			t.Errorf("no header of %s: %v", filepath.Base(path), err)
		}
	}
}

// overwrite writes into a file.
func overwrite(file string, at int64, data []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, at)
	return errors.Join(err, f.Close())
}

// TestRegistryIsMissed: without its file of data keys an encrypted directory is damaged,
// and not a new one.
func TestRegistryIsMissed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openTemp(t, encrypted))
	w.live(runID(1))
	for name, hurt := range map[string]func(path string) error{
		"deleted": os.Remove,
		"cut":     func(path string) error { return os.Truncate(path, 20) },
		"no keys": func(path string) error { return os.Truncate(path, 28) },
		"a key":   func(path string) error { return damage.Flip(path, 40) },
		"another": func(path string) error {
			reg, err := badger.OpenKeyRegistry(badger.KeyRegistryOptions{InMemory: true})
			return errors.Join(err, badger.WriteKeyRegistry(reg, badger.KeyRegistryOptions{Dir: filepath.Dir(path)}))
		},
	} {
		dir := copyStore(t, w.store)
		if err := hurt(filepath.Join(dir, datadir.RegistryName)); err != nil {
			t.Fatal(err)
		}
		before := digest(t, dir)
		if err := openWith(dir, oldKey); !errors.Is(err, layout.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if !maps.Equal(before, digest(t, dir)) {
			t.Errorf("%s: the directory was changed", name)
		}
	}
}
