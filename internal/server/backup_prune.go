package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"filippo.io/age"

	"github.com/pawl-dev/pawl/internal/store/backup"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Prune describes which backups of a directory stay.
type Prune struct {
	Dir string
	// Keep is the number of newest backups that are kept in each partition, at least 1. Backups that are at most
	// KeepFor old are kept, too. Earlier backups that a kept backup continues are also kept.
	Keep    int
	KeepFor time.Duration
	// Identity is the file with the age identities that decrypt the backups.
	Identity string
	// DryRun means that nothing is removed.
	DryRun bool
}

// PruneBackups removes the backups of a directory that no kept backup needs, and calls removed with each removed file.
// With DryRun it calls removed with each file that it would remove. It removes only files whose header it has read, and
// nothing if the newest backup of a partition could not be restored. If it is interrupted, every backup that is left
// still has the backups that it continues. Errors: [ErrUnusable], [backup.ErrInvalid].
func PruneBackups(ctx context.Context, p Prune, removed func(file string)) (err error) {
	if p.Keep < 1 || p.KeepFor < 0 {
		return fmt.Errorf("%w: --keep must be at least 1 and --keep-for at least 0s", ErrUnusable)
	}
	ids, err := identitiesOf(p.Identity)
	if err != nil {
		return err
	}
	others, err := partsIn(p.Dir)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	parts := append([]int32{0}, others...)
	var locks []*datadir.DirLock
	defer func() {
		for _, lock := range locks {
			err = errors.Join(err, lock.Release())
		}
	}()
	// Every partition is locked and verified before the first file is removed.
	old := make([][]string, len(parts))
	for i, part := range parts {
		dir := partDir(p.Dir, part)
		lock, err := lockBackups(dir)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: %w", ErrUnusable, err)
		}
		if err == nil {
			locks = append(locks, lock)
			old[i], err = p.oldBackups(ctx, dir, ids)
		}
		if err != nil {
			return InPart(part, fmt.Errorf("nothing was removed: %w", err))
		}
	}
	for i, part := range parts {
		if err := p.remove(ctx, old[i], removed); err != nil {
			return InPart(part, err)
		}
	}
	return nil
}

// remove removes backups of one partition, in the order of old.
func (p Prune) remove(ctx context.Context, old []string, removed func(file string)) (err error) {
	for _, file := range old {
		if err = ctx.Err(); err == nil && !p.DryRun {
			err = os.Remove(file)
		}
		if err != nil {
			return marked(err)
		}
		removed(file)
	}
	if len(old) == 0 || p.DryRun {
		return nil
	}
	return datadir.SyncDir(filepath.Dir(old[0]))
}

// oldBackups returns the backups that may be removed, the newest first, so that a backup is removed only after the
// backups that continue it.
func (p Prune) oldBackups(ctx context.Context, dir string, ids []age.Identity) (old []string, err error) {
	files, err := backupsIn(dir)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%w: %s has no backups", ErrUnusable, dir)
	}
	if err != nil {
		return nil, err
	}
	headers := make([]backup.Header, len(files))
	for i, file := range files {
		if headers[i], err = headerOf(file, ids); err != nil {
			return nil, err
		}
	}
	first := p.firstKept(headers, time.Now())
	if first == 0 {
		return nil, nil
	}
	if _, _, err := chainIn(ctx, dir, "", ids); err != nil {
		return nil, err
	}
	slices.Reverse(files[:first])
	return files[:first], nil
}

// firstKept returns the index of the oldest backup that is kept. All younger backups are kept, too, even if the clock
// was wrong when one of them was made.
func (p Prune) firstKept(headers []backup.Header, now time.Time) int {
	first := max(0, len(headers)-p.Keep)
	young := slices.IndexFunc(headers[:first], func(h backup.Header) bool { return now.Sub(time.Unix(0, h.At)) < p.KeepFor })
	if p.KeepFor > 0 && young >= 0 {
		first = young
	}
	for first > 0 && headers[first].Parent != "" {
		first--
	}
	return first
}

// errHeaderRead ends the reading of a backup after its header.
var errHeaderRead = errors.New("the header was read")

// headerOf reads the header of a backup file. The name of the file must be that of a backup.
func headerOf(path string, ids []age.Identity) (h backup.Header, err error) {
	if _, _, err := numberOf(path); err != nil {
		return h, err
	}
	f, err := openBackup(path, ids)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h, err = backup.Read(f, func([]layout.Op) error { return errHeaderRead })
	if err != nil && !errors.Is(err, errHeaderRead) {
		return h, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}
