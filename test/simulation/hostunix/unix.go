package hostunix

import (
	"syscall"

	"github.com/pawl-dev/pawl/test/simulation/hostos"
)

// What is the system's own.
//
//nolint:staticcheck // the names of package unix, which this stands for
const (
	LOCK_EX     = syscall.LOCK_EX
	LOCK_NB     = syscall.LOCK_NB
	LOCK_UN     = syscall.LOCK_UN
	PROT_READ   = syscall.PROT_READ
	MAP_SHARED  = syscall.MAP_SHARED
	EWOULDBLOCK = syscall.EWOULDBLOCK
	ENXIO       = syscall.ENXIO
	ENOSPC      = syscall.ENOSPC
	EDQUOT      = syscall.EDQUOT
	SEEK_DATA   = 3
	SEEK_HOLE   = 4
)

// Stat_t is what is asked of a file: how many names it has.
type Stat_t struct{ Nlink uint64 } //nolint:staticcheck // the system's name

// Fstat counts names.
func Fstat(fd int, st *Stat_t) error {
	f := hostos.ByFd(fd)
	if f == nil {
		return syscall.EBADF
	}
	st.Nlink = 0
	if f.Linked() {
		st.Nlink = 1
	}
	return nil
}

// Flock takes or gives back a directory.
func Flock(fd, how int) error {
	f := hostos.ByFd(fd)
	switch {
	case f == nil:
		return syscall.EBADF
	case how == LOCK_UN:
		f.Unlock()
	case !f.TryLock():
		return EWOULDBLOCK
	}
	return nil
}

// Mmap is not reached: tables and logs are no files here.
func Mmap(int, int64, int, int, int) ([]byte, error) { return nil, syscall.EINVAL }

// Munmap is not reached.
func Munmap([]byte) error { return syscall.EINVAL }
