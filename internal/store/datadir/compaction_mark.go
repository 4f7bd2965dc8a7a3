package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Before a compaction exchanges the names of the old and the new directory, it writes a file, the mark,
// into both. A mark records the newest commit of its store. After an interruption, it identifies the
// directory next to the store as a remainder that can be deleted. A store that has newer commits than
// its mark is never deleted.

// MarkCompaction writes the file by which a compaction marks a directory, and syncs it. The file
// contains the newest acknowledged commit.
func MarkCompaction(dir string) error {
	head, err := ReadAcked(dir)
	if err != nil || head == nil {
		return errors.Join(fmt.Errorf("%s has no %s", dir, HeadName), err)
	}
	return WriteSynced(dir, CompactName, markOf(head))
}

func markOf(head *AckMark) string { return fmt.Sprintf("%x %d\n", head.Epoch, head.Group) }

// unmark removes the file by which a compaction has marked a directory.
func unmark(dir string) error {
	return errors.Join(os.Remove(filepath.Join(dir, CompactName)), SyncDir(dir))
}

// readCompactionMark returns the content of a directory's HEAD file if a compaction has marked the directory and
// the store has not changed since. Otherwise it returns nil.
func readCompactionMark(dir string) (*AckMark, error) {
	head, err := ReadAcked(dir)
	if err != nil || head == nil {
		return nil, err
	}
	mark, err := os.ReadFile(filepath.Join(dir, CompactName))
	if errors.Is(err, os.ErrNotExist) || err == nil && string(mark) != markOf(head) {
		return nil, nil
	}
	return head, err
}
