package store

import "errors"

// Errors of opening.
var (
	// ErrLocked: the directory is in use.
	ErrLocked = errors.New("the data directory is in use")
	// ErrFormat: the directory was not written by a version that this one reads.
	ErrFormat = errors.New("unreadable store format")
	// ErrDamaged: what is stored is not what was written; see [Damage].
	ErrDamaged = errors.New("the store is damaged")
)

// ErrClosed is returned by every call after Close.
var ErrClosed = errors.New("store is closed")
