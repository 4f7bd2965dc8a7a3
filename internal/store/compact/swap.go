package compact

import (
	"errors"
	"fmt"
)

// ErrSwap: a directory cannot take the other's place at once.
var ErrSwap = errors.New("the directory cannot be put in the place of the old one")

// Swap gives two directories beside each other each other's name, in one step.
func Swap(a, b string) error {
	if err := exchange(a, b); err != nil {
		return fmt.Errorf("%w: %w", ErrSwap, err)
	}
	return nil
}
