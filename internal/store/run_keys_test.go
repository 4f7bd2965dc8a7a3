package store

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// TestKeyOfAFailedBeginningIsGivenAgain: a key whose number could not be stored is free again.
func TestKeyOfAFailedBeginningIsGivenAgain(t *testing.T) {
	t.Parallel()
	ring, err := keyring.Open(t.TempDir(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ring.Close(); err != nil {
			t.Error(err)
		}
	})
	full := errors.New("the disk is full")
	fails := 3
	c := runKeys{ring: ring, checkSpace: func(int64) error { return nil }, write: func(context.Context, []layout.Op) error {
		if fails--; fails >= 0 {
			return full
		}
		return nil
	}}
	begin := func() (uint64, error) {
		batch := &machine.Batch{State: &machine.State{Erasable: true}}
		_, err := c.keyOf(context.Background(), batch)
		return batch.State.Key, err
	}
	for range 3 {
		if slot, err := begin(); !errors.Is(err, full) || slot != 0 {
			t.Fatalf("slot %d: %v", slot, err)
		}
	}
	for want := uint64(1); want <= 3; want++ {
		if slot, err := begin(); slot != want || err != nil {
			t.Errorf("slot %d, want %d: %v", slot, want, err)
		}
	}
}
