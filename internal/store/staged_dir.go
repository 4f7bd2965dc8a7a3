package store

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/pawl-dev/pawl/internal/store/datadir"
)

// movedMark is what a directory says of itself that has its name, and not yet all of it.
const movedMark = "moved\n"

// stagedDir is where a directory is made, and what it is called then. Final is empty or absent.
type stagedDir struct{ Final, Next string }

// stagedAt is the place of a directory.
func stagedAt(final string) stagedDir { return stagedDir{Final: final, Next: final + ".migrating"} }

// Clear removes only the remains of an interrupted call, under the final name or the temporary
// one. Errors: [datadir.ErrLocked].
func (p stagedDir) Clear() error {
	if UnfinishedMove(p.Final) {
		err := datadir.WithLock(p.Final, func() error { return datadir.Remove(p.Final) })
		if err != nil {
			return err
		}
	}
	return datadir.ClearFor(p.Next)
}

// Settle gives the directory that was made its name. Until then none opens.
func (p stagedDir) Settle(step func(string)) error {
	if err := datadir.SetProgress(p.Next, movedMark); err != nil {
		return err
	}
	step("complete")
	// Not os.Rename, which refuses an empty directory in the place: it is replaced at once.
	if err := syscall.Rename(p.Next, p.Final); err != nil {
		return &os.LinkError{Op: "rename", Old: p.Next, New: p.Final, Err: err}
	}
	if err := datadir.SyncDir(filepath.Dir(p.Final)); err != nil {
		return err
	}
	step("placed")
	return datadir.SettleIn(p.Final)
}

// UnfinishedMove reports whether a move was interrupted after the directory dir got its name. The next
// move makes the directory anew.
func UnfinishedMove(dir string) bool { return datadir.Progress(dir) == movedMark }
