package store

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/pawl-dev/pawl/internal/store/datadir"
)

// movedMark is the content of the progress file of a directory that already has its final name but
// is not yet complete.
const movedMark = "moved\n"

// stagedDir describes where a move creates a directory. The directory is built under the name Next and
// then renamed to Final. Final must be empty or absent.
type stagedDir struct{ Final, Next string }

// stagedAt returns the stagedDir for a final name.
func stagedAt(final string) stagedDir { return stagedDir{Final: final, Next: final + ".migrating"} }

// Clear removes the remains of an interrupted call, under the final name or the temporary name, and
// nothing else. Errors: [datadir.ErrLocked].
func (p stagedDir) Clear() error {
	if UnfinishedMove(p.Final) {
		err := datadir.WithLock(p.Final, func() error { return datadir.Remove(p.Final) })
		if err != nil {
			return err
		}
	}
	return datadir.ClearFor(p.Next)
}

// Settle renames the new directory to its final name. Before that, the directory cannot be opened.
func (p stagedDir) Settle(step func(string)) error {
	if err := datadir.SetProgress(p.Next, movedMark); err != nil {
		return err
	}
	step("complete")
	// os.Rename would refuse an empty directory at the destination. The system call replaces it in
	// one step.
	if err := syscall.Rename(p.Next, p.Final); err != nil {
		return &os.LinkError{Op: "rename", Old: p.Next, New: p.Final, Err: err}
	}
	if err := datadir.SyncDir(filepath.Dir(p.Final)); err != nil {
		return err
	}
	step("placed")
	return datadir.SettleIn(p.Final)
}

// UnfinishedMove reports whether a move was interrupted after the directory dir got its final name.
// The next move creates the directory again.
func UnfinishedMove(dir string) bool { return datadir.Progress(dir) == movedMark }
