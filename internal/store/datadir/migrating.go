package datadir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// migratingName is a file in a directory that a migration is making: "building" until
// everything is there and proven, "complete" until the directory has its place.
const (
	migratingName = "MIGRATING"
	building      = "building\n"
	Complete      = "complete\n"
)

// ErrFormat: the directory was not written by a version that this one reads.
var ErrFormat = errors.New("unreadable store format")

// CompactName is the file by which a compaction knows the directories that it made.
const CompactName = "COMPACTED"

// Progress is what a directory's file says, "" without one.
func Progress(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, migratingName))
	if err != nil {
		return ""
	}
	return string(data)
}

// SetProgress says, synced, how far a directory is.
func SetProgress(dir, how string) error { return WriteSynced(dir, migratingName, how) }

// WriteSynced writes a file of a directory that is on disk with its name.
func WriteSynced(dir, name, text string) error {
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Sync(), file.Close(), SyncDir(dir))
}

// SettleIn makes a complete directory one like any other.
func SettleIn(dir string) error {
	return errors.Join(os.Remove(filepath.Join(dir, migratingName)), SyncDir(dir))
}

// ClearFor empties the target directory, and removes a partial result of a migration. Errors:
// [ErrLocked] when another process is creating it.
func ClearFor(dir string) error {
	if Progress(dir) != "" {
		if err := WithLock(dir, func() error { return empty(dir) }); err != nil {
			return err
		}
	}
	files, err := os.ReadDir(dir)
	for _, f := range files {
		if f.Name() != migratingName {
			return fmt.Errorf("%s is not empty", dir)
		}
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return errors.Join(os.MkdirAll(dir, 0o700), SetProgress(dir, building))
}

// WithLock runs do while this process has locked the directory. Errors: [ErrLocked].
func WithLock(dir string, do func() error) error {
	lock, err := LockDir(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return errors.Join(do(), lock.Release())
}

// Remove removes a store whose directory the caller has locked. After an interruption the
// directory is marked as incomplete: no start opens it, and [ClearFor] empties it.
func Remove(dir string) error {
	if err := empty(dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// empty removes what a directory holds, last the file that says that it may go.
func empty(dir string) error {
	if err := errors.Join(SetProgress(dir, building), shred(filepath.Join(dir, RunKeysName))); err != nil {
		return err
	}
	files, err := os.ReadDir(dir)
	for _, f := range files {
		if f.Name() != migratingName {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, f.Name())))
		}
	}
	return err
}

// shred overwrites the keys of runs, synced, because the blocks of a removed file keep their
// contents. Without a file it returns nil.
func shred(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil {
		_, err = file.WriteAt(make([]byte, info.Size()), 0)
	}
	return errors.Join(err, file.Sync(), file.Close())
}

// RunKeysName is the name of the file with the keys of runs. Only package keyring copies it.
const RunKeysName = "RUNKEYS"

// CopyOthers copies files that lie beside the store's own, for example the position of an
// export.
func CopyOthers(from, to string) error {
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	own := []string{HeadName, "LOCK", RegistryName, badger.KeyRegistryRewriteFileName, "DISCARD", badger.ManifestFilename, migratingName, CompactName, RunKeysName}
	for _, f := range files {
		ext := filepath.Ext(f.Name())
		if !f.Type().IsRegular() || slices.Contains(own, f.Name()) || slices.Contains([]string{".sst", ".mem", ".vlog"}, ext) {
			continue
		}
		if err := copyFile(filepath.Join(from, f.Name()), filepath.Join(to, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// Moving reports whether a migration was broken off, or is under way, between the two
// renames by which the directory made takes the place of dir, which does not exist then.
func Moving(dir, next string) bool {
	_, err := os.Stat(dir)
	return errors.Is(err, os.ErrNotExist) && Progress(next) == Complete
}
