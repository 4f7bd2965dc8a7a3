package powerdisk

import (
	"context"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

// Faults are what is wrong with a disk, besides its power.
type Faults struct {
	// Lies means that the disk answers syncs without making them.
	Lies bool
	// ReadOnly refuses every change and sync with EROFS, as after a remount on errors.
	ReadOnly bool
	// Full refuses what would need more room with ENOSPC.
	Full bool
	// Free is the free space that the disk reports, in bytes. 0 means 1 TiB, or no space if the disk is full.
	Free uint64
	// Slow is how long each read, write and sync takes.
	Slow time.Duration
}

// Disk is a disk. Everything on it is below one directory.
type Disk struct {
	mu     sync.Mutex
	root   *node
	last   uint64
	faults Faults
	// off is closed when the power goes. After that the disk makes no sync.
	off chan struct{}
	// syncs counts the answered ones; the power goes with the one that reaches last, if
	// that is not 0.
	syncs, lastSync int64
	hold            *hold
}

// hold lets one sync wait.
type hold struct {
	// at is the number of syncs that are answered before.
	at int64
	// reached is closed when the sync waits, over when it may go on.
	reached, over chan struct{}
}

// New makes an empty disk with its power on.
func New() *Disk {
	return &Disk{root: &node{ino: 1, dir: newDirectory()}, last: 1, off: make(chan struct{})}
}

// Set changes what is wrong with the disk.
func (d *Disk) Set(f Faults) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = f
}

// Syncs is how many syncs of files and directories were answered.
func (d *Disk) Syncs() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncs
}

// PowerOff cuts the power. From now on the disk answers no sync, so the test kills the processes that wait for one.
func (d *Disk) PowerOff() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turnOff()
}

// OffAfter takes the power away behind the n-th sync from now; the channel is closed then.
func (d *Disk) OffAfter(n int64) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lastSync = d.syncs + n
	return d.off
}

// HoldAfter lets the sync behind the n-th one from now wait, until [Disk.Resume] or the death of its process. The channel
// is closed when it waits. Later syncs do not wait, so that other processes can use the disk.
func (d *Disk) HoldAfter(n int64) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hold = &hold{at: d.syncs + n, reached: make(chan struct{}), over: make(chan struct{})}
	return d.hold.reached
}

// Resume lets the sync that waits go on. Nothing is lost.
func (d *Disk) Resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hold != nil {
		close(d.hold.over)
		d.hold = nil
	}
}

// awaitResume waits if this is the sync to hold.
func (d *Disk) awaitResume(ctx context.Context) syscall.Errno {
	d.mu.Lock()
	h := d.hold
	if h == nil || d.syncs < h.at {
		d.mu.Unlock()
		return 0
	}
	select {
	case <-h.reached:
		d.mu.Unlock()
		return 0
	default:
		close(h.reached)
	}
	d.mu.Unlock()
	select {
	case <-h.over:
		return 0
	case <-ctx.Done():
		return syscall.EINTR
	}
}

// turnOff closes off, once; d.mu is held.
func (d *Disk) turnOff() {
	select {
	case <-d.off:
	default:
		close(d.off)
	}
}

// Cut decides what remains of the data that was not synced, and turns the power on again. The disk
// is not mounted, and the processes that wrote have ended. It returns how many changes were lost,
// in part or as a whole.
func (d *Disk) Cut(random *rand.Rand) (lost int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off, d.lastSync = make(chan struct{}), 0
	return d.root.dir.cut(random, moods[random.IntN(len(moods))])
}

// operate runs an operation on the tree; changes is for those that write.
func (d *Disk) operate(changes bool, op func() syscall.Errno) syscall.Errno {
	if err := d.wait(changes); err != 0 {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return op()
}

// wait makes a slow disk slow, and refuses changes of a read-only one.
func (d *Disk) wait(changes bool) syscall.Errno {
	d.mu.Lock()
	faults := d.faults
	d.mu.Unlock()
	if faults.Slow > 0 {
		<-time.After(faults.Slow)
	}
	if changes && faults.ReadOnly {
		return syscall.EROFS
	}
	return 0
}

// sync answers a sync, if there is power. Without, it waits until its caller is killed.
func (d *Disk) sync(ctx context.Context, done func()) syscall.Errno {
	if err := d.wait(true); err != 0 {
		return err
	}
	if err := d.awaitResume(ctx); err != 0 {
		return err
	}
	d.mu.Lock()
	off, faults := d.off, d.faults
	select {
	case <-off:
	default:
		if !faults.Lies {
			done()
		}
		if d.syncs++; d.syncs == d.lastSync {
			d.turnOff()
		}
		d.mu.Unlock()
		return 0
	}
	d.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(giveUp):
	}
	return syscall.EIO
}

// giveUp is how long a sync waits to be interrupted by the death of its process.
const giveUp = 10 * time.Second

// free is what statfs says; d.mu is held.
func (d *Disk) free() uint64 {
	if d.faults.Free == 0 && !d.faults.Full {
		return 1 << 40
	}
	return d.faults.Free
}
