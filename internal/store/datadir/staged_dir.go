package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// StagedDir describes the directory in which a compaction builds the new store.
type StagedDir struct {
	// From is the directory of the store. To is the new directory.
	From, To string
	// Swap means that the new directory replaces the old one. To is then a temporary name.
	Swap bool
	// Epoch is the id of the store. Group is the number of its last commit.
	Epoch [16]byte
	Group uint64
	// Free returns the free disk space of a directory's file system, in bytes. Spare is the number of
	// bytes that must stay free.
	Free  func(dir string) (int64, error)
	Spare int64
}

// StagedAt returns where the store in the directory dir is rebuilt: in the directory to, or next to dir
// if to is "". If dir is a symbolic link, its target counts as dir.
func StagedAt(dir, to string) (StagedDir, error) {
	from, err := filepath.EvalSymlinks(dir)
	if err == nil {
		from, err = filepath.Abs(from)
	}
	if to != "" || err != nil {
		return StagedDir{From: from, To: to}, err
	}
	return StagedDir{From: from, To: from + ".compact", Swap: true}, nil
}

// Clear removes the remains of an interrupted compaction from the new directory, and nothing else. It
// returns the size of the store in bytes. Errors: *machine.Error DISK_LOW if the disk has no space for
// a second copy; [datadir.ErrLocked] if another process has the new directory open.
func (p StagedDir) Clear() (bytes int64, err error) {
	if err := p.dropLeft(); err != nil {
		return 0, err
	}
	tree, values, err := DiskBytes(p.From)
	if err != nil {
		return 0, err
	}
	free, err := p.Free(filepath.Dir(p.To))
	if need := tree + values + p.Spare; err == nil && free < need {
		err = &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: DiskLow, Limit: need, Got: free,
			Message: "there is no room for a second copy of the store",
		}
	}
	if err == nil {
		err = ClearFor(p.To)
	}
	return tree + values, err
}

// dropLeft removes the old directory that an interrupted compaction left after it had exchanged the names of
// both directories, or the finished new directory if it was interrupted before that. It leaves any other
// directory, which ClearFor handles. It removes the directory only if its store has no newer commits than the
// new one.
func (p StagedDir) dropLeft() error {
	info, err := os.Lstat(p.To)
	switch {
	case !p.Swap || errors.Is(err, os.ErrNotExist):
		return nil
	case err == nil && !info.IsDir():
		err = fmt.Errorf("%s is not a directory, and in the way", p.To)
	}
	if err != nil {
		return err
	}
	return WithLock(p.To, func() error {
		head, err := readCompactionMark(p.To)
		if err != nil || head == nil || head.Epoch != p.Epoch {
			return err
		}
		if head.Group > p.Group {
			return fmt.Errorf("%s is not empty: it is newer than %s, with commit %d after %d", p.To, p.From, head.Group, p.Group)
		}
		return Remove(p.To)
	})
}

// Settle completes the new directory: it copies the files that are not part of the store and removes
// the progress file. If Swap is set, the new directory then replaces the old one, which is removed.
// Settle returns the disk space of the new store in bytes.
func (p StagedDir) Settle() (bytes int64, err error) {
	if err := CopyOthers(p.From, p.To); err != nil {
		return 0, err
	}
	if p.Swap {
		err = errors.Join(MarkCompaction(p.From), MarkCompaction(p.To))
	}
	if err == nil {
		err = SettleIn(p.To)
	}
	if err != nil {
		return 0, err
	}
	tree, values, err := DiskBytes(p.To)
	if err != nil || !p.Swap {
		return tree + values, err
	}
	return tree + values, p.swap()
}

// swap exchanges the names of the new and the old directory and removes the old one. The caller has
// locked the old directory.
func (p StagedDir) swap() error {
	if err := Swap(p.From, p.To); err != nil {
		return errors.Join(err, unmark(p.From))
	}
	if err := SyncDir(filepath.Dir(p.From)); err != nil {
		return err
	}
	return errors.Join(Remove(p.To), unmark(p.From))
}
