//go:build !linux

package powerdisk

import "errors"

// ErrNoFUSE means that this machine, or this user, cannot mount file systems by FUSE.
var ErrNoFUSE = errors.New("cannot mount by FUSE here")

// Mount shows the disk at a directory, on Linux. Errors: [ErrNoFUSE].
func (*Disk) Mount(string) (unmount func() error, err error) { return nil, ErrNoFUSE }
