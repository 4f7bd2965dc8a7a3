package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Options are the options of [Open].
type Options struct {
	// Dir is the directory of the files. It is created if it does not exist. Required.
	Dir string
	// MaxBytes is the size at which a file is full and the next one begins. Default 64 MiB.
	MaxBytes int64
	// Key is the key of the hash chain. Only its holder can make a valid chain. If it is nil, the chain uses a plain hash.
	Key []byte
}

const (
	defaultMaxBytes = 64 << 20
	// syncEvery is the time between two syncs.
	syncEvery = time.Second
	lockName  = "LOCK"
)

// Log writes an audit log. Safe for concurrent use.
type Log struct {
	opts Options
	lock *os.File
	stop chan struct{}
	done chan struct{}

	mu   sync.Mutex
	file *os.File
	// size is the size of the complete lines in the file, in bytes.
	size int64
	// seq and sum are the number and the hash of the last line.
	seq uint64
	sum string
	// fault is the error of the last write or sync if it failed. It is nil again after the next line was written.
	fault    error
	unsynced bool
}

// Open continues the audit log of a directory. It verifies the last file. It removes a line that a crash left incomplete, and the first
// new line records this. It returns an error if another process has the log open, or if the last file is not valid.
func Open(opts Options) (*Log, error) {
	if opts.MaxBytes == 0 {
		opts.MaxBytes = defaultMaxBytes
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(opts.Dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("audit: another process writes %s", opts.Dir), lock.Close())
	}
	l := &Log{opts: opts, lock: lock, sum: zero, stop: make(chan struct{}), done: make(chan struct{})}
	cut, err := l.resume()
	if err == nil && cut > 0 {
		err = l.Add(Entry{Method: "audit", Outcome: "OK", Note: fmt.Sprintf("%d bytes of a line that was not whole were cut off", cut)})
	}
	if err != nil {
		return nil, errors.Join(err, l.closeFiles())
	}
	go l.syncs()
	return l, nil
}

// resume finds the end of the existing log.
func (l *Log) resume() (cut int64, err error) {
	files, err := filesOf(l.opts.Dir)
	if err != nil || len(files) == 0 {
		return 0, err
	}
	last := files[len(files)-1]
	end, err := verify([]string{last}, l.opts.Key, nil)
	if err != nil {
		return 0, err
	}
	l.seq, l.sum, l.size = end.Seq, end.Hash, end.Size
	if end.Lines == 0 && len(files) > 1 {
		before, err := verify(files[len(files)-2:len(files)-1], l.opts.Key, nil)
		if err != nil {
			return 0, err
		}
		l.seq, l.sum = before.Seq, before.Hash
	}
	if l.file, err = os.OpenFile(last, os.O_WRONLY, 0o600); err != nil {
		return 0, fmt.Errorf("audit: %w", err)
	}
	if err = l.file.Truncate(l.size); err != nil {
		return 0, fmt.Errorf("audit: %w", err)
	}
	return end.Torn, nil
}

// Add writes a line. After Add has returned, the line survives a crash of the process and, after at most a second, a crash of the
// machine. If Add returns an error, the line was not added.
func (l *Log) Add(e Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.add(&e)
}

// add writes one line to the current file, or to a new file if the current one is full. The caller holds the
// mutex.
func (l *Log) add(e *Entry) error {
	if l.file == nil || l.size >= l.opts.MaxBytes {
		if err := l.turnOver(); err != nil {
			l.fault = err
			return err
		}
	}
	e.Seq, e.Prev, e.Keyed = l.seq+1, l.sum, len(l.opts.Key) > 0
	if e.At.IsZero() {
		e.At = time.Now().UTC()
	}
	line, sum, err := e.line(l.opts.Key)
	if err == nil {
		_, err = l.file.WriteAt(line, l.size)
	}
	if err != nil {
		l.fault = fmt.Errorf("audit: %w", err)
		// The incomplete line is removed, because the next line must begin where it began.
		_ = l.file.Truncate(l.size)
		return l.fault
	}
	l.size += int64(len(line))
	l.seq, l.sum, l.fault, l.unsynced = e.Seq, sum, nil, true
	return nil
}

// turnOver syncs the current file and begins the next one.
func (l *Log) turnOver() error {
	if l.file != nil {
		if err := errors.Join(l.file.Sync(), l.file.Close()); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		l.file = nil
	}
	path := filepath.Join(l.opts.Dir, fileName(l.seq+1))
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	l.file, l.size = file, 0
	return syncDir(l.opts.Dir)
}

// Ready returns nil while lines can be written. After a fault it tries to write a line again, and this line records the gap.
func (l *Log) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == nil {
		return nil
	}
	return l.add(&Entry{Method: "audit", Outcome: "OK", Note: "lines could not be written before this one: " + l.fault.Error()})
}

// syncs syncs the written lines periodically until the log is closed.
func (l *Log) syncs() {
	defer close(l.done)
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.mu.Lock()
			if l.unsynced && l.file != nil {
				l.unsynced = false
				if err := l.file.Sync(); err != nil {
					l.fault = fmt.Errorf("audit: %w", err)
				}
			}
			l.mu.Unlock()
		case <-l.stop:
			return
		}
	}
}

// Close syncs and closes the log.
func (l *Log) Close() error {
	close(l.stop)
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closeFiles()
}

func (l *Log) closeFiles() error {
	var errs []error
	if l.file != nil {
		errs = append(errs, l.file.Sync(), l.file.Close())
		l.file = nil
	}
	return errors.Join(append(errs, l.lock.Close())...)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
