package inspect

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

// Progress is what a directory's file says, "" without one.
func Progress(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, migratingName))
	if err != nil {
		return ""
	}
	return string(data)
}

// SetProgress says, synced, how far a directory is.
func SetProgress(dir, how string) error {
	file, err := os.OpenFile(filepath.Join(dir, migratingName), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(how)
	return errors.Join(err, file.Sync(), file.Close(), SyncDir(dir))
}

// SettleIn makes a complete directory one like any other.
func SettleIn(dir string) error {
	return errors.Join(os.Remove(filepath.Join(dir, migratingName)), SyncDir(dir))
}

// ClearFor empties the directory that is to be made; one that a migration has begun may go.
func ClearFor(dir string) error {
	if Progress(dir) != "" {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	files, err := os.ReadDir(dir)
	if len(files) > 0 {
		return fmt.Errorf("%s is not empty", dir)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return errors.Join(os.MkdirAll(dir, 0o700), SetProgress(dir, building))
}

// CopyOthers takes over files beside the store's own, such as a place in an export.
func CopyOthers(from, to string) error {
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	own := []string{HeadName, "LOCK", RegistryName, badger.KeyRegistryRewriteFileName, "DISCARD", badger.ManifestFilename, migratingName}
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
