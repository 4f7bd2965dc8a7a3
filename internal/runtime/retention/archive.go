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

// The name of an archived file consists of the run, the first part of its last hash, and this suffix.
const (
	archiveSuffix = ".pawlrun"
	// partSuffix is added while the file is incomplete.
	partSuffix    = ".part"
	hashPrefixLen = 16
)

// archived writes the file of an ended run into the directory of its namespace. It returns when the
// file and its name are on disk. If the file already exists, it has the same records, because its name
// contains their hash, and a file gets this name only when it is complete.
func (r *Service) archived(ctx context.Context, dir, namespace string, key runtime.RunKey, st *machine.State) (path string, size int64, err error) {
	if dir, err = r.madeDir(dir, namespace); err != nil {
		return "", 0, err
	}
	path = filepath.Join(dir, fmt.Sprintf("%s.%s%s", key.ID, hex.EncodeToString(st.PrevHash[:])[:hashPrefixLen], archiveSuffix))
	if info, err := os.Stat(path); err == nil {
		// The name must be synced again, because the machine may have crashed before the name was on
		// disk.
		return path, info.Size(), r.syncDir(dir)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", 0, err
	}
	size, err = r.written(path, func(out io.Writer) error {
		return r.cfg.Archive.Export(ctx, key.Namespace, key.ID, &guardedWriter{out: out, checkSpace: func() error { return r.cfg.CheckSpace(dir) }})
	})
	return path, size, err
}

// spaceCheckBytes is the number of bytes that are written between two checks of the disk space.
const spaceCheckBytes = 8 << 20

// guardedWriter checks the disk space before the first byte and again after every spaceCheckBytes.
type guardedWriter struct {
	out        io.Writer
	checkSpace func() error
	left       int
}

func (c *guardedWriter) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		if err := c.checkSpace(); err != nil {
			return 0, err
		}
		c.left = spaceCheckBytes
	}
	return c.out.Write(p)
}

// Clear removes incomplete files that a crash left in a directory of archives. It does this for the
// namespaces for which own returns true. If own is nil, it does this for all namespaces. No other
// process may write these files.
func Clear(dir string, own func(namespace string) bool) error {
	namespaces, err := os.ReadDir(dir)
	for _, ns := range namespaces {
		if ns.IsDir() && (own == nil || own(ns.Name())) {
			err = errors.Join(err, clearParts(filepath.Join(dir, ns.Name())))
		}
	}
	return err
}

// clearParts removes the incomplete files of one directory.
func clearParts(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), archiveSuffix+partSuffix) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// written creates a file. The file gets its name only when it is complete and on disk.
func (r *Service) written(path string, write func(out io.Writer) error) (size int64, err error) {
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
		// If the file kept its name, the next round would assume that it is on disk.
		return 0, errors.Join(err, os.Remove(path))
	}
	return size, nil
}

// madeDir creates the directory of a namespace. It returns when the name of the directory is on disk.
// It syncs the name even if the directory exists, because the directory may have been created shortly
// before a crash of the machine. The archive directory itself existed at the start. If it is missing
// now, a disk is missing, and madeDir does not create it.
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
