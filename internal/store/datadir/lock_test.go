package datadir

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestLockEndsWithTheClose: a copy of the descriptor, as a program has that is just being
// started, keeps nobody out.
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
