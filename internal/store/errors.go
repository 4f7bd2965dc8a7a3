package store

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/store/datadir"
)

// ErrFormat is [datadir.ErrFormat].
var ErrFormat = datadir.ErrFormat

// FormatError says that a directory is of another format than this program's. It is
// [ErrFormat].
type FormatError struct {
	// Found is the directory's format, Want the program's.
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
