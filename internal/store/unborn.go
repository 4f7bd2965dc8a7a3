package store

import (
	"errors"
	"os"
	"path/filepath"
)

// dropUnborn removes the files that an inspection found to hold nothing: logs that
// a crash caught between their creation and their first byte, or between their
// emptying and their removal, which Badger refuses to open. The directory is
// locked, so that the new file of a living process is never taken.
func (n *inspection) dropUnborn() error {
	var err error
	for _, name := range n.unborn {
		err = errors.Join(err, os.Remove(filepath.Join(n.dir, name)))
	}
	return err
}
