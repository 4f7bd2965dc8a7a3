package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"filippo.io/age"

	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/backup"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// BackupTo describes where and how a backup is written.
type BackupTo struct {
	Dir string
	// Full means that the backup contains everything, even if it could continue an earlier backup.
	Full bool
	// Recipients are the age recipients (age1...) for which the backup is encrypted. If there are none,
	// it is not encrypted.
	Recipients []string
}

// BackupDone is the result of a backup.
type BackupDone struct {
	// Part is the number of the partition.
	Part int32
	File string
	// BasedOn is the file of the earlier backup that this backup continues. It is "" if this backup
	// contains everything.
	BasedOn string
	Bytes   int64
	// RunKeys means that the keys of erasable runs were copied into the directory. The copy replaced an earlier one.
	RunKeys bool
}

// TakeBackup writes a backup to out. The backup contains everything that is new since the backup with
// the id after. If after is "", the backup contains everything.
type TakeBackup func(ctx context.Context, after string, out io.Writer) error

// Backup writes backups of the partitions of a store into the directory to.Dir. No other process may
// have the store open. Each partition except the first has a subdirectory of its own, see [BackupBy].
// The callback is called with the result of each complete backup.
//
// The first partition is backed up last. A namespace that was moved out of it is then already in the
// backup of another partition, even if Backup is interrupted. Errors: [ErrUnusable].
func Backup(ctx context.Context, data Data, to BackupTo, told func(BackupDone)) error {
	parts, err := data.parts(ctx)
	if err != nil {
		return err
	}
	numbers := make([]int32, len(parts))
	for i, part := range parts {
		numbers[i] = part.Database.Part
	}
	return backupEach(numbers, nil, to, func(i int, into BackupTo) (BackupDone, error) { return backupPart(ctx, parts[i], into) }, told)
}

// BackupServed writes backups like [Backup], of the partitions of a store that sidecars serve. The
// function take returns the function that takes the backup of one partition. unserved are partitions
// that have rows but are not served by a sidecar. They are skipped, and the error at the end lists
// them.
func BackupServed(ctx context.Context, parts, unserved []int32, take func(part int32) TakeBackup, to BackupTo, told func(BackupDone)) error {
	err := backupEach(parts, unserved, to, func(i int, into BackupTo) (BackupDone, error) { return BackupBy(ctx, take(parts[i]), into) }, told)
	if err == nil && len(unserved) > 0 {
		err = &UnservedError{Parts: unserved}
	}
	return err
}

// UnservedError means that a backup skipped partitions that have rows, because no sidecar serves their
// namespaces.
type UnservedError struct{ Parts []int32 }

// Error returns a text that also contains the next step for the operator.
func (e *UnservedError) Error() string {
	return fmt.Sprintf("the partitions %s are in no backup, because no sidecar serves their namespaces: give one of the sidecars --namespace with their names (table namespace), or stop all and take it with --store", listed(e.Parts))
}

// backupEach calls backup for each partition, the first partition last, each with a directory of its own. The
// callback is called with each result. others are further partitions of the store, which this call does not back up.
func backupEach(parts, others []int32, to BackupTo, backup func(i int, into BackupTo) (BackupDone, error), told func(BackupDone)) error {
	err := complete(to.Dir, parts, others)
	if err == nil && len(parts) > 1 {
		err = datadir.MakeDir(to.Dir)
	}
	for i := len(parts) - 1; err == nil && i >= 0; i-- {
		into := to
		into.Dir = partDir(to.Dir, parts[i])
		done, failed := backup(i, into)
		if err = InPart(parts[i], marked(failed)); err == nil {
			done.Part = parts[i]
			told(done)
		}
	}
	return err
}

// complete checks that the partitions to back up (parts) include partition 0, because no restore is
// possible without it. It also checks that the directory has no backup of a partition that this store
// does not have. others are further partitions of the store.
func complete(dir string, parts, others []int32) error {
	if first := parts[0]; first != 0 {
		return fmt.Errorf("%w: partition %d contains data, but partition 0 does not exist: start a sidecar, which creates it", ErrUnusable, first)
	}
	there, err := partsIn(dir)
	for _, part := range there {
		if err == nil && !slices.Contains(parts, part) && !slices.Contains(others, part) {
			err = fmt.Errorf("%w: %s belongs to another store: this store has no partition %d", ErrUnusable, partDir(dir, part), part)
		}
	}
	return err
}

// backupPart writes the backup of one partition that no other process has open, with the keys of erasable runs.
func backupPart(ctx context.Context, data Data, to BackupTo) (done BackupDone, err error) {
	s, err := openExisting(data, false)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	done, err = BackupBy(ctx, (&storeAdmin{store: s}).Backup, to)
	if err == nil {
		// The keys of erasable runs are copied after the rows, so that the copy contains the key of
		// each row.
		done.RunKeys, err = s.CopyRunKeys(to.Dir)
	}
	if errors.Is(err, keyring.ErrForeign) {
		err = fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return done, err
}

// BackupBy writes a backup into a directory. If the directory has no backup, or if Full is set, the
// backup contains everything. Otherwise it contains what is new since the last backup. A backup is
// written under a temporary name, verified and synced, and only then gets its own name. Therefore a file
// with the name of a backup is always complete. Only one backup at a time may be written into a directory. Errors:
// [ErrUnusable], and each error that the function take returns.
func BackupBy(ctx context.Context, take TakeBackup, to BackupTo) (done BackupDone, err error) {
	recipients, err := recipientsOf(to.Recipients)
	if err != nil {
		return done, err
	}
	if err := datadir.MakeDir(to.Dir); err != nil {
		return done, err
	}
	lock, err := lockBackups(to.Dir)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	number, last, err := lastIn(to.Dir)
	if err != nil {
		return done, err
	}
	after := ""
	if last != "" && !to.Full {
		if after, err = idOf(ctx, last); err != nil {
			return done, err
		}
		done.BasedOn = last
	}
	done.File, done.Bytes, err = writeSynced(to.Dir, func(out io.Writer) (name string, err error) {
		var h backup.Header
		err = sealed(out, recipients, func(out io.Writer) error {
			h, err = verifyWhileWriting(after, out, func(out io.Writer) error { return take(ctx, after, out) })
			return err
		})
		return nameOf(number+1, h.ID, len(recipients) > 0), err
	})
	return done, err
}

// lockBackups locks a directory of backups for a command that changes it.
func lockBackups(dir string) (*datadir.DirLock, error) {
	lock, err := datadir.LockDir(dir)
	if errors.Is(err, datadir.ErrLocked) {
		err = fmt.Errorf("%w: another backup is being written into %s, or old ones are removed: wait until that has ended: %w", ErrUnusable, dir, err)
	}
	return lock, err
}

// lastIn returns the file of the newest backup in a directory, and its number. last is "" if there is
// none. lastIn also removes the remains of interrupted backups. The caller holds the lock of the
// directory, so no other process is writing a backup into it.
func lastIn(dir string) (number int, last string, err error) {
	if err := dropBroken(dir); err != nil {
		return 0, "", err
	}
	files, err := backupsIn(dir)
	if err != nil || len(files) == 0 {
		return 0, "", err
	}
	// A new backup continues the newest file. It does not matter whether earlier files still exist.
	last = files[len(files)-1]
	number, _, err = numberOf(last)
	return number, last, err
}

// verifyWhileWriting verifies a backup while the function write writes it to out. It returns an error if the backup
// is incomplete or does not continue the backup with the id after.
func verifyWhileWriting(after string, out io.Writer, write func(out io.Writer) error) (h backup.Header, err error) {
	read, along := io.Pipe()
	found := make(chan error, 1)
	go func() {
		var err error
		h, err = backup.Read(read, nil)
		if err == nil && h.Parent != after {
			err = fmt.Errorf("%w: the backup continues %q, but %q was expected", backup.ErrInvalid, h.Parent, after)
		}
		_ = read.CloseWithError(err)
		found <- err
	}()
	if err := write(io.MultiWriter(out, along)); err != nil {
		_ = along.CloseWithError(err)
		<-found //nolint:errcheck // the error of an incomplete backup is expected
		return h, err
	}
	return h, errors.Join(along.Close(), <-found)
}

// broken is the prefix of the temporary file names of backups that are not complete yet.
const broken = ".backup-"

// dropBroken removes the remains of interrupted backups. No other process may be writing a backup into
// the directory.
func dropBroken(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), broken) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// backupsIn lists the backup files of a directory, sorted by name and so by number.
func backupsIn(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), backupSuffix) || strings.HasSuffix(e.Name(), sealedSuffix) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(files)
	return files, err
}

// writeSynced creates a file in a directory. The function write writes the contents and returns the
// file's name. The file gets this name when it is complete and synced to disk.
func writeSynced(dir string, write func(out io.Writer) (name string, err error)) (path string, size int64, err error) {
	f, err := os.CreateTemp(dir, broken+"*")
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	name, err := write(f)
	if err = errors.Join(err, f.Sync()); err == nil {
		size, err = f.Seek(0, io.SeekCurrent)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", 0, err
	}
	// The file gets its name by a hard link. A rename would replace another file that has this name.
	path = filepath.Join(dir, name)
	return path, size, errors.Join(os.Link(f.Name(), path), datadir.SyncDir(dir))
}

// RestoreFrom describes the backups from which a store is restored.
type RestoreFrom struct {
	// Dir is the directory with the backups. UpTo is the name of the last backup that is used. "" means
	// the newest.
	Dir, UpTo string
	// Identity is the file with the age identities that decrypt the backups.
	Identity string
	// RunKeys is the file with the keys of erasable runs. "" means the copy in Dir, if there is one.
	RunKeys string
}

// Restore creates a store from the backups in a directory. data is a directory that is empty or does
// not exist, or a schema without a store in a database. Restore uses the last full backup and all
// backups that continue it, up to from.UpTo if this is set. Backups of several partitions can be
// restored only into a schema. Everything is verified before the directory gets its name or the schema
// gets a row. Errors: [backup.ErrInvalid], [store.ErrNoRunKeys], [ErrUnusable], a *[PartsError], a
// *[CheckFault].
func Restore(ctx context.Context, from RestoreFrom, data Data) (report CheckReport, used []string, err error) {
	ids, err := identitiesOf(from.Identity)
	if err != nil {
		return report, nil, err
	}
	chains, err := chainsIn(ctx, from, data, ids)
	if err != nil {
		return report, nil, err
	}
	if data.Dir == "" {
		report, err = restoreInto(ctx, chains, data, func(string) {})
	} else {
		report, err = chains[0].restore(ctx, data)
	}
	for _, c := range chains {
		used = append(used, c.files...)
	}
	if err != nil {
		used = nil
	}
	return report, used, marked(err)
}

// chainsIn returns, for each partition, the backups from which it is restored. The first partition
// comes first.
func chainsIn(ctx context.Context, from RestoreFrom, data Data, ids []age.Identity) (chains []backups, err error) {
	others, err := partsIn(from.Dir)
	if err != nil {
		return nil, err
	}
	parts := append([]int32{0}, others...)
	switch {
	case len(others) == 0:
	case data.Dir != "":
		return nil, fmt.Errorf("%w: %w", ErrUnusable, &PartsError{Location: from.Dir, Parts: parts, Advice: "restore it into a database with --store"})
	case from.UpTo != "":
		return nil, fmt.Errorf("%w: --to names a backup of one partition, but %s contains backups of %d partitions: remove the newer backups from each directory instead", ErrUnusable, from.Dir, len(parts))
	case from.RunKeys != "":
		return nil, fmt.Errorf("%w: --run-keys applies to one partition, but %s contains backups of %d partitions: put each key file next to its backups instead", ErrUnusable, from.Dir, len(parts))
	}
	for _, part := range parts {
		c := backups{part: part, from: from, ids: ids}
		c.from.Dir = partDir(from.Dir, part)
		if c.files, c.headers, err = chainIn(ctx, c.from.Dir, from.UpTo, ids); err != nil {
			return nil, InPart(part, err)
		}
		chains = append(chains, c)
	}
	return chains, nil
}

// backups are the backups from which one partition is restored. Each file continues the one before it.
type backups struct {
	part  int32
	from  RestoreFrom
	files []string
	// headers are those of files.
	headers []backup.Header
	ids     []age.Identity
}

// restore creates the directory data.Dir from the backups of one partition, and checks the new store.
func (c backups) restore(ctx context.Context, data Data) (report CheckReport, err error) {
	if dsn.IsURL(data.Dir) {
		return report, fmt.Errorf("%w: the target is the URL of a database, not a directory: pass it as --store", ErrUnusable)
	}
	final, err := emptyAt(data.Dir)
	if err != nil {
		return report, err
	}
	data.Dir = final + ".restoring"
	// A partial result of an earlier restore is removed, unless another process is writing it now.
	err = datadir.WithLock(data.Dir, func() error { return os.RemoveAll(data.Dir) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return report, err
	}
	opts, err := data.options()
	if err != nil {
		return report, err
	}
	if err := placeKeys(c.from.Dir, c.from.RunKeys, data.Dir); err != nil {
		return report, err
	}
	err = store.Restore(ctx, opts, len(c.files), func(i int) (io.ReadCloser, error) { return openBackup(c.files[i], c.ids) })
	if err == nil {
		report, err = Check(ctx, data)
	}
	if err != nil {
		return report, errors.Join(err, os.RemoveAll(data.Dir))
	}
	if err := giveTo(data.Dir, final); err != nil {
		return report, errors.Join(err, os.RemoveAll(data.Dir))
	}
	// syscall.Rename is used because os.Rename refuses to replace an empty directory.
	if err := syscall.Rename(data.Dir, final); err != nil {
		err = &os.LinkError{Op: "rename", Old: data.Dir, New: final, Err: err}
		return report, errors.Join(err, os.RemoveAll(data.Dir))
	}
	return report, datadir.SyncDir(filepath.Dir(final))
}

// emptyAt returns the real path of a directory, without symbolic links. It returns an error if there is
// something other than an empty directory. It does not remove the directory, which the result of the
// restore replaces later.
func emptyAt(path string) (final string, err error) {
	final = filepath.Clean(path)
	at, err := filepath.EvalSymlinks(final)
	if err == nil {
		final = at
	} else if _, there := os.Lstat(final); there == nil {
		return "", fmt.Errorf("%w: %s is a symbolic link to a directory that does not exist: create the directory", ErrUnusable, final)
	}
	entries, err := os.ReadDir(final)
	if errors.Is(err, fs.ErrNotExist) {
		return final, nil
	}
	if err != nil || len(entries) > 0 {
		return "", fmt.Errorf("%w: %s is not empty: restore into an empty directory", ErrUnusable, final)
	}
	return final, nil
}

// placeKeys copies the file with the keys of erasable runs into the directory of a new store. Without
// runKeys it copies the file next to the backups, if there is one.
func placeKeys(from, runKeys, to string) error {
	if err := datadir.MakeDir(to); err != nil {
		return err
	}
	file := runKeys
	if file == "" {
		file = filepath.Join(from, keyring.Name)
	}
	copied, err := keyring.Copy(file, to)
	if err == nil && runKeys != "" && !copied {
		err = fmt.Errorf("%w: the file %s does not exist", ErrUnusable, runKeys)
	}
	return err
}

// chainIn returns the files to restore and their headers, in order: the last full backup and those that
// continue it, up to the file upTo if this is set. It verifies these, from the newest back, and does not
// read older files: damage there does not prevent a restore.
func chainIn(ctx context.Context, dir, upTo string, ids []age.Identity) (chain []string, headers []backup.Header, err error) {
	files, err := backupsIn(dir)
	if err != nil {
		return nil, nil, err
	}
	if upTo != "" {
		last := slices.IndexFunc(files, func(file string) bool { return filepath.Base(file) == filepath.Base(upTo) })
		if last < 0 {
			return nil, nil, fmt.Errorf("%w: the backup %s does not exist in %s", ErrUnusable, upTo, dir)
		}
		files = files[:last+1]
	}
	first := len(files)
	for first > 0 && (len(headers) == 0 || headers[0].Parent != "") {
		first--
		h, err := readBackup(ctx, files[first], ids)
		if err != nil {
			return nil, nil, err
		}
		headers = slices.Insert(headers, 0, h)
	}
	return files[first:], headers, backup.Order(headers)
}
