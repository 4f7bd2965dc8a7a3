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

// BackupTo is where a backup goes.
type BackupTo struct {
	Dir string
	// Full: everything, though there are backups to follow on.
	Full bool
	// Recipients are the age recipients (age1...) that it is encrypted for; none: it is not.
	Recipients []string
}

// BackupDone says what a backup wrote.
type BackupDone struct {
	// Part is the partition that it is of.
	Part int32
	File string
	// BasedOn is the file of the backup that this one follows on; "" = it has everything.
	BasedOn string
	Bytes   int64
	// RunKeys: the one copy of the keys of runs beside the backups is that of now.
	RunKeys bool
}

// TakeBackup writes a backup: of what is new since the backup of the id after, "" = of
// everything.
type TakeBackup func(ctx context.Context, after string, out io.Writer) error

// Backup writes a backup of the store in data, which no other process has open, into the
// directory to. Each partition but the first gets a directory of its own there; see [BackupBy].
// The callback gets each complete backup. The first partition is last, so that a namespace that
// was moved out of it is in another backup already. Errors: [ErrUnusable].
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

// BackupServed is Backup for the partitions of a store that is served, by their numbers: take
// takes the backup of one. unserved are non-empty partitions that no sidecar serves. They are
// skipped, which is an error after all others are done.
func BackupServed(ctx context.Context, parts, unserved []int32, take func(part int32) TakeBackup, to BackupTo, told func(BackupDone)) error {
	err := backupEach(parts, unserved, to, func(i int, into BackupTo) (BackupDone, error) { return BackupBy(ctx, take(parts[i]), into) }, told)
	if err == nil && len(unserved) > 0 {
		err = &UnservedError{Parts: unserved}
	}
	return err
}

// UnservedError names partitions that have rows, but no sidecar that serves one of their
// namespaces.
type UnservedError struct{ Parts []int32 }

// Error says what to do.
func (e *UnservedError) Error() string {
	return fmt.Sprintf("the partitions %s are in no backup, since nobody serves their namespaces: give one of the sidecars --namespace with their names (table namespace), or stop all and take it with --store", listed(e.Parts))
}

func backupEach(parts, others []int32, to BackupTo, backup func(i int, into BackupTo) (BackupDone, error), told func(BackupDone)) error {
	err := complete(to.Dir, parts, others)
	if err == nil && len(parts) > 1 {
		err = datadir.MakeDir(to.Dir)
	}
	for i := len(parts) - 1; err == nil && i >= 0; i-- {
		into := to
		into.Dir = partDir(to.Dir, parts[i])
		done, failed := backup(i, into)
		if err = InPart(parts[i], failed); err == nil {
			done.Part = parts[i]
			told(done)
		}
	}
	return err
}

// complete checks that there is a backup of the first partition, without which no restore is
// possible, and no backup of a partition that this store does not have. Additional backups of
// its own partitions are fine.
func complete(dir string, parts, others []int32) error {
	if first := parts[0]; first != 0 {
		return fmt.Errorf("%w: partition %d has something, and partition 0 has not: start a sidecar, which makes it", ErrUnusable, first)
	}
	there, err := partsIn(dir)
	for _, part := range there {
		if err == nil && !slices.Contains(parts, part) && !slices.Contains(others, part) {
			err = fmt.Errorf("%w: %s is of another store: this one has no partition %d", ErrUnusable, partDir(dir, part), part)
		}
	}
	return err
}

func backupPart(ctx context.Context, data Data, to BackupTo) (done BackupDone, err error) {
	s, err := openExisting(data, false)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	done, err = BackupBy(ctx, (&storeAdmin{store: s}).Backup, to)
	if err == nil {
		// Behind the rows: no row's key is missing.
		done.RunKeys, err = s.CopyRunKeys(to.Dir)
	}
	if errors.Is(err, keyring.ErrForeign) {
		err = fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return done, err
}

// BackupBy writes a backup into a directory: everything if there is none yet or Full is
// set, else what is new since the last. A file that is there is whole and synced: what
// take wrote is proven before it has a name. One backup at a time is written into a
// directory. Errors: [ErrUnusable], those of take.
func BackupBy(ctx context.Context, take TakeBackup, to BackupTo) (done BackupDone, err error) {
	recipients, err := recipientsOf(to.Recipients)
	if err != nil {
		return done, err
	}
	if err := datadir.MakeDir(to.Dir); err != nil {
		return done, err
	}
	lock, err := datadir.LockDir(to.Dir)
	if errors.Is(err, datadir.ErrLocked) {
		return done, fmt.Errorf("%w: a backup is being written into %s", ErrUnusable, to.Dir)
	}
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
		if after, err = idOf(last); err != nil {
			return done, err
		}
		done.BasedOn = last
	}
	done.File, done.Bytes, err = writeSynced(to.Dir, func(out io.Writer) (name string, err error) {
		var h backup.Header
		err = sealed(out, recipients, func(out io.Writer) error {
			h, err = proven(after, out, func(out io.Writer) error { return take(ctx, after, out) })
			return err
		})
		return nameOf(number+1, h.ID, len(recipients) > 0), err
	})
	return done, err
}

// lastIn returns the newest backup of a directory and its number, "" = none. It removes the
// remains of interrupted backups: the directory has only one writer.
func lastIn(dir string) (number int, last string, err error) {
	if err := dropBroken(dir); err != nil {
		return 0, "", err
	}
	files, err := backupsIn(dir)
	if err != nil || len(files) == 0 {
		return 0, "", err
	}
	// It follows on that of the last file: earlier ones may have been removed.
	last = files[len(files)-1]
	number, _, err = numberOf(last)
	return number, last, err
}

// proven reads what is written along: it has to be a whole backup that follows on another.
func proven(after string, out io.Writer, write func(out io.Writer) error) (h backup.Header, err error) {
	read, along := io.Pipe()
	found := make(chan error, 1)
	go func() {
		var err error
		h, err = backup.Read(read, nil)
		if err == nil && h.Parent != after {
			err = fmt.Errorf("%w: it follows on %q, not on %q", backup.ErrInvalid, h.Parent, after)
		}
		_ = read.CloseWithError(err)
		found <- err
	}()
	if err := write(io.MultiWriter(out, along)); err != nil {
		_ = along.CloseWithError(err)
		<-found //nolint:errcheck // what is wrong with half of it is no news
		return h, err
	}
	return h, errors.Join(along.Close(), <-found)
}

// broken begins the names of backups that are being written.
const broken = ".backup-"

// dropBroken removes the remains of interrupted backups. The directory has only one writer.
func dropBroken(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), broken) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// backupsIn lists the backups of a directory in their order.
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

// writeSynced makes a file in a directory that has its name, which write says, only when it
// is whole and on disk.
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
	// A link, no rename: a file that came meanwhile is not replaced.
	path = filepath.Join(dir, name)
	return path, size, errors.Join(os.Link(f.Name(), path), datadir.SyncDir(dir))
}

// RestoreFrom is what a directory is made of.
type RestoreFrom struct {
	// Dir has the backups; UpTo names the last to take, "" = the newest.
	Dir, UpTo string
	// Identity is the file of the age identities that open encrypted ones.
	Identity string
	// RunKeys is the file of the keys of runs; "" = the copy beside the backups, if there is one.
	RunKeys string
}

// Restore makes a store in data, a directory that must be empty or absent or a schema of a database
// that has none, of the backups in a directory: of the last that has everything and all after it, or up to
// one; those of several partitions only in a schema. Everything is proven before the directory has its
// name, or anything is in the schema.
// Errors: [backup.ErrInvalid], [erasure.ErrNoRunKeys], [ErrUnusable], a *[PartsError], a *[CheckFault].
func Restore(ctx context.Context, from RestoreFrom, data Data) (report CheckReport, used []string, err error) {
	ids, err := identitiesOf(from.Identity)
	if err != nil {
		return report, nil, err
	}
	chains, err := chainsIn(from, data, ids)
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
	return report, used, err
}

// chainsIn are the backups to restore of each partition, the first one's first.
func chainsIn(from RestoreFrom, data Data, ids []age.Identity) (chains []backups, err error) {
	others, err := partsIn(from.Dir)
	if err != nil {
		return nil, err
	}
	parts := append([]int32{0}, others...)
	switch {
	case len(others) == 0:
	case data.Dir != "":
		return nil, fmt.Errorf("%w: %w", ErrUnusable, &PartsError{What: from.Dir, Parts: parts, Advice: "restore it into a database with --store"})
	case from.UpTo != "":
		return nil, fmt.Errorf("%w: --to is a backup of one partition, and %s has those of %d: remove what is newer from each directory instead", ErrUnusable, from.Dir, len(parts))
	case from.RunKeys != "":
		return nil, fmt.Errorf("%w: --run-keys is of one partition, and %s has those of %d: put each file beside its backups instead", ErrUnusable, from.Dir, len(parts))
	}
	for _, part := range parts {
		c := backups{part: part, from: from, ids: ids}
		c.from.Dir = partDir(from.Dir, part)
		if c.files, err = chainIn(c.from.Dir, from.UpTo, ids); err != nil {
			return nil, InPart(part, err)
		}
		chains = append(chains, c)
	}
	return chains, nil
}

// backups are some of a partition in their order, where they are, and what opens them.
type backups struct {
	part  int32
	from  RestoreFrom
	files []string
	ids   []age.Identity
}

// restore makes a directory of them.
func (c backups) restore(ctx context.Context, data Data) (report CheckReport, err error) {
	if dsn.Is(data.Dir) {
		return report, fmt.Errorf("%w: the URL of a database is no directory: give it as --store", ErrUnusable)
	}
	final, err := emptyAt(data.Dir)
	if err != nil {
		return report, err
	}
	data.Dir = final + ".restoring"
	// Remove the partial result, unless another process is writing it.
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
	// Not os.Rename, which refuses an empty directory in the place: it is replaced at once.
	if err := syscall.Rename(data.Dir, final); err != nil {
		err = &os.LinkError{Op: "rename", Old: data.Dir, New: final, Err: err}
		return report, errors.Join(err, os.RemoveAll(data.Dir))
	}
	return report, datadir.SyncDir(filepath.Dir(final))
}

// emptyAt follows links to the target of a path. The target is absent, or an empty directory;
// links and directory stay until a result replaces the directory.
func emptyAt(path string) (final string, err error) {
	final = filepath.Clean(path)
	at, err := filepath.EvalSymlinks(final)
	if err == nil {
		final = at
	} else if _, there := os.Lstat(final); there == nil {
		return "", fmt.Errorf("%w: %s is a link that leads nowhere: make the directory that it names", ErrUnusable, final)
	}
	entries, err := os.ReadDir(final)
	if errors.Is(err, fs.ErrNotExist) {
		return final, nil
	}
	if err != nil || len(entries) > 0 {
		return "", fmt.Errorf("%w: %s is not empty: restore into a directory of its own", ErrUnusable, final)
	}
	return final, nil
}

// placeKeys copies the keys of runs to where a store is made.
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
		err = fmt.Errorf("%w: there is no %s", ErrUnusable, runKeys)
	}
	return err
}

// chainIn are the files to restore, each proven, in an order that was tested.
func chainIn(dir, upTo string, ids []age.Identity) (chain []string, err error) {
	files, err := backupsIn(dir)
	if err != nil {
		return nil, err
	}
	var headers []backup.Header
	for _, file := range files {
		h, err := readBackup(file, ids)
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
