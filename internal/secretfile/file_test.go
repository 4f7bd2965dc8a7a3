package secretfile

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestModes holds every mode against both ways to read.
func TestModes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode := os.FileMode(0o400); mode <= 0o777; mode++ {
		if mode&0o400 == 0 {
			continue
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			name string
			read func(string) ([]byte, error)
			want bool
		}{
			{"Read", Read, mode&0o026 == 0},
			{"ReadTrusted", ReadTrusted, mode&0o022 == 0},
		} {
			got, err := tt.read(path)
			if tt.want != (err == nil) || tt.want != bytes.Equal(got, []byte("content")) {
				t.Errorf("%s of mode %04o: %q, %v", tt.name, mode, got, err)
			}
			if err != nil && (!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "chmod")) {
				t.Errorf("%s of mode %04o does not say what to do: %v", tt.name, mode, err)
			}
		}
	}
}

// TestTheTargetOfALinkIsJudged: the permissions of a link say nothing.
func TestTheTargetOfALinkIsJudged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(link); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(link); err == nil {
		t.Error("a link to what everybody may read was read")
	}
}

func TestEdges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Read(filepath.Join(dir, "absent")); !os.IsNotExist(err) {
		t.Errorf("an absent file: %v", err)
	}
	if _, err := Read(dir); err == nil {
		t.Error("a directory was read")
	}
	big := filepath.Join(dir, "big")
	if err := os.WriteFile(big, bytes.Repeat([]byte("x"), maxBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(big); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a file over the bound: %v", err)
	}
}
