package datadir

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestLockEndsWithTheClose: a released lock can be taken again, even if a copy of its file descriptor is
// open. A program that is being started has such a copy.
func TestLockEndsWithTheClose(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	duplicate, err := unix.Dup(int(lock.dir.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(duplicate)
	if _, err := LockDir(dir); err == nil {
		t.Fatal("two have the lock")
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
}
