package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// MakeDir makes a directory and its missing parents, and syncs each name: a directory whose
// name was not synced is lost in a power failure, even if its files were synced.
func MakeDir(dir string) error { return makeDir(filepath.Clean(dir), SyncDir) }

func makeDir(dir string, sync func(dir string) error) error {
	err := os.Mkdir(dir, 0o700)
	switch {
	case err == nil:
		return sync(filepath.Dir(dir))
	case errors.Is(err, os.ErrExist):
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err // It is no directory.
		}
		// An earlier process may have been killed before the name was on disk. Where this
		// process may not sync, another user made the directory.
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
	// Once more and no oftener: /proc takes no directory, and says that there is none above.
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return sync(filepath.Dir(dir))
}

// unsyncable: the directory is not ours, or of a file system that is only read or has no sync.
func unsyncable(err error) bool {
	return errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EINVAL)
}
