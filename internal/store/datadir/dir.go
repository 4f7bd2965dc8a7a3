package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// MakeDir creates a directory and its missing parents, and syncs their names. Without the sync of a
// name, a power failure could remove the directory even if its files were synced.
func MakeDir(dir string) error { return makeDir(filepath.Clean(dir), SyncDir) }

// makeDir creates a directory with its parents, and calls sync for each parent, so that the names survive a crash.
func makeDir(dir string, sync func(dir string) error) error {
	err := os.Mkdir(dir, 0o700)
	switch {
	case err == nil:
		return sync(filepath.Dir(dir))
	case errors.Is(err, os.ErrExist):
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err // It is no directory.
		}
		// The process that created the directory may have been killed before it synced the directory's name, so the
		// name is synced here. If the parent directory cannot be synced, for example because it belongs to another
		// user, this process did not create the directory, and the error is ignored.
		if err := sync(filepath.Dir(dir)); !unsyncable(err) {
			return err
		}
		return nil
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	if err := makeDir(filepath.Dir(dir), sync); err != nil {
		return err
	}
	// Mkdir is tried only once more. A loop would never end in /proc, where each attempt fails with the
	// error that the parent does not exist.
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return sync(filepath.Dir(dir))
}

// unsyncable reports whether a directory cannot be synced because it belongs to another user, or
// because its file system is read-only or has no sync.
func unsyncable(err error) bool {
	return errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EINVAL)
}
