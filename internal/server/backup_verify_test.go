package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/backup"
	"github.com/pawl-dev/pawl/internal/store/datadir"
)

// endsOnce is a context that ends when a directory has an entry.
type endsOnce struct {
	context.Context
	dir string
}

func (c endsOnce) Err() error {
	if there, err := os.ReadDir(c.dir); err != nil || len(there) > 0 {
		return context.Canceled
	}
	return nil
}

// TestInterruptedVerificationLeavesNothing: a verification that is interrupted while it restores removes its directory.
func TestInterruptedVerificationLeavesNothing(t *testing.T) {
	t.Parallel()
	from, scratch := t.TempDir(), t.TempDir()
	if err := Backup(t.Context(), Data{Dir: copyGolden(t, store.FormatVersion)}, BackupTo{Dir: from}, func(BackupDone) {}); err != nil {
		t.Fatal(err)
	}
	d := BackupVerification{From: RestoreFrom{Dir: from}, Restore: true, Scratch: scratch}
	if _, err := VerifyBackups(endsOnce{t.Context(), scratch}, d); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	if done, err := VerifyBackups(t.Context(), d); err != nil || done.Report.Runs != 7 || len(done.Files) != 1 || done.At.IsZero() {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestOneCommandAtATime: while one command changes a directory of backups, another one is refused and
// nothing changes; a prune that ends early leaves every backup with those that it continues.
func TestOneCommandAtATime(t *testing.T) {
	t.Parallel()
	dir, data := t.TempDir(), Data{Dir: copyGolden(t, store.FormatVersion)}
	for _, full := range []bool{true, false, true, false, true} {
		if err := Backup(t.Context(), data, BackupTo{Dir: dir, Full: full}, func(BackupDone) {}); err != nil {
			t.Fatal(err)
		}
	}
	p := Prune{Dir: dir, Keep: 1}
	lock, err := lockBackups(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := PruneBackups(t.Context(), p, func(string) {}); !errors.Is(err, ErrUnusable) {
		t.Errorf("a prune beside another command: %v", err)
	}
	if err := Backup(t.Context(), data, BackupTo{Dir: dir}, func(BackupDone) {}); !errors.Is(err, ErrUnusable) {
		t.Errorf("a backup beside another command: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	for left := 4; left > 0; left-- {
		ctx, stop := context.WithCancel(t.Context())
		err := PruneBackups(ctx, p, func(string) { stop() })
		stop()
		if files, listErr := backupsIn(dir); listErr != nil || len(files) != left || left > 1 && !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, %v, %v", files, listErr, err)
		}
		for _, file := range []string{"", "000001.pawlbackup", "000002.pawlbackup", "000003.pawlbackup", "000004.pawlbackup"}[:left] {
			if _, err := VerifyBackups(t.Context(), BackupVerification{From: RestoreFrom{Dir: dir, UpTo: file}}); err != nil {
				t.Errorf("%d are left, %q: %v", left, file, err)
			}
		}
	}
}

// fourBackups is a directory with two full backups, each followed by another one.
func fourBackups(t *testing.T) (dir string) {
	t.Helper()
	dir, data := t.TempDir(), Data{Dir: copyGolden(t, store.FormatVersion)}
	for _, full := range []bool{true, false, true, false} {
		if err := Backup(t.Context(), data, BackupTo{Dir: dir, Full: full}, func(BackupDone) {}); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// damage changes a byte of a file near its end.
func damage(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-40] ^= 1
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestPruneLooksAtAllPartitionsFirst: a damaged backup of a later partition keeps the files of all.
func TestPruneLooksAtAllPartitionsFirst(t *testing.T) {
	t.Parallel()
	dir := fourBackups(t)
	second, copied := partDir(dir, 2), filepath.Join(t.TempDir(), "copy")
	if err := errors.Join(os.CopyFS(copied, os.DirFS(dir)), os.Rename(copied, second)); err != nil {
		t.Fatal(err)
	}
	newest := filepath.Join(second, "000004.pawlbackup")
	damage(t, newest)
	p := Prune{Dir: dir, Keep: 1}
	removed := func(file string) { t.Errorf("%s was removed", file) }
	if err := PruneBackups(t.Context(), p, removed); !errors.Is(err, backup.ErrInvalid) || PartOf(err) != 2 {
		t.Errorf("got %v", err)
	}
	for _, part := range []string{dir, second} {
		if files, err := backupsIn(part); err != nil || len(files) != 4 {
			t.Errorf("%v are left, %v", files, err)
		}
	}
	damage(t, newest) // It is whole again.
	gone := 0
	if err := PruneBackups(t.Context(), p, func(string) { gone++ }); err != nil || gone != 4 {
		t.Errorf("%d were removed, %v", gone, err)
	}
}

// TestDamageBeforeTheLastFullBackup: it prevents neither a restore nor a verification; damage after it does.
func TestDamageBeforeTheLastFullBackup(t *testing.T) {
	t.Parallel()
	from, above := RestoreFrom{Dir: fourBackups(t)}, t.TempDir()
	damage(t, filepath.Join(from.Dir, "000001.pawlbackup"))
	if done, err := VerifyBackups(t.Context(), BackupVerification{From: from}); err != nil || len(done.Files) != 2 {
		t.Errorf("%v, %v", done.Files, err)
	}
	if report, used, err := Restore(t.Context(), from, Data{Dir: filepath.Join(above, "whole")}); err != nil || len(used) != 2 || report.Runs != 7 {
		t.Errorf("%+v, %v, %v", report, used, err)
	}
	upTo := RestoreFrom{Dir: from.Dir, UpTo: "000002.pawlbackup"}
	if _, err := VerifyBackups(t.Context(), BackupVerification{From: upTo}); !errors.Is(err, backup.ErrInvalid) {
		t.Errorf("up to one that continues it: %v", err)
	}
	damage(t, filepath.Join(from.Dir, "000003.pawlbackup"))
	if _, err := VerifyBackups(t.Context(), BackupVerification{From: from}); !errors.Is(err, backup.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if _, _, err := Restore(t.Context(), from, Data{Dir: filepath.Join(above, "none")}); !errors.Is(err, backup.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

// TestPruneKeepsYoungBackups: the oldest young backup and all after it stay, also if the clock was wrong at one of them.
func TestPruneKeepsYoungBackups(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	for name, tt := range map[string]struct {
		ages    []int // of full backups, in hours
		keep    int
		keepFor time.Duration
		want    int
	}{
		"by number":           {[]int{5, 4, 3, 2}, 1, 0, 3},
		"more than there are": {[]int{5, 4}, 3, 0, 0},
		"by age":              {[]int{5, 4, 3, 2}, 1, 4 * time.Hour, 2},
		"all are old":         {[]int{5, 4, 3, 2}, 2, time.Hour, 2},
		"an early clock":      {[]int{9, 3, 900, 2, 1}, 1, 4 * time.Hour, 1},
		"a late clock":        {[]int{9, -900, 7, 6}, 1, 0, 3},
	} {
		var headers []backup.Header
		for _, age := range tt.ages {
			headers = append(headers, backup.Header{At: now.Add(-time.Duration(age) * time.Hour).UnixNano()})
		}
		if got := (Prune{Keep: tt.keep, KeepFor: tt.keepFor}).firstKept(headers, now); got != tt.want {
			t.Errorf("%s: %d is the first that stays, want %d", name, got, tt.want)
		}
	}
}

// TestFullScratchIsUnusable: a full disk says nothing about the backups.
func TestFullScratchIsUnusable(t *testing.T) {
	t.Parallel()
	for _, err := range []error{&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, &machine.Error{Reason: datadir.DiskLow}} {
		if got := scratchError(err); !errors.Is(got, ErrUnusable) || !errors.Is(got, err) {
			t.Errorf("got %v", got)
		}
	}
	if got := scratchError(backup.ErrInvalid); errors.Is(got, ErrUnusable) {
		t.Errorf("got %v", got)
	}
}
