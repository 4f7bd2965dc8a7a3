package inspect

import (
	"errors"
	"os"
	"path/filepath"
)

// MakeDir makes a directory and what is missing above it, each with its name on disk: a
// store in a directory whose name was not synced is gone after a power cut, however well
// its files were.
func MakeDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	switch {
	case err == nil:
		return SyncDir(filepath.Dir(dir))
	case errors.Is(err, os.ErrExist):
		return os.MkdirAll(dir, 0o700) // Fails if it is no directory.
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	if err := MakeDir(filepath.Dir(dir)); err != nil {
		return err
	}
	return MakeDir(dir)
}
