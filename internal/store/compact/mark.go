package compact

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/store/datadir"
)

// A compaction marks the directories whose names it exchanges, before it does: of the two
// that a call leaves that was broken off, the one beside the store is known by it. A mark
// says how far its store was. One that has gone on since is nobody's leftover.

// Mark marks a directory, synced.
func Mark(dir string) error {
	head, err := datadir.ReadAcked(dir)
	if err != nil || head == nil {
		return errors.Join(fmt.Errorf("%s has no %s", dir, datadir.HeadName), err)
	}
	return datadir.WriteSynced(dir, datadir.CompactName, markOf(head))
}

func markOf(head *datadir.AckMark) string { return fmt.Sprintf("%x %d\n", head.Epoch, head.Group) }

// unmark makes a directory one like any other.
func unmark(dir string) error {
	return errors.Join(os.Remove(filepath.Join(dir, datadir.CompactName)), datadir.SyncDir(dir))
}

// left is what a directory's HEAD says, if a compaction marked it and it is what it was then.
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
