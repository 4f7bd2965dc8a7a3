package store

import "errors"

// Errors of opening.
var (
	// ErrLocked: the directory is in use.
	ErrLocked = errors.New("the data directory is in use")
	// ErrFormat: the directory was not written by a version that this one reads.
	ErrFormat = errors.New("unreadable store format")
)

// ErrClosed is returned by every call after Close.
var ErrClosed = errors.New("store is closed")
