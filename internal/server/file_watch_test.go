package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestFileWatch: a change is reported once, at the second look that finds the same files. Files that are as they were
// read are not reported, also after other changes in between.
func TestFileWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "data", "file")
	version := func(name, content string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, name, "file")
		if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(at, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	link := func(name string) {
		next := filepath.Join(dir, "next")
		if err := os.Symlink(name, next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, "data")); err != nil {
			t.Fatal(err)
		}
	}
	version("v1", "a")
	version("v2", "b")
	link("v1")
	w := &fileWatch{}
	w.follow([]string{path, filepath.Join(dir, "missing")})
	look := func(want bool, what string) {
		t.Helper()
		if w.changed() != want {
			t.Errorf("%s: changed is not %v", what, want)
		}
	}
	look(false, "nothing")
	link("v2") // another file with the same size and time
	look(false, "the first look")
	look(true, "the second look")
	look(false, "reported already")
	link("v1")
	look(false, "a swap")
	link("v2")
	look(false, "and back")
	look(false, "as it was read")
	if err := os.Chmod(filepath.Join(dir, "v2", "file"), 0o640); err != nil {
		t.Fatal(err)
	}
	look(false, "a mode, the first look")
	w.begin()
	look(false, "read by a signal")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	look(false, "removed, the first look")
	w.follow([]string{path, filepath.Join(dir, "v1", "file")})
	look(true, "removed, the second look, with a longer list")
	var none *fileWatch
	if none.begin(); none.changed() {
		t.Error("a watch of pipes reports a change")
	}
}
