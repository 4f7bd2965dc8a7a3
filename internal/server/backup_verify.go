package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/internal/store/datadir"
)

// BackupVerification describes how [VerifyBackups] verifies backups.
type BackupVerification struct {
	// From names the backups to verify. From.Dir is their directory, or the file of the last backup to verify.
	From RestoreFrom
	// Restore means that the backups are also restored and that the result is checked.
	Restore bool
	// Scratch is the directory in which the store is restored, in a new directory that is removed at the
	// end. "" means the system's directory for temporary files.
	Scratch string
	// KeyFile is the file with the key that encrypts the restored store. "" means no encryption.
	KeyFile string
}

// VerifiedBackups is the result of [VerifyBackups].
type VerifiedBackups struct {
	// Files are the backups that a restore needs, and Bytes is the sum of their sizes.
	Files []string
	Bytes int64
	// At is the time to which a restore would go back: the time at which the last backup began. If there are several
	// partitions, it is the earliest of these times.
	At time.Time
	// Report contains the counts of the check of the restored store. It is zero if nothing was restored.
	Report CheckReport
}

// VerifyBackups reads the backups that a restore would use, verifies their digests and their order, and
// with v.Restore restores them for the time of the call and checks the result. It changes neither the
// backups nor another store, and leaves no file. Errors: those of [Restore].
func VerifyBackups(ctx context.Context, v BackupVerification) (done VerifiedBackups, err error) {
	chains, err := v.chains(ctx)
	if err != nil {
		return done, err
	}
	for _, c := range chains {
		if at := time.Unix(0, c.headers[len(c.headers)-1].At); done.At.IsZero() || at.Before(done.At) {
			done.At = at
		}
		for _, file := range c.files {
			info, err := os.Stat(file)
			if err != nil {
				return done, err
			}
			done.Files, done.Bytes = append(done.Files, file), done.Bytes+info.Size()
		}
	}
	if v.Restore {
		done.Report, err = v.restoreInScratch(ctx, chains)
	}
	return done, err
}

// chains returns the backups to verify, by partition. If From.Dir is a file, only the partition of this file is
// verified, and From.UpTo is not used.
func (v BackupVerification) chains(ctx context.Context) ([]backups, error) {
	info, err := os.Stat(v.From.Dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	ids, err := identitiesOf(v.From.Identity)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return chainsIn(ctx, v.From, Data{}, ids) // without a target directory, several partitions are allowed
	}
	one := backups{from: v.From, ids: ids}
	one.from.Dir = filepath.Dir(v.From.Dir)
	one.files, one.headers, err = chainIn(ctx, one.from.Dir, filepath.Base(v.From.Dir), ids)
	return []backups{one}, err
}

// restoreInScratch restores the backups into a new directory, which it removes again.
func (v BackupVerification) restoreInScratch(ctx context.Context, chains []backups) (report CheckReport, err error) {
	if v.Scratch != "" {
		if held, err := datadir.HasStore(v.Scratch); err != nil || held {
			return report, errors.Join(fmt.Errorf("%w: %s must be a directory without a store: name another one with --scratch", ErrUnusable, v.Scratch), err)
		}
	}
	scratch, err := os.MkdirTemp(v.Scratch, "pawl-verify-*")
	if err != nil {
		return report, scratchError(err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	_, report, err = restoreEach(ctx, chains, Data{Dir: scratch, KeyFile: v.KeyFile})
	return report, scratchError(err)
}

// scratchError makes it clear that a full disk is a problem of the scratch directory and not a fault of the backups.
func scratchError(err error) error {
	if diskFull(err) {
		return fmt.Errorf("%w: name a directory with more space with --scratch: %w", ErrUnusable, err)
	}
	return err
}
