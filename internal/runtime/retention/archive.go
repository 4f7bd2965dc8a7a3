package retention

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// The name of an archive file consists of the run's id, the first digits of its last hash, and
// archiveSuffix.
const (
	archiveSuffix = ".pawlrun"
	// partSuffix is added to the name of a file while the file is incomplete.
	partSuffix    = ".part"
	hashPrefixLen = 16
)

// archiveRun writes the archive file of an ended run into the directory of its namespace. It returns
// when the file and its name are on disk. If the file already exists, it is complete and has the same
// records: its name contains their hash, and a file gets this name only when it is complete.
func (r *Service) archiveRun(ctx context.Context, dir, namespace string, key runtime.RunKey, st *machine.State) (path string, size int64, err error) {
	if dir, err = r.madeDir(dir, namespace); err != nil {
		return "", 0, err
	}
	path = filepath.Join(dir, fmt.Sprintf("%s.%s%s", key.ID, hex.EncodeToString(st.PrevHash[:])[:hashPrefixLen], archiveSuffix))
	if info, err := os.Stat(path); err == nil {
		// The file already exists. Its directory must be synced, because the computer may have crashed
		// before the name of the file was on disk.
		return path, info.Size(), r.syncDir(dir)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", 0, err
	}
	size, err = r.writeFile(path, func(out io.Writer) error {
		return r.cfg.Archive.Export(ctx, key.Namespace, key.ID, &guardedWriter{out: out, checkSpace: func() error { return r.cfg.CheckSpace(dir) }})
	})
	return path, size, err
}

// spaceCheckBytes is the number of bytes that are written between two checks of the free disk space.
const spaceCheckBytes = 8 << 20

// guardedWriter checks the free disk space before the first byte, and after every spaceCheckBytes
// bytes.
type guardedWriter struct {
	out        io.Writer
	checkSpace func() error
	countdown  int
}

func (c *guardedWriter) Write(p []byte) (int, error) {
	if c.countdown -= len(p); c.countdown < 0 {
		if err := c.checkSpace(); err != nil {
			return 0, err
		}
		c.countdown = spaceCheckBytes
	}
	return c.out.Write(p)
}

// Clear removes incomplete archive files that a crash has left, in the directories of the namespaces
// for which own returns true. If own is nil, it does this for all namespaces. No other process may
// write these files.
func Clear(dir string, own func(namespace string) bool) error {
	namespaces, err := os.ReadDir(dir)
	for _, ns := range namespaces {
		if ns.IsDir() && (own == nil || own(ns.Name())) {
			err = errors.Join(err, clearParts(filepath.Join(dir, ns.Name())))
		}
	}
	return err
}

// clearParts removes the incomplete archive files of one directory.
func clearParts(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), archiveSuffix+partSuffix) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// writeFile creates a file with the contents that the function write writes. The file gets its name only
// when it is complete and on disk.
func (r *Service) writeFile(path string, write func(out io.Writer) error) (size int64, err error) {
	part := path + partSuffix
	f, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	err = errors.Join(write(f), f.Sync())
	if err == nil {
		size, err = f.Seek(0, io.SeekCurrent)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, errors.Join(err, os.Remove(part))
	}
	if err := os.Rename(part, path); err != nil {
		return 0, errors.Join(err, os.Remove(part))
	}
	if err := r.syncDir(filepath.Dir(path)); err != nil {
		// The file is removed because its name may not be on disk. If the file kept its name, the next round
		// would assume that it is on disk.
		return 0, errors.Join(err, os.Remove(path))
	}
	return size, nil
}

// madeDir creates the archive directory of a namespace. It syncs the parent directory in any case,
// because the archive directory may have been created shortly before a crash of the computer. It does
// not create the parent directory, which existed at the start: if the parent is missing now, its disk
// is missing.
func (r *Service) madeDir(archive, namespace string) (dir string, err error) {
	dir = filepath.Join(archive, namespace)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return dir, r.syncDir(archive)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
