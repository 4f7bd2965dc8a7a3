package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A crash between the creation of a log and its first byte leaves an empty file.
func TestOpenAfterACrashInTheBirthOfALog(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	before := w.check()
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	empty := emptyLog(t, w.store.opts.Dir)
	w.store = openTemp(t, func(o *Options) { o.Dir = w.store.opts.Dir })
	if after := w.check(); after != before {
		t.Fatalf("before %+v, after %+v", before, after)
	}
	if _, err := os.Stat(empty); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the empty log is still there: %v", err)
	}
}

// The new log of a living process may be empty for a moment; it is its own.
func TestEmptyLogOfALivingProcessIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	empty := emptyLog(t, w.store.opts.Dir)
	if _, err := Open(w.store.opts); !errors.Is(err, ErrLocked) {
		t.Fatalf("opened a directory in use: %v", err)
	}
	if _, err := os.Stat(empty); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(empty); err != nil {
		t.Fatal(err)
	}
}

func emptyLog(t *testing.T, dir string) string {
	t.Helper()
	file := filepath.Join(dir, "09999.mem")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
