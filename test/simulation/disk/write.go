package disk

import (
	"errors"
	"iter"
	"slices"
	"time"
)

// ErrCrashed means that the process has ended. Its later calls change nothing.
var ErrCrashed = errors.New("the simulated process has ended")

// ErrSync means that the disk cannot tell whether it stored what was written.
var ErrSync = errors.New("sync: input/output error")

// Append writes a group and, if asked, syncs it. It returns when that is done.
func (d *Disk) Append(life int, g *Group, sync bool) error {
	d.mu.Lock()
	if life != d.life {
		d.mu.Unlock()
		return ErrCrashed
	}
	wait, fails := d.faults.Sync, d.faults.SyncFails
	if sync && fails {
		d.faults.SyncFails = false
	}
	d.log = append(d.log, g)
	written := len(d.log)
	d.mu.Unlock()
	if !sync {
		return nil
	}
	if wait > 0 {
		time.Sleep(wait)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case life != d.life:
		return ErrCrashed
	case fails:
		return ErrSync
	}
	d.synced = max(d.synced, written)
	return nil
}

func sortedKeys(names iter.Seq[string]) []string { return slices.Sorted(names) }
