package keyring

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// FuzzOpen: Open accepts a file of keys with any content, or returns an error. Every slot of an open file
// returns its key or an error.
func FuzzOpen(f *testing.F) {
	master := bytes.Repeat([]byte{7}, 32)
	for _, under := range [][]byte{nil, master} {
		dir := f.TempDir()
		ring, err := Open(dir, under, nil)
		if err == nil {
			err = ring.Begin()
		}
		for range 2 {
			if err == nil {
				_, err = ring.Take()
			}
		}
		if err == nil {
			err = ring.Destroy(1, 5)
		}
		if err != nil {
			f.Fatal(err)
		}
		file, err := os.ReadFile(filepath.Join(dir, Name))
		if err != nil || ring.Close() != nil {
			f.Fatal(err)
		}
		f.Add(file[:slotsAt+3*slotBytes], len(under) > 0)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, file []byte, sealed bool) {
		if err := os.WriteFile(filepath.Join(dir, Name), file, 0o600); err != nil {
			t.Fatal(err)
		}
		var under []byte
		if sealed {
			under = master
		}
		ring, err := Open(dir, under, nil)
		if err != nil {
			return
		}
		for slot := uint64(0); slot <= ring.Slots()+1; slot++ {
			key, err := ring.LastKey(slot)
			if (key == nil) == (err == nil) {
				t.Errorf("slot %d: %v and %v", slot, key, err)
			}
			if err == nil && ring.DestroyedAt(slot) != 0 {
				t.Errorf("slot %d was destroyed, and has a key", slot)
			}
		}
		if err := ring.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
