package store

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// diskLow is the reason of the refusal while the disk is nearly full.
const diskLow = "DISK_LOW"

// roomPoll is how often a held compaction looks for room.
const roomPoll = 100 * time.Millisecond

// awaitRoom returns when least bytes are free. Compactions wait here: they write
// through memory maps too, and other programs may have filled the disk.
func (d *disk) awaitRoom(least int64) {
	for d.look(least) != nil {
		time.Sleep(roomPoll)
	}
}

// diskMaxAge is how long one look at the free space counts.
const diskMaxAge = 100 * time.Millisecond

// amplification is how many bytes of disk a byte of a group may take until the
// next look: log, table, and the copies of a compaction.
const amplification = 4

// disk refuses work before the file system is full. Badger writes to sparse
// files through memory maps: where the disk has no block left the process dies
// of SIGBUS, which no recovery catches.
type disk struct {
	dir  string
	min  int64
	free func(dir string) (int64, error)

	mu   sync.Mutex
	seen time.Time
	last error
	// left is what may be written before the next look, whatever its age.
	left int64
}

// check returns a *machine.Refusal DISK_LOW while less than min bytes are free.
// The bytes are about to be written: a fast writer must not outrun the look.
func (d *disk) check(bytes int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left -= bytes * amplification
	now := time.Now()
	if age := now.Sub(d.seen); age >= diskMaxAge || age < 0 || d.left < 0 && d.last == nil {
		d.seen = now
		d.left, d.last = d.measure(d.min)
	}
	return d.last
}

// look measures now and asks for least bytes.
func (d *disk) look(least int64) error {
	_, err := d.measure(least)
	return err
}

// measure returns how much more than least bytes is free.
func (d *disk) measure(least int64) (int64, error) {
	free, err := d.free(d.dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, damage("", "the data directory %s is gone", d.dir)
	}
	if err != nil {
		return 0, fmt.Errorf("free space of %s: %w", d.dir, err)
	}
	if free >= least {
		return free - least, nil
	}
	return 0, &machine.Refusal{
		Code: machine.CodeResourceExhausted, Reason: diskLow,
		Message: fmt.Sprintf("the file system of the data directory has %d bytes free, new work needs %d", free, least),
		Limit:   least, Got: free, RetryAfter: int64(5 * time.Second),
	}
}

// freeSpace is what an unprivileged process may still write.
func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:unconvert // Bsize is an int64 on Linux only
}
