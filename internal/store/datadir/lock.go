package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrLocked means that another process uses the data directory.
var ErrLocked = errors.New("the data directory is in use")

// DirLock prevents other processes from using a data directory, from the first inspection of its files
// until the database is closed. It replaces Badger's own lock, which is switched off. It has the same
// form as Badger's lock, so that older programs respect it.
type DirLock struct {
	dir *os.File
	// note is the path of the file with the process id. It is "" if none was written.
	note string
}

// LockDir locks a directory for this process. If another process has locked it, the error is
// [ErrLocked] with the id of that process. On a full disk, or with a used quota, the directory is locked without a note of the id, so that a
// command which frees space still works.
func LockDir(dir string) (*DirLock, error) {
	l, err := HoldDir(dir)
	if err != nil {
		return nil, err
	}
	l.note = filepath.Join(dir, "LOCK")
	if err := os.WriteFile(l.note, fmt.Appendln(nil, os.Getpid()), 0o600); err != nil && !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return nil, errors.Join(err, l.dir.Close())
	}
	return l, nil
}

// HoldDir locks a directory like [LockDir], but writes nothing into it, so that it also locks a read-only
// directory. Other processes are refused without the id of this process.
func HoldDir(dir string) (*DirLock, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(heldBy(filepath.Join(dir, "LOCK"), err), d.Close())
	}
	return &DirLock{dir: d}, nil
}

func heldBy(note string, err error) error {
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return err
	}
	if pid, readErr := os.ReadFile(note); readErr == nil && len(pid) > 0 {
		return fmt.Errorf("%w by process %s", ErrLocked, strings.TrimSpace(string(pid)))
	}
	return fmt.Errorf("%w by another process", ErrLocked)
}

// Release releases the lock. It first removes the note with the process id, because afterwards another
// process may write its own note. Then it unlocks explicitly. Closing the directory would not be
// enough, because a child process that is just being started has a copy of the descriptor.
func (l *DirLock) Release() error {
	var err error
	if l.note != "" {
		err = os.Remove(l.note)
	}
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, unix.Flock(int(l.dir.Fd()), unix.LOCK_UN), l.dir.Close())
}
