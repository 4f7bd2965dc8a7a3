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

// Names of archived files: the run, the beginning of its last hash, and this.
const (
	archiveSuffix = ".pawlrun"
	// partSuffix follows while the file is not whole.
	partSuffix    = ".part"
	hashPrefixLen = 16
)

// archived writes the file of a run that has ended into a directory of the namespace, and
// returns when file and name are on disk. One that is there already is of the same records:
// its name has their hash, and it got that when it was whole.
func (r *Service) archived(ctx context.Context, dir, namespace string, key runtime.RunKey, st *machine.State) (path string, size int64, err error) {
	if dir, err = r.madeDir(dir, namespace); err != nil {
		return "", 0, err
	}
	path = filepath.Join(dir, fmt.Sprintf("%s.%s%s", key.ID, hex.EncodeToString(st.PrevHash[:])[:hashPrefixLen], archiveSuffix))
	if info, err := os.Stat(path); err == nil {
		// The crash that came between may have been one of the whole machine.
		return path, info.Size(), r.syncDir(dir)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", 0, err
	}
	size, err = r.written(path, func(out io.Writer) error {
		return r.cfg.Archive.Export(ctx, key.Namespace, key.ID, &guardedWriter{out: out, checkSpace: func() error { return r.cfg.CheckSpace(dir) }})
	})
	return path, size, err
}

// spaceCheckBytes is how many bytes are written between two looks at the room.
const spaceCheckBytes = 8 << 20

// guardedWriter asks for room before the first byte, and again now and then.
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

// Clear removes what a crash left of files in a directory of archives, of the namespaces that are the
// caller's; nil: of all. Nobody else writes those.
func Clear(dir string, own func(namespace string) bool) error {
	namespaces, err := os.ReadDir(dir)
	for _, ns := range namespaces {
		if ns.IsDir() && (own == nil || own(ns.Name())) {
			err = errors.Join(err, clearParts(filepath.Join(dir, ns.Name())))
		}
	}
	return err
}

// clearParts removes the files of one directory that are not whole.
func clearParts(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), archiveSuffix+partSuffix) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// written makes a file that has its name only when it is whole and on disk.
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
		// By its name the next round would take it for one that is on disk.
		return 0, errors.Join(err, os.Remove(path))
	}
	return size, nil
}

// madeDir makes the directory of a namespace, and returns when its name is on disk. One that
// is there may be of a moment before the machine crashed. The archive itself was there at the
// start: if it is gone a disk is, and nothing is written in its place.
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
