package badgerengine

import (
	"errors"
	"fmt"
)

// Close flushes and closes the files and releases the lock. It waits for the reclaimer that
// [Directory.StartMaintenance] started. The context of the reclaimer must already have ended.
func (d *Directory) Close() error {
	if d.Reclaimer == nil {
		return errors.Join(d.closeFlushed(), d.closeHead())
	}
	if err := d.Head.CheckPresent(); err != nil {
		return fmt.Errorf("store closed: %w", err)
	}
	// When Badger closes, it flushes its memtable through a memory map. On a full disk this would kill
	// the process. The log contains all data, so in this case neither the flush nor a waiting
	// compaction is done.
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

// closeFlushed closes the database. If Badger cannot flush its memtable, closeFlushed returns an error,
// because otherwise Badger would retry forever. No data is lost, because the log contains all data. The
// lock is then held until the process ends.
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

// Unflushed returns the error of a store that was closed without a flush.
func Unflushed(err error) error {
	return fmt.Errorf("store closed without flushing, nothing that was acknowledged is lost: %w", err)
}

// CloseFiles closes the files while the directory stays locked.
func (d *Directory) CloseFiles() error { return errors.Join(d.DB.Close(), d.keys.Close()) }

// Unlock releases the lock of the directory, so that other processes can open it.
func (d *Directory) Unlock() error { return d.lock.Release() }
