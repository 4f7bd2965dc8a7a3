package datadir

import (
	"errors"
	"fmt"
	"log/slog"
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

// AwaitSpace waits until least bytes are free. Compactions call it, because they write through memory
// maps, and a write to a full disk through a memory map kills the process.
func (d *Disk) AwaitSpace(least int64) {
	for d.CheckNow(least) != nil {
		time.Sleep(spacePoll)
	}
}

// Await waits for a writer of table files, which closes done when it has ended. It returns an error as
// soon as fewer than least bytes are free or a memtable cannot be flushed. In these cases the writer
// could wait for space forever.
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

// diskMaxAge is how long a measurement of the free disk space is used.
const diskMaxAge = 100 * time.Millisecond

// amplification is the maximum number of bytes on disk that one committed byte may take before the free
// space is measured again. The byte is in the log, in a table, and in the copies of a compaction.
const amplification = 4

// Disk refuses work before the file system is full. This is necessary because Badger writes to sparse
// files through memory maps: if the disk has no free block, a write kills the process with SIGBUS, from
// which Go cannot recover.
type Disk struct {
	Dir  string
	Min  int64
	Free func(dir string) (int64, error)
	// Log receives a warning when the space becomes too small, and a message when there is enough again.
	// Default: the log is discarded.
	Log *slog.Logger

	mu   sync.Mutex
	seen time.Time
	last error
	// bytesUntilCheck is the number of bytes that may be written before the free space is measured again.
	bytesUntilCheck int64
}

// Check returns a *machine.Error DISK_LOW if fewer than Min bytes are free. bytes is the size of the
// next write. Check counts writes against the last measurement of the free space. If the measurement is
// used up or too old, Check measures again, so that a fast writer cannot fill the disk between two
// measurements.
func (d *Disk) Check(bytes int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bytesUntilCheck -= bytes * amplification
	now := time.Now()
	if age := now.Sub(d.seen); age >= diskMaxAge || age < 0 || d.bytesUntilCheck < 0 && d.last == nil {
		before := d.last
		d.seen = now
		d.bytesUntilCheck, d.last = d.measure(d.Min)
		d.logChange(before)
	}
	return d.last
}

// logChange logs that the disk became too full, or that it has enough space again. The caller holds the
// mutex d.mu.
func (d *Disk) logChange(before error) {
	switch {
	case d.Log == nil || (before == nil) == (d.last == nil):
	case before == nil:
		d.Log.Warn("disk almost full, new work refused", "error", d.last)
	default:
		d.Log.Info("disk has enough space again, new work accepted")
	}
}

// Forget makes the next call of Check measure the free space again, even if the last measurement is
// recent.
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
		return 0, layout.NewDamage("", "the data directory %s is gone", d.Dir)
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
