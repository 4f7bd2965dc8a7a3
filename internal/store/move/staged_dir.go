package move

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/pawl-dev/pawl/internal/store/datadir"
)

// inPlace is what a directory says of itself that has its name, and not yet all of it.
const inPlace = "moved\n"

// StagedDir is where a directory is made, and what it is called then. Final is empty or absent.
type StagedDir struct{ Final, Next string }

// At is the place of a directory.
func At(final string) StagedDir { return StagedDir{Final: final, Next: final + ".migrating"} }

// Clear removes only the remains of an interrupted call, under the final name or the temporary
// one. Errors: [datadir.ErrLocked].
func (p StagedDir) Clear() error {
	if Left(p.Final) {
		err := datadir.WithLock(p.Final, func() error { return datadir.Remove(p.Final) })
		if err != nil {
			return err
		}
	}
	return datadir.ClearFor(p.Next)
}

// Settle gives the directory that was made its name. Until then none opens.
func (p StagedDir) Settle(step func(string)) error {
	if err := datadir.SetProgress(p.Next, inPlace); err != nil {
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

// Left: a directory was given its name by a call that was broken off then; the next one makes
// it anew.
func Left(dir string) bool { return datadir.Progress(dir) == inPlace }
