package store

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/store/datadir"
)

// ErrFormat is [datadir.ErrFormat].
var ErrFormat = datadir.ErrFormat

// FormatError means that a store has another storage format than this program. It wraps [ErrFormat].
type FormatError struct {
	// Found is the format of the store, Want the format of this program.
	Found, Want uint32
}

func (e *FormatError) Error() string {
	if e.Found > e.Want {
		return fmt.Sprintf("%v: the store has format %d, this program reads format %d: use the program that wrote it, or a newer one", ErrFormat, e.Found, e.Want)
	}
	return fmt.Sprintf("%v: the store has format %d, this program reads format %d: 'pawl migrate DIR' brings it there, nothing is lost", ErrFormat, e.Found, e.Want)
}

func (e *FormatError) Unwrap() error { return ErrFormat }

// ErrClosed is returned by every call after Close.
var ErrClosed = errors.New("store is closed")
