package server

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// backedUp is a directory with one backup.
func backedUp(t *testing.T) (dir string) {
	t.Helper()
	c := settings(t)
	s := serveToEnd(t, c)
	s.stop()
	ended := <-s.ended
	if s.ended <- ended; ended != nil { // its end is looked at once more
		t.Fatal(ended)
	}
	dir = t.TempDir()
	if err := Backup(t.Context(), dataOf(c), BackupTo{Dir: dir}, func(BackupDone) {}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestRestoreLeavesThePlace: a restore that fails leaves the empty directory and the link where
// they were, so that the next one follows the link; a link that leads nowhere, a directory that
// is not empty and a file are refused before anything is done.
func TestRestoreLeavesThePlace(t *testing.T) {
	t.Parallel()
	from, above := backedUp(t), t.TempDir()
	place, link := filepath.Join(above, "real"), filepath.Join(above, "link")
	if err := errors.Join(os.Mkdir(place, 0o700), os.Symlink(place, link)); err != nil {
		t.Fatal(err)
	}
	isLink := func() bool {
		info, err := os.Lstat(link)
		return err == nil && info.Mode()&os.ModeSymlink != 0
	}
	if _, _, err := Restore(t.Context(), RestoreFrom{Dir: from, RunKeys: filepath.Join(above, "none")}, Data{Dir: link}); !errors.Is(err, ErrUnusable) {
		t.Fatalf("got %v", err)
	}
	if _, err := os.Stat(place); err != nil || !isLink() {
		t.Fatalf("a failed restore: %v, the link stays: %v", err, isLink())
	}
	if _, _, err := Restore(t.Context(), RestoreFrom{Dir: from}, Data{Dir: link}); err != nil || !isLink() {
		t.Fatalf("%v, the link stays: %v", err, isLink())
	}
	if there, err := os.ReadDir(place); err != nil || len(there) == 0 {
		t.Errorf("%v in the directory, %v", there, err)
	}
	file, nowhere := filepath.Join(above, "file"), filepath.Join(above, "nowhere")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(filepath.Join(above, "absent"), nowhere)); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{place, link, file, nowhere} {
		if _, used, err := Restore(t.Context(), RestoreFrom{Dir: from}, Data{Dir: to}); !errors.Is(err, ErrUnusable) || len(used) > 0 {
			t.Errorf("into %s: %v, %v", to, used, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(above, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the end of the link was made: %v", err)
	}
}

// TestBrokenBackupsStayInTheirDirectory: the name of a directory is no pattern.
func TestBrokenBackupsStayInTheirDirectory(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	for _, dir := range []string{"to[1]", "to1"} {
		if err := os.Mkdir(filepath.Join(above, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(above, dir, broken+"x"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := dropBroken(filepath.Join(above, "to[1]")); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]int{"to[1]": 0, "to1": 1} {
		if left, err := os.ReadDir(filepath.Join(above, dir)); err != nil || len(left) != want {
			t.Errorf("%s: %v, %v", dir, left, err)
		}
	}
}
