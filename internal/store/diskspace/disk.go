package diskspace

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// DiskLow is the reason of the error for a request that is refused because the disk is nearly full.
const DiskLow = "DISK_LOW"

// spacePoll is the interval at which a waiting compaction checks the free space.
const spacePoll = 100 * time.Millisecond

// AwaitSpace waits until least bytes are free. Compactions call it, because they also write through
// memory maps, and other programs may have filled the disk.
func (d *Disk) AwaitSpace(least int64) {
	for d.CheckNow(least) != nil {
		time.Sleep(spacePoll)
	}
}

// Await waits until done is closed, which means that the writer of tables has ended. It returns nil if
// at least least bytes are free at that time. It returns an error immediately if fewer bytes are free
// or a memtable cannot be flushed, because the writer could then wait for space forever.
func (d *Disk) Await(done <-chan struct{}, unflushed <-chan error, least int64) error {
	for {
		select {
		case <-done:
			return d.CheckNow(least)
		case err := <-unflushed:
			return err
		case <-time.After(spacePoll):
			if err := d.CheckNow(least); err != nil {
				return err
			}
		}
	}
}

// diskMaxAge is how long a measurement of the free space is used.
const diskMaxAge = 100 * time.Millisecond

// amplification is the maximum number of bytes on disk that one byte of a group may take until the next
// measurement. It includes the log, the table, and the copies of a compaction.
const amplification = 4

// Disk refuses work before the file system is full. This is necessary because Badger writes to sparse
// files through memory maps. If the disk has no free block, such a write kills the process with SIGBUS,
// and Go cannot recover from it.
type Disk struct {
	Dir  string
	Min  int64
	Free func(dir string) (int64, error)

	mu   sync.Mutex
	seen time.Time
	last error
	// left is the number of bytes that may be written before the next check of the disk.
	left int64
}

// Check returns a *machine.Error DISK_LOW if fewer than Min bytes are free. bytes is the size of the
// next write. Check subtracts it from the last measurement. If the measurement is used up or too old,
// Check measures again. Therefore a fast writer cannot fill the disk between two measurements.
func (d *Disk) Check(bytes int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left -= bytes * amplification
	now := time.Now()
	if age := now.Sub(d.seen); age >= diskMaxAge || age < 0 || d.left < 0 && d.last == nil {
		d.seen = now
		d.left, d.last = d.measure(d.Min)
	}
	return d.last
}

// Forget makes the next call of Check measure again, even if the last measurement is recent.
func (d *Disk) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = time.Time{}
}

// CheckNow measures the free space now and returns an error if it is less than least bytes.
func (d *Disk) CheckNow(least int64) error {
	_, err := d.measure(least)
	return err
}

// measure returns the free space minus least, in bytes. If the free space is less than least, the error
// is DISK_LOW.
func (d *Disk) measure(least int64) (int64, error) {
	free, err := d.Free(d.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, layout.Damaged("", "the data directory %s is gone", d.Dir)
	}
	if err != nil {
		return 0, fmt.Errorf("free space of %s: %w", d.Dir, err)
	}
	if free >= least {
		return free - least, nil
	}
	return 0, &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: DiskLow,
		Message: fmt.Sprintf("the file system of the data directory has %d bytes free, new work needs %d", free, least),
		Limit:   least, Got: free, RetryAfter: int64(5 * time.Second),
	}
}

// FreeSpace returns the number of bytes that an unprivileged process can still write to the file system
// of a directory.
func FreeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:unconvert // Bsize is an int64 on Linux only
}
