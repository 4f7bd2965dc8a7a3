package badgerengine

import (
	"errors"
	"fmt"
)

// Close flushes and closes the files and releases the lock. It waits for the reclaim that
// [Directory.StartMaintenance] started, whose context has ended.
func (d *Directory) Close() error {
	if d.Reclaimer == nil {
		return errors.Join(d.closeFlushed(), d.closeHead())
	}
	if err := d.Head.CheckPresent(); err != nil {
		return fmt.Errorf("store closed: %w", err)
	}
	// Badger flushes its memtable when it closes, through a memory map: on a full disk that
	// kills the process. The log holds everything, so in that case neither the memtable is
	// flushed nor a held compaction goes on.
	if err := d.Disk.Await(d.Reclaimer.Done(), d.Log.Unflushed, d.MinTableSpace()); err != nil {
		return fmt.Errorf("store closed without flushing, nothing is lost: %w", err)
	}
	return errors.Join(d.Head.Sync(), d.closeFlushed(), d.closeHead())
}

func (d *Directory) closeHead() error {
	if d.Head == nil {
		return nil
	}
	return d.Head.Close()
}

// closeFlushed closes the database, unless it cannot flush its memtable: it would try for
// ever, and the log holds everything. The lock then stays until the process ends.
func (d *Directory) closeFlushed() error {
	closed := make(chan error, 1)
	go func() { closed <- errors.Join(d.CloseFiles(), d.Unlock()) }()
	select {
	case err := <-closed:
		return err
	case err := <-d.Log.Unflushed:
		return Unflushed(err)
	}
}

// Unflushed says what became of a store that is left as it is.
func Unflushed(err error) error {
	return fmt.Errorf("store closed without flushing, nothing that was acknowledged is lost: %w", err)
}

// CloseFiles closes the files while the directory stays locked.
func (d *Directory) CloseFiles() error { return errors.Join(d.DB.Close(), d.keys.Close()) }

// Unlock lets others in.
func (d *Directory) Unlock() error { return d.lock.Release() }
