package host

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAllocatedBytesLeavesHolesOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub", "full"), make([]byte, 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	hole := filepath.Join(dir, "hole")
	if err := os.WriteFile(hole, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(hole, 1<<30); err != nil {
		t.Fatal(err)
	}
	got, err := AllocatedBytes(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got < 100_000 || got > 1<<20 {
		t.Errorf("%d bytes; want about 100 000", got)
	}
}

func TestStrippedBinaryIsSmallerThanItsFile(t *testing.T) {
	t.Parallel()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := StrippedMB(path)
	if err != nil || got < 1 || got > float64(info.Size())/1e6 {
		t.Errorf("%v MB of %d bytes, %v", got, info.Size(), err)
	}
	plain := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(plain, make([]byte, 2_000_000), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := StrippedMB(plain); err != nil || got != 2 {
		t.Errorf("a file that is not ELF: %v MB, %v", got, err)
	}
}

func TestOwnMemoryIsPlausible(t *testing.T) {
	t.Parallel()
	if got, err := RSSMB(os.Getpid()); err != nil || got < 1 || got > 4000 {
		t.Errorf("%v MB, %v", got, err)
	}
	if _, err := RSSMB(-1); err == nil {
		t.Error("a process that is not there has memory")
	}
}

func TestMachineIsDescribed(t *testing.T) {
	t.Parallel()
	m := Describe(t.TempDir())
	if m.Cores < 1 || m.OS == "" || m.FileSystem == "" || m.CPU == "" {
		t.Errorf("%+v", m)
	}
}
