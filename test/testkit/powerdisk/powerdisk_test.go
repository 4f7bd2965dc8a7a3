package powerdisk

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// programs are run in a process of their own, on a mounted disk: a process that serves a
// file system must not map its files.
var programs = map[string]func(dir string) error{
	"write": func(dir string) error { return os.WriteFile(filepath.Join(dir, "f"), text, 0o600) },
	"write, sync": func(dir string) error {
		return errors.Join(writeSynced(filepath.Join(dir, "f"), text), syncDir(dir))
	},
	"write, sync of the file alone": func(dir string) error { return writeSynced(filepath.Join(dir, "f"), text) },
	"write, sync of the file alone in a new directory": func(dir string) error {
		sub := filepath.Join(dir, "sub")
		return errors.Join(os.Mkdir(sub, 0o700), writeSynced(filepath.Join(sub, "f"), text))
	},
	"rename, sync of what was renamed": func(dir string) error {
		name := filepath.Join(dir, "f")
		err := errors.Join(writeSynced(name, older), syncDir(dir), os.Remove(name), writeSynced(name+"2", text), os.Rename(name+"2", name))
		f, openErr := os.Open(name)
		if openErr != nil {
			return openErr
		}
		return errors.Join(err, f.Sync(), f.Close())
	},
	"write over what is synced": func(dir string) error {
		return errors.Join(writeSynced(filepath.Join(dir, "f"), older), syncDir(dir), os.WriteFile(filepath.Join(dir, "f"), text, 0o600))
	},
	"rename": func(dir string) error {
		return errors.Join(
			writeSynced(filepath.Join(dir, "f"), older), writeSynced(filepath.Join(dir, "new"), text), syncDir(dir),
			os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "f")))
	},
	"remove": func(dir string) error {
		return errors.Join(writeSynced(filepath.Join(dir, "f"), text), syncDir(dir), os.Remove(filepath.Join(dir, "f")))
	},
	"map":        func(dir string) error { return writeMapped(dir, false) },
	"map, msync": func(dir string) error { return writeMapped(dir, true) },
}

// text and older have as many bytes, over some pages.
var (
	text  = bytes.Repeat([]byte("new text"), 3*pageBytes/8)
	older = bytes.Repeat([]byte("old text"), 3*pageBytes/8)
)

func writeSynced(name string, b []byte) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// writeMapped writes as Badger writes its logs.
func writeMapped(dir string, synced bool) error {
	f, err := os.Create(filepath.Join(dir, "f"))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := errors.Join(f.Truncate(int64(len(text))), f.Sync(), syncDir(dir)); err != nil {
		return err
	}
	m, err := unix.Mmap(int(f.Fd()), 0, len(text), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	copy(m, text)
	if synced {
		err = unix.Msync(m, unix.MS_SYNC)
	}
	return err
}

const programOf = "PAWL_POWERDISK_PROGRAM"

func TestMain(m *testing.M) {
	if name := os.Getenv(programOf); name != "" {
		if err := programs[name](os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// mounted mounts a disk for as long as run lasts; false where there is no FUSE.
func mounted(t *testing.T, d *Disk, run func(dir string)) bool {
	t.Helper()
	dir := t.TempDir()
	unmount, err := d.Mount(dir)
	if errors.Is(err, ErrNoFUSE) {
		t.Logf("NOT RUN: %v", err)
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	run(dir)
	if err := unmount(); err != nil {
		t.Fatal(err)
	}
	return true
}

// left is what became of the file in one cut.
func left(t *testing.T, f Faults, program string, seed uint64) (end string, there bool) {
	t.Helper()
	d := New()
	d.Set(f)
	there = mounted(t, d, func(dir string) {
		cmd := exec.Command(os.Args[0], dir)
		cmd.Env = append(os.Environ(), programOf+"="+program)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", program, err, out)
		}
		d.PowerOff()
	})
	if !there {
		return "", false
	}
	d.Cut(rand.New(rand.NewPCG(seed, 1)))
	mounted(t, d, func(dir string) {
		got, err := os.ReadFile(filepath.Join(dir, "f"))
		if errors.Is(err, os.ErrNotExist) {
			got, err = os.ReadFile(filepath.Join(dir, "sub", "f"))
		}
		switch {
		case errors.Is(err, os.ErrNotExist):
			end = "none"
		case err != nil:
			t.Fatal(err)
		case bytes.Equal(got, text):
			end = "new"
		case bytes.Equal(got, older):
			end = "old"
		case len(bytes.Trim(got, "\x00")) == 0:
			end = "empty"
		default:
			end = "mixed"
		}
	})
	return end, true
}

// TestWhatIsNotSyncedIsLost: over some cuts a program that does not sync loses what it
// wrote in every way that it may be lost, and one that does never loses anything.
func TestWhatIsNotSyncedIsLost(t *testing.T) {
	t.Parallel()
	for program, c := range map[string]struct {
		faults Faults
		// some ends have to be seen, others must not be.
		some []string
		may  []string
	}{
		"write":                         {some: []string{"none", "new"}, may: []string{"empty", "mixed"}},
		"write, sync":                   {some: []string{"new"}},
		"write, sync of the file alone": {some: []string{"new"}},
		"write, sync of the file alone in a new directory": {some: []string{"none", "new"}},
		"rename, sync of what was renamed":                 {some: []string{"new"}},
		"write over what is synced":                        {some: []string{"old", "new"}, may: []string{"mixed", "empty"}},
		"rename":                                           {some: []string{"old", "new"}},
		"remove":                                           {some: []string{"none", "new"}},
		"map":                                              {some: []string{"empty", "new"}, may: []string{"mixed"}},
		"map, msync":                                       {some: []string{"new"}},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			expectEnds(t, c.faults, program, c.some, c.may)
		})
	}
}

// TestLiesAreTold: where the disk answers syncs without doing them, a program that syncs
// loses as one that does not.
func TestLiesAreTold(t *testing.T) {
	t.Parallel()
	expectEnds(t, Faults{Lies: true}, "write, sync", []string{"none", "new"}, []string{"empty", "mixed"})
	expectEnds(t, Faults{Lies: true}, "map, msync", []string{"none", "new"}, []string{"empty", "mixed"})
}

// expectEnds cuts with one seed after the other until all of some were seen, and then for
// as long again; nothing but some and may is seen.
func expectEnds(t *testing.T, f Faults, program string, some, may []string) {
	t.Helper()
	seen := map[string]int{}
	missing := func() bool {
		return slices.ContainsFunc(some, func(end string) bool { return seen[end] == 0 })
	}
	for seed := uint64(0); seed < 24 || missing() && seed < 1000; seed++ {
		end, there := left(t, f, program, seed)
		if !there {
			return
		}
		seen[end]++
		if !slices.Contains(some, end) && !slices.Contains(may, end) {
			t.Fatalf("seed %d: the file is %s", seed, end)
		}
	}
	if missing() {
		t.Errorf("%v, want some of each of %v", seen, some)
	}
	t.Log(seen)
}

// TestFaults: a bad disk says so in the errors that a bad disk has.
func TestFaults(t *testing.T) {
	t.Parallel()
	d := New()
	mounted(t, d, func(dir string) {
		name := filepath.Join(dir, "f")
		if err := writeSynced(name, text); err != nil {
			t.Fatal(err)
		}
		for want, f := range map[error]Faults{syscall.EROFS: {ReadOnly: true}, syscall.ENOSPC: {Full: true}} {
			d.Set(f)
			if err := writeSynced(name+"2", text); !errors.Is(err, want) {
				t.Errorf("%v instead of %v", err, want)
			}
			if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, text) {
				t.Errorf("%v: it cannot be read: %v", want, err)
			}
		}
	})
}

// TestHoles: what was never written is found to be a hole, as sparse files need it.
func TestHoles(t *testing.T) {
	t.Parallel()
	f := newFile(0o600)
	f.truncate(100 * pageBytes)
	f.write(text, 10*pageBytes)
	if data, hole := f.nextData(0), f.nextHole(10*pageBytes); data != 10*pageBytes || hole != 13*pageBytes || f.nextData(hole) != -1 {
		t.Errorf("data at %d, a hole at %d", data, hole)
	}
	f.truncate(11*pageBytes + 5)
	f.truncate(100 * pageBytes)
	got := make([]byte, 2*pageBytes)
	f.read(got, 10*pageBytes)
	if want := append(slices.Clone(text[:pageBytes+5]), make([]byte, pageBytes-5)...); !bytes.Equal(got, want) {
		t.Error("what was cut off is there again")
	}
}
