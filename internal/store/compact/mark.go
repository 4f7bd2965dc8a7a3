package compact

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/store/datadir"
)

// A compaction marks the two directories before it exchanges their names. After an interruption, the
// mark identifies the directory next to the store as a partial result. A mark records the position of
// its store. A store that has newer commits than its mark is never deleted.

// Mark marks a directory with its current position, and syncs the mark.
func Mark(dir string) error {
	head, err := datadir.ReadAcked(dir)
	if err != nil || head == nil {
		return errors.Join(fmt.Errorf("%s has no %s", dir, datadir.HeadName), err)
	}
	return datadir.WriteSynced(dir, datadir.CompactName, markOf(head))
}

func markOf(head *datadir.AckMark) string { return fmt.Sprintf("%x %d\n", head.Epoch, head.Group) }

// unmark removes the mark of a directory.
func unmark(dir string) error {
	return errors.Join(os.Remove(filepath.Join(dir, datadir.CompactName)), datadir.SyncDir(dir))
}

// left returns the content of a directory's HEAD file, if a compaction has marked the directory and
// the store has not changed since. Otherwise it returns nil.
func left(dir string) (*datadir.AckMark, error) {
	head, err := datadir.ReadAcked(dir)
	if err != nil || head == nil {
		return nil, err
	}
	mark, err := os.ReadFile(filepath.Join(dir, datadir.CompactName))
	if errors.Is(err, os.ErrNotExist) || err == nil && string(mark) != markOf(head) {
		return nil, nil
	}
	return head, err
}
