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

// migratingName is the name of the progress file in a directory that a migration or compaction is
// building. Its content is "building" until the directory is complete and checked. Then it is
// "complete" until the directory has its final name.
const (
	migratingName = "MIGRATING"
	building      = "building\n"
	Complete      = "complete\n"
)

// ErrFormat means that this version of the program cannot read the format of a directory.
var ErrFormat = errors.New("unreadable store format")

// ErrNotEmpty means that a directory in which a command creates a store has other contents.
var ErrNotEmpty = errors.New("is not empty: name an empty or absent directory")

// CompactName is the name of the file by which a compaction marks the directories that it exchanges.
const CompactName = "COMPACTED"

// Progress returns the content of the progress file, which a migration or compaction writes into the directory
// that it builds. It returns "" if the file does not exist or cannot be read.
func Progress(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, migratingName))
	if err != nil {
		return ""
	}
	return string(data)
}

// SetProgress writes the progress file of a directory and syncs it. how is the new content, building or
// Complete.
func SetProgress(dir, how string) error { return WriteSynced(dir, migratingName, how) }

// WriteSynced writes a file into a directory, and syncs the file and its name.
func WriteSynced(dir, name, text string) error {
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Sync(), file.Close(), SyncDir(dir))
}

// SettleIn removes the progress file of a complete directory, so that the directory can be opened as a
// store.
func SettleIn(dir string) error {
	return errors.Join(os.Remove(filepath.Join(dir, migratingName)), SyncDir(dir))
}

// ClearFor makes the target directory of a migration empty. It removes a partial result of an earlier
// migration. If the directory has other contents, the error is [ErrNotEmpty]. If another process is building
// the directory, the error is [ErrLocked].
func ClearFor(dir string) error {
	if Progress(dir) != "" {
		if err := WithLock(dir, func() error { return removeContents(dir) }); err != nil {
			return err
		}
	}
	files, err := os.ReadDir(dir)
	for _, f := range files {
		if f.Name() != migratingName {
			return fmt.Errorf("%s %w", dir, ErrNotEmpty)
		}
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return errors.Join(os.MkdirAll(dir, 0o700), SetProgress(dir, building))
}

// WithLock runs do while this process holds the lock of the directory. Errors: [ErrLocked].
func WithLock(dir string, do func() error) error {
	lock, err := LockDir(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return errors.Join(do(), lock.Release())
}

// Remove removes a store whose directory the caller has locked. If Remove is interrupted, the directory
// stays marked as incomplete. Then no start opens it, and [ClearFor] empties it.
func Remove(dir string) error {
	if err := removeContents(dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// removeContents removes the contents of a directory, except the progress file, which marks the directory as
// incomplete.
func removeContents(dir string) error {
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

// shred overwrites the file with the keys of erasable runs and syncs it, because the disk blocks of a
// removed file keep their contents. If the file does not exist, it returns nil.
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

// RunKeysName is the name of the file with the keys of erasable runs. Only package keyring copies it.
const RunKeysName = "RUNKEYS"

// CopyOthers copies the files in a directory that are not part of the store, for example the position
// up to which traces were exported.
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

// IsMigrationInterrupted reports whether a migration was interrupted after it had renamed the old directory dir. Then
// dir does not exist, and the complete new directory next must be renamed to dir.
func IsMigrationInterrupted(dir, next string) bool {
	_, err := os.Stat(dir)
	return errors.Is(err, os.ErrNotExist) && Progress(next) == Complete
}
