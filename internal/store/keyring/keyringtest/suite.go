package keyringtest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/seal"
)

// Run tests a medium. open opens the medium. After the test has closed it, open must return the same
// bytes again.
func Run(t *testing.T, open func(t *testing.T) keyring.Medium) {
	t.Helper()
	ring := openRing(t, open)
	if _, there := ring.ID(); there {
		t.Fatal("what was not begun is there")
	}
	if _, err := ring.Take(); !errors.Is(err, layout.ErrDamaged) {
		t.Fatalf("a key of what was not begun: %v", err)
	}
	if err := errors.Join(ring.Begin(), ring.Begin()); err != nil {
		t.Fatal(err)
	}
	keys := takeKeys(t, ring, 150)
	for _, slot := range []uint64{1, 2, 64, 65, 150} {
		if err := ring.Destroy(slot, int64(slot)); err != nil {
			t.Fatal(err)
		}
	}
	id, _ := ring.ID()
	slots := ring.Slots()
	checkKeys(t, ring, keys)
	closeRing(t, ring)

	ring = openRing(t, open)
	if again, there := ring.ID(); !there || again != id || ring.Slots() != slots {
		t.Errorf("opened again: %x (%v) with %d keys, want %x with %d", again, there, ring.Slots(), id, slots)
	}
	checkKeys(t, ring, keys)
	more := takeKeys(t, ring, 1)[0]
	if more.Slot <= slots {
		t.Errorf("key %d is given out a second time", more.Slot)
	}
	closeRing(t, ring)
	ring = openRing(t, open)
	checkKeys(t, ring, append(keys, more))
	closeRing(t, ring)
}

func openRing(t *testing.T, open func(t *testing.T) keyring.Medium) *keyring.Ring {
	t.Helper()
	ring, err := keyring.On(open(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func closeRing(t *testing.T, ring *keyring.Ring) {
	t.Helper()
	if err := errors.Join(ring.Close(), ring.Close()); err != nil {
		t.Fatal(err)
	}
}

func takeKeys(t *testing.T, ring *keyring.Ring, n int) (keys []*seal.Key) {
	t.Helper()
	for range n {
		key, err := ring.Take()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	return keys
}

// checkKeys checks that the ring (a collection of run keys) has the given keys in their slots, except those
// that it reports as destroyed. The time of a destruction must be the number of the slot, because Run passes
// this number to Destroy.
func checkKeys(t *testing.T, ring *keyring.Ring, keys []*seal.Key) {
	t.Helper()
	for _, want := range keys {
		got, err := ring.LastKey(want.Slot)
		if at := ring.DestroyedAt(want.Slot); at != 0 {
			if uint64(at) != want.Slot || !errors.Is(err, seal.ErrDestroyed) {
				t.Errorf("key %d: destroyed at %d, %v", want.Slot, at, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("key %d: %v", want.Slot, err)
			continue
		}
		if !sameKey(got, want) {
			t.Errorf("key %d is another one", want.Slot)
		}
	}
}

// sameKey reports whether two keys are equal. It encrypts the same bytes with both keys and compares the
// results.
func sameKey(a, b *seal.Key) bool {
	return bytes.Equal(a.Seal(nil, []byte("plain"), nil), b.Seal(nil, []byte("plain"), nil))
}

// CheckSame checks that two rings (collections of run keys) have the same keys in the same slots, and the
// same destroyed and damaged slots.
func CheckSame(t *testing.T, got, want *keyring.Ring) {
	t.Helper()
	a, _ := got.ID()
	b, _ := want.ID()
	if a != b || got.Slots() != want.Slots() {
		t.Errorf("%x with %d keys, want %x with %d", a, got.Slots(), b, want.Slots())
	}
	for slot := uint64(1); slot <= want.Slots(); slot++ {
		x, xErr := got.LastKey(slot)
		y, yErr := want.LastKey(slot)
		if (xErr == nil) != (yErr == nil) || errors.Is(xErr, layout.ErrDamaged) != errors.Is(yErr, layout.ErrDamaged) {
			t.Errorf("slot %d: %v, want %v", slot, xErr, yErr)
			continue
		}
		if got.DestroyedAt(slot) != want.DestroyedAt(slot) {
			t.Errorf("slot %d: destroyed at %d, want %d", slot, got.DestroyedAt(slot), want.DestroyedAt(slot))
		}
		if xErr == nil && !sameKey(x, y) {
			t.Errorf("slot %d has another key", slot)
		}
	}
}
