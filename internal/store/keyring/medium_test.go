package keyring_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/keyring/keyringtest"
	"github.com/pawl-dev/pawl/internal/store/seal"
)

// TestMedia holds those that are here to what a ring needs.
func TestMedia(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		memory := &keyringtest.Memory{}
		keyringtest.Run(t, func(*testing.T) keyring.Medium { return memory })
	})
	t.Run("file", func(t *testing.T) {
		dir := t.TempDir()
		keyringtest.Run(t, func(t *testing.T) keyring.Medium {
			t.Helper()
			file, err := keyring.InFile(dir)
			if err != nil {
				t.Fatal(err)
			}
			return file
		})
	})
}

// TestAWriteThatFails leaves a key where it is, and says so.
func TestAWriteThatFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("the line is broken")
	memory := &keyringtest.Memory{Fail: func(string) error { return broken }}
	ring, err := keyring.On(memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ring.Begin(); !errors.Is(err, broken) {
		t.Fatalf("begun: %v", err)
	}
	memory.Fail = nil
	if err := ring.Begin(); err != nil {
		t.Fatal(err)
	}
	key, err := ring.Take()
	if err != nil {
		t.Fatal(err)
	}
	memory.Fail = func(string) error { return broken }
	if err := ring.Destroy(key.Slot, 5); !errors.Is(err, broken) {
		t.Fatalf("destroyed: %v", err)
	}
	if _, err := ring.Key(key.Slot); !errors.Is(err, seal.ErrDestroyed) {
		t.Errorf("a key whose destruction was begun is given out: %v", err)
	}
	if at := ring.DestroyedAt(key.Slot); at != 0 {
		t.Errorf("it was destroyed at %d, and the medium has it", at)
	}
	memory.Fail = nil
	if err := ring.Destroy(key.Slot, 6); err != nil || ring.DestroyedAt(key.Slot) != 6 {
		t.Errorf("destroyed again: %v, at %d", err, ring.DestroyedAt(key.Slot))
	}
}

// TestInto: the keys go to another medium and back, under a master key or none, each into its
// slot, and what was destroyed or damaged stays so.
func TestInto(t *testing.T) {
	t.Parallel()
	master := bytes.Repeat([]byte{7}, 32)
	for name, under := range map[string][2][]byte{
		"plain to plain": {nil, nil}, "sealed to plain": {master, nil},
		"plain to sealed": {nil, master}, "sealed to sealed": {master, bytes.Repeat([]byte{8}, 32)},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := &keyringtest.Memory{}, &keyringtest.Memory{}
			ring := ringOn(t, from, under[0])
			if err := ring.CopyToMedium(to, under[1]); err != nil {
				t.Fatal(err)
			}
			if _, there, _ := to.Size(); there {
				t.Fatal("there was nothing to take along")
			}
			if err := ring.Begin(); err != nil {
				t.Fatal(err)
			}
			for range 70 {
				if _, err := ring.Take(); err != nil {
					t.Fatal(err)
				}
			}
			if err := ring.Destroy(3, 33); err != nil {
				t.Fatal(err)
			}
			// Slot 5 is damaged.
			if err := from.Write("", []byte{9, 9, 9}, 512+4*128); err != nil {
				t.Fatal(err)
			}
			if err := ring.CopyToMedium(to, under[1]); err != nil {
				t.Fatal(err)
			}
			keyringtest.CheckSame(t, ringOn(t, to, under[1]), ring)
			if err := ring.CopyToMedium(to, under[1]); err == nil {
				t.Error("what was there is written over")
			}
		})
	}
}

func ringOn(t *testing.T, medium keyring.Medium, master []byte) *keyring.Ring {
	t.Helper()
	ring, err := keyring.On(medium, master)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}
