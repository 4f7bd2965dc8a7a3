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

// DiskLow is the reason of the refusal while the disk is nearly full.
const DiskLow = "DISK_LOW"

// spacePoll is the interval at which a held compaction checks the free space.
const spacePoll = 100 * time.Millisecond

// AwaitSpace returns when least bytes are free. Compactions wait here: they write
// through memory maps too, and other programs may have filled the disk.
func (d *Disk) AwaitSpace(least int64) {
	for d.CheckNow(least) != nil {
		time.Sleep(spacePoll)
	}
}

// Await waits until the writer of tables is done (done), and returns nil if at least least
// bytes are free then. It returns an error if they are not, or as soon as a memtable cannot be
// flushed, because the writer may then wait for space for ever.
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

// diskMaxAge is how long one look at the free space counts.
const diskMaxAge = 100 * time.Millisecond

// amplification is how many bytes of disk a byte of a group may take until the
// next look: log, table, and the copies of a compaction.
const amplification = 4

// Disk refuses work before the file system is full. Badger writes to sparse
// files through memory maps: where the disk has no block left the process dies
// of SIGBUS, which no recovery catches.
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

// Check returns a *machine.Refusal DISK_LOW while less than min bytes are free.
// The bytes are about to be written: a fast writer must not outrun the look.
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

// Forget makes the next call check the disk, however recent the last check is.
func (d *Disk) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = time.Time{}
}

// CheckNow measures now and asks for least bytes.
func (d *Disk) CheckNow(least int64) error {
	_, err := d.measure(least)
	return err
}

// measure returns how much more than least bytes is free.
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

// FreeSpace is what an unprivileged process may still write.
func FreeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:unconvert // Bsize is an int64 on Linux only
}
