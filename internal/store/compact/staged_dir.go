package compact

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/diskspace"
)

// StagedDir describes where a compaction builds the new store.
type StagedDir struct {
	// From is the directory of the store. To is the new directory.
	From, To string
	// Swap means that the new directory replaces the old one. In this case To is a temporary name.
	Swap bool
	// Epoch is the epoch of the store. Group is the number of its last commit.
	Epoch [16]byte
	Group uint64
	// Free returns the free disk space of a directory's file system, in bytes. Spare is the number of
	// bytes that must remain free.
	Free  func(dir string) (int64, error)
	Spare int64
}

// At returns where the store in the directory dir is rebuilt. This is the directory to or, if to is "",
// a directory next to dir. If dir is a symbolic link, it is a directory next to the target of the link.
func At(dir, to string) (StagedDir, error) {
	from, err := filepath.EvalSymlinks(dir)
	if err == nil {
		from, err = filepath.Abs(from)
	}
	if to != "" || err != nil {
		return StagedDir{From: from, To: to}, err
	}
	return StagedDir{From: from, To: from + ".compact", Swap: true}, nil
}

// Clear removes the remains of an interrupted call from the new directory, and nothing else. It returns
// the size of the store in bytes. Errors: *machine.Error DISK_LOW if the disk has no space for a second
// copy; [datadir.ErrLocked] if another process has the new directory open.
func (p StagedDir) Clear() (bytes int64, err error) {
	if err := p.dropLeft(); err != nil {
		return 0, err
	}
	tree, values, err := datadir.DiskBytes(p.From)
	if err != nil {
		return 0, err
	}
	free, err := p.Free(filepath.Dir(p.To))
	if need := tree + values + p.Spare; err == nil && free < need {
		err = &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: diskspace.DiskLow, Limit: need, Got: free,
			Message: "there is no room for a second copy of the store",
		}
	}
	if err == nil {
		err = datadir.ClearFor(p.To)
	}
	return tree + values, err
}

// dropLeft removes the directory that remained from a call that was interrupted while the names were
// exchanged. Both directories were complete at that time.
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
	return datadir.WithLock(p.To, func() error {
		head, err := left(p.To)
		if err != nil || head == nil || head.Epoch != p.Epoch {
			return err
		}
		if head.Group > p.Group {
			return fmt.Errorf("%s is not empty: it is newer than %s, with commit %d after %d", p.To, p.From, head.Group, p.Group)
		}
		return datadir.Remove(p.To)
	})
}

// Settle completes the new directory. It copies the files that do not belong to the store and removes
// the progress file. If Swap is set, the new directory then replaces the old one, which is removed.
// Settle returns the disk space of the new store in bytes.
func (p StagedDir) Settle() (bytes int64, err error) {
	if err := datadir.CopyOthers(p.From, p.To); err != nil {
		return 0, err
	}
	if p.Swap {
		err = errors.Join(Mark(p.From), Mark(p.To))
	}
	if err == nil {
		err = datadir.SettleIn(p.To)
	}
	if err != nil {
		return 0, err
	}
	tree, values, err := datadir.DiskBytes(p.To)
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
	if err := datadir.SyncDir(filepath.Dir(p.From)); err != nil {
		return err
	}
	return errors.Join(datadir.Remove(p.To), unmark(p.From))
}
