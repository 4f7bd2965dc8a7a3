package store

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// dropUnborn removes log files that a crash caught between their creation and
// their first byte: Badger 4.9 refuses to open a directory with such a file,
// though nothing was ever written to it. The directory is locked meanwhile, as
// Badger locks it, so that the new file of a living process is never taken.
func dropUnborn(dir string) error {
	unborn, err := unbornLogs(dir)
	if err != nil || len(unborn) == 0 {
		return err
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer unlock()
	// Looked at again: who held the lock may have filled them.
	if unborn, err = unbornLogs(dir); err != nil {
		return err
	}
	for _, file := range unborn {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// unbornLogs lists the memtable logs without a byte.
func unbornLogs(dir string) ([]string, error) {
	logs, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil {
		return nil, err
	}
	var unborn []string
	for _, file := range logs {
		info, err := os.Stat(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if info.Size() == 0 {
			unborn = append(unborn, file)
		}
	}
	return unborn, nil
}

// lockDir takes the lock that Badger takes; EWOULDBLOCK if someone holds it.
func lockDir(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return func() { _ = d.Close() }, nil
}
