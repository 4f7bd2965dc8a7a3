package history

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// countingStore is a store of first entries that counts how often they are read.
type countingStore struct {
	Store
	variables []byte
	reads     int
}

func (c *countingStore) Entry(context.Context, uint32, string, uint64) (machine.Entry, error) {
	c.reads++
	return machine.Entry{Input: machine.Input{Command: machine.Start{Variables: c.variables}}}, nil
}

// TestVariablesAreReadOnce: small ones are held, up to a bound; large ones are not.
func TestVariablesAreReadOnce(t *testing.T) {
	t.Parallel()
	read := func(r *Reader, run string) []byte {
		raw, err := r.Variables(t.Context(), machine.RunKey{ID: run})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for size, want := range map[int]int{maxVariableBytes: 1, maxVariableBytes + 1: 2} {
		store := &countingStore{variables: bytes.Repeat([]byte("x"), size)}
		r := New(store)
		for range 2 {
			if got := read(r, "one"); len(got) != size {
				t.Errorf("%d bytes of %d", len(got), size)
			}
		}
		if store.reads != want {
			t.Errorf("variables of %d bytes were read %d times, want %d", size, store.reads, want)
		}
	}
	store := &countingStore{}
	r := New(store)
	for i := range maxVariables + 1 {
		if got := read(r, fmt.Sprint(i)); string(got) != "{}" {
			t.Fatalf("none are %q", got)
		}
	}
	if held := r.variables.cached.Len(); held != maxVariables {
		t.Errorf("%d are held after the bound", held)
	}
}
