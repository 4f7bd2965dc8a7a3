package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/backup"
	"github.com/pawl-dev/pawl/internal/store/inspect"
)

// backupSuffix ends the names of backups in their directory, which are in their order.
const backupSuffix = ".pawlbackup"

// BackupDone says what a backup wrote.
type BackupDone struct {
	File string
	// Follows is the file of the backup that this one follows on; "" = it has everything.
	Follows string
	Bytes   int64
}

// TakeBackup writes a backup: of what is new since the backup of the id after, "" = of
// everything.
type TakeBackup func(ctx context.Context, after string, out io.Writer) error

// Backup writes a backup of the store in data, which nobody has open, into the directory
// to; see [BackupBy]. Errors: [ErrUnusable].
func Backup(ctx context.Context, data Data, to string, full bool) (done BackupDone, err error) {
	s, err := openExisting(data, false)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return BackupBy(ctx, (&depotOf{store: s}).Backup, to, full)
}

// BackupBy writes a backup into the directory to: everything if there is none yet or full
// is set, else what is new since the last. A file that is there is whole and synced: what
// take wrote is proven before it has a name. One backup at a time is written into a
// directory. Errors: [ErrUnusable], those of take.
func BackupBy(ctx context.Context, take TakeBackup, to string, full bool) (done BackupDone, err error) {
	if err := inspect.MakeDir(to); err != nil {
		return done, err
	}
	lock, err := inspect.LockDir(to)
	if errors.Is(err, inspect.ErrLocked) {
		return done, fmt.Errorf("%w: a backup is being written into %s", ErrUnusable, to)
	}
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if err := dropBroken(to); err != nil {
		return done, err
	}
	files, err := backupsIn(to)
	if err != nil {
		return done, err
	}
	number, err := nextNumber(files)
	if err != nil {
		return done, err
	}
	after := ""
	if n := len(files); n > 0 && !full {
		h, err := readBackup(files[n-1])
		if err != nil {
			return done, err
		}
		after, done.Follows = h.ID, files[n-1]
	}
	done.File = filepath.Join(to, fmt.Sprintf("%06d%s", number, backupSuffix))
	done.Bytes, err = writeSynced(done.File, func(out io.Writer) error {
		return proven(after, out, func(out io.Writer) error { return take(ctx, after, out) })
	})
	return done, err
}

// proven reads what is written along: it has to be a whole backup that follows on another.
func proven(after string, out io.Writer, write func(out io.Writer) error) error {
	read, along := io.Pipe()
	found := make(chan error, 1)
	go func() {
		h, err := backup.Read(read, nil)
		if err == nil && h.Parent != after {
			err = fmt.Errorf("%w: it follows on %q, not on %q", backup.ErrInvalid, h.Parent, after)
		}
		read.CloseWithError(err)
		found <- err
	}()
	err := write(io.MultiWriter(out, along))
	if err != nil {
		// What is wrong with half of it is no news.
		_ = along.CloseWithError(err)
		<-found
		return err
	}
	return errors.Join(along.Close(), <-found)
}

// broken begins the names of backups that are being written.
const broken = ".backup-"

// dropBroken removes what was broken off. Nobody else writes into the directory.
func dropBroken(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, broken+"*"))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// nextNumber follows on that of the last file: earlier ones may have been removed.
func nextNumber(files []string) (int, error) {
	if len(files) == 0 {
		return 1, nil
	}
	last := files[len(files)-1]
	n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(last), backupSuffix))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%w: %s has no number for a name", ErrUnusable, last)
	}
	return n + 1, nil
}

// backupsIn lists the backups of a directory in their order.
func backupsIn(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), backupSuffix) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(files)
	return files, err
}

// readBackup proves a file and returns its header.
func readBackup(path string) (backup.Header, error) {
	f, err := os.Open(path)
	if err != nil {
		return backup.Header{}, err
	}
	defer f.Close()
	h, err := backup.Read(f, nil)
	if err != nil {
		return h, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}

// writeSynced makes a file that has its name only when it is whole and on disk.
func writeSynced(path string, write func(out io.Writer) error) (size int64, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), broken+"*")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	if err = errors.Join(write(f), f.Sync()); err == nil {
		size, err = f.Seek(0, io.SeekCurrent)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	// A link, no rename: a file that came meanwhile is not replaced.
	return size, errors.Join(os.Link(f.Name(), path), inspect.SyncDir(filepath.Dir(path)))
}

// Restore makes a store in data, which must be empty or absent, of the backups in a
// directory: of the last that has everything and all after it, or up to the file of the
// name upTo. Everything is proven before the directory has its name. Errors:
// [backup.ErrInvalid], [ErrUnusable], a *[CheckFault].
func Restore(ctx context.Context, from, upTo string, data Data) (report CheckReport, used []string, err error) {
	if used, err = chainIn(from, upTo); err != nil {
		return report, nil, err
	}
	final := filepath.Clean(data.Dir)
	if err := os.Remove(final); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return report, nil, fmt.Errorf("%w: %s is not empty: restore into a directory of its own", ErrUnusable, final)
	}
	data.Dir = final + ".restoring"
	if err := os.RemoveAll(data.Dir); err != nil {
		return report, nil, err
	}
	opts, err := data.options()
	if err != nil {
		return report, nil, err
	}
	err = store.Restore(ctx, opts, len(used), func(i int) (io.ReadCloser, error) { return os.Open(used[i]) })
	if err == nil {
		report, err = Check(ctx, data)
	}
	if err != nil {
		return report, used, errors.Join(err, os.RemoveAll(data.Dir))
	}
	return report, used, errors.Join(os.Rename(data.Dir, final), inspect.SyncDir(filepath.Dir(final)))
}

// chainIn are the files to restore, each proven, in an order that was tested.
func chainIn(dir, upTo string) (chain []string, err error) {
	files, err := backupsIn(dir)
	if err != nil {
		return nil, err
	}
	var headers []backup.Header
	for _, file := range files {
		h, err := readBackup(file)
		if err != nil {
			return nil, err
		}
		if h.Parent == "" {
			chain, headers = nil, nil
		}
		chain, headers = append(chain, file), append(headers, h)
		if upTo != "" && filepath.Base(file) == filepath.Base(upTo) {
			return chain, backup.Order(headers)
		}
	}
	if upTo != "" {
		return nil, fmt.Errorf("%w: there is no %s in %s", ErrUnusable, upTo, dir)
	}
	return chain, backup.Order(headers)
}
