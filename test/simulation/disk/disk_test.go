package disk_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/pawl-dev/pawl/test/simulation/disk"
)

// TestCrash checks that a power failure loses what was not synced, that the death of a process loses
// nothing that was written, and that a dead process changes nothing.
func TestCrash(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 1))
	lost := 0
	for _, power := range []bool{true, false} {
		for range 50 {
			d := disk.New(t.Name())
			f := d.Create(d.Life(), "f")
			write(t, f, "old")
			if err := errors.Join(f.Sync(), d.Append(d.Life(), &disk.Group{TS: 1}, true)); err != nil {
				t.Fatal(err)
			}
			write(t, f, "new")
			if err := d.Append(d.Life(), &disk.Group{TS: 2}, false); err != nil {
				t.Fatal(err)
			}
			life := d.Life()
			d.Crash(power, dice)
			data, err := d.ReadFile("f")
			groups := len(d.Image())
			if err != nil || groups < 1 || !power && (groups != 2 || string(data) != "new") || !bytes.Equal(data, []byte("old")) && !bytes.Equal(data, []byte("new")) {
				t.Fatalf("power %v: %d groups, file %q, %v", power, groups, data, err)
			}
			if groups == 1 {
				lost++
			}
			if _, err := f.WriteAt([]byte("late"), 0); !errors.Is(err, disk.ErrCrashed) {
				t.Fatalf("a dead process wrote: %v", err)
			}
			if err := d.Append(life, &disk.Group{TS: 3}, true); !errors.Is(err, disk.ErrCrashed) {
				t.Fatalf("a dead process committed: %v", err)
			}
		}
	}
	disk.Forget(t.Name())
	if lost < 10 || lost > 40 {
		t.Errorf("%d of 50 losses of power lost the unsynced group", lost)
	}
}

func write(t *testing.T, f *disk.Handle, text string) {
	t.Helper()
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

// TestRotTakesWhatWasAnswered checks that [Disk.Rot] removes a group whose callers were answered, and
// gives it back. It does not remove a group that is only synced.
func TestRotTakesWhatWasAnswered(t *testing.T) {
	t.Parallel()
	d := disk.New(t.Name())
	defer disk.Forget(t.Name())
	for ts := range uint64(3) {
		if err := d.Append(d.Life(), &disk.Group{TS: ts + 1}, true); err != nil {
			t.Fatal(err)
		}
		if ts == 1 {
			d.Settled()
		}
	}
	if _, lost := d.Rot(); lost {
		t.Fatal("a group was taken that nobody was told of")
	}
	d.Answered()
	heal, lost := d.Rot()
	if groups := len(d.Image()); !lost || groups != 1 {
		t.Fatalf("%d groups are left, lost %v", groups, lost)
	}
	if heal(); len(d.Image()) != 3 {
		t.Fatal("the groups are not given back")
	}
}
