package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestMakeDirSyncsNames: makeDir syncs the directory that contains the name. It does so even for a directory
// that exists, because the process that made it may have been killed before the sync.
func TestMakeDirSyncsNames(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	var synced []string
	sync := func(dir string) error {
		synced = append(synced, dir)
		return nil
	}
	inner := filepath.Join(top, "a", "b")
	for _, want := range [][]string{{top, top, filepath.Join(top, "a")}, {filepath.Join(top, "a")}} {
		synced = nil
		if err := makeDir(inner, sync); err != nil || !slices.Equal(slices.Compact(synced), slices.Compact(want)) {
			t.Errorf("synced %q, want %q, %v", synced, want, err)
		}
	}
	for _, refused := range []error{os.ErrPermission, errors.New("disk")} {
		err := makeDir(inner, func(string) error { return refused })
		if (err == nil) != errors.Is(refused, os.ErrPermission) {
			t.Errorf("refused with %v: %v", refused, err)
		}
	}
	file := filepath.Join(top, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := makeDir(file, sync); err == nil {
		t.Error("a file is no directory")
	}
}

// TestMakeDirWhereNoneCanBe: if the file system accepts no directory, makeDir returns an error at once.
func TestMakeDirWhereNoneCanBe(t *testing.T) {
	t.Parallel()
	if err := MakeDir("/proc/pawl/data"); err == nil {
		t.Error("made a directory in /proc")
	}
}
