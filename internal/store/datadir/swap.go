package datadir

import (
	"errors"
	"fmt"
)

// ErrSwap means that this system cannot exchange the names of two directories in one step.
var ErrSwap = errors.New("the directory cannot be put in the place of the old one")

// Swap exchanges the names of two directories with the same parent, in one step.
func Swap(a, b string) error {
	if err := exchange(a, b); err != nil {
		return fmt.Errorf("%w: %w", ErrSwap, err)
	}
	return nil
}
