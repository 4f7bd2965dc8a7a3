package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

// FormatVersion of the whole store. A store of a newer version is refused.
const FormatVersion = 1

// Store keeps runs in one directory. Its methods may be called at once from any
// number of goroutines.
type Store struct {
	opts  Options
	db    *badger.DB
	log   *logger
	epoch [16]byte
	disk  *disk
	reads *reads
	marks *marks
	stats stats

	// What Badger takes in one transaction.
	maxTree int64
	maxKeys int

	committer *committer
	keeper    *keeper

	failOnce sync.Once
	failed   chan struct{}
	cause    error

	// importing is held by the one import that is under way.
	importing sync.Mutex

	closeOnce sync.Once
	closeErr  error
}

// Open opens or creates the store in opts.Dir. Errors: [ErrLocked] when another
// process has it open, [ErrFormat] when a newer version wrote it, *machine.Refusal
// DISK_LOW when there is not even room to start.
func Open(opts Options) (*Store, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("store options: %w", err)
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{
		opts:   opts,
		log:    &logger{log: opts.Logger},
		disk:   &disk{dir: opts.Dir, min: opts.MinFree, free: opts.FreeSpace},
		marks:  &marks{queues: make(map[queueID]*mark)},
		failed: make(chan struct{}),
	}
	// Opening replays and flushes the log: it needs room for the memtables.
	if err := s.disk.look(s.tableRoom()); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := dropUnborn(opts.Dir); err != nil {
		return nil, openError(opts.Dir, err)
	}
	s.log.room = func() { s.disk.awaitRoom(s.tableRoom()) }
	db, err := badger.OpenManaged(opts.badger(s.log))
	if err != nil {
		return nil, openError(opts.Dir, err)
	}
	s.db = db
	if err := s.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", opts.Dir, err), db.Close())
	}
	return s, nil
}

// tableRoom is the free space without which no table is written: neither by a
// flush at opening or closing nor by a compaction.
func (s *Store) tableRoom() int64 { return min(s.opts.MinFree, 3*s.opts.MemTableSize) }

// openError names a locked directory as such.
func openError(dir string, err error) error {
	if !errors.Is(err, unix.EWOULDBLOCK) && !strings.Contains(err.Error(), "Cannot acquire directory lock") {
		return fmt.Errorf("open store %s: %w", dir, err)
	}
	holder := "another process"
	if pid, readErr := os.ReadFile(filepath.Join(dir, "LOCK")); readErr == nil {
		holder = "process " + strings.TrimSpace(string(pid))
	}
	return fmt.Errorf("open store %s: %w by %s", dir, ErrLocked, holder)
}

// start reads what the store must know before it serves.
func (s *Store) start() error {
	s.maxTree = s.db.MaxBatchSize() - 64<<10
	s.maxKeys = min(maxGroupKeys, int(s.db.MaxBatchCount())-64)
	ts := s.db.MaxVersion()
	if err := s.checkFormat(&ts); err != nil {
		return err
	}
	cursors, err := s.loadCursors(ts)
	if err != nil {
		return err
	}
	if err := s.loadMarks(ts); err != nil {
		return err
	}
	s.db.SetDiscardTs(ts)
	s.reads = newReads(ts, cursors)
	s.committer = newCommitter(s, ts, cursors)
	go s.committer.run()
	s.keeper = startKeeper(s)
	return s.dropUnfinished()
}

// checkFormat reads the marker, or writes it into a new store.
func (s *Store) checkFormat(ts *uint64) error {
	txn := s.db.NewTransactionAt(*ts, true)
	defer txn.Discard()
	item, err := txn.Get(formatKey)
	if errors.Is(err, badger.ErrKeyNotFound) {
		if *ts != 0 {
			return fmt.Errorf("%w: the directory holds a Badger database of something else", ErrFormat)
		}
		return s.create(txn, ts)
	}
	if err != nil {
		return err
	}
	return item.Value(func(v []byte) error {
		if len(v) < 4 {
			return fmt.Errorf("%w: marker of %d bytes", ErrFormat, len(v))
		}
		if version := binary.BigEndian.Uint32(v); version != FormatVersion {
			return fmt.Errorf("%w: the store has version %d, this program reads version %d", ErrFormat, version, FormatVersion)
		}
		if len(v) != 4+len(s.epoch) {
			return fmt.Errorf("%w: marker of %d bytes", ErrFormat, len(v))
		}
		copy(s.epoch[:], v[4:])
		return nil
	})
}

// create gives a new store its epoch.
func (s *Store) create(txn *badger.Txn, ts *uint64) error {
	if _, err := rand.Read(s.epoch[:]); err != nil {
		return err
	}
	value := append(binary.BigEndian.AppendUint32(nil, FormatVersion), s.epoch[:]...)
	if err := txn.Set(formatKey, value); err != nil {
		return err
	}
	*ts++
	return txn.CommitAt(*ts, nil)
}

// loadCursors finds the newest cursor of every namespace.
func (s *Store) loadCursors(ts uint64) (map[uint32]uint64, error) {
	txn := s.db.NewTransactionAt(ts, false)
	defer txn.Discard()
	opts := badger.IteratorOptions{Reverse: true}
	it := txn.NewIterator(opts)
	defer it.Close()
	cursors := make(map[uint32]uint64)
	for it.Seek([]byte{kindCursor + 1}); it.Valid(); {
		key := it.Item().Key()
		if key[0] != kindCursor {
			if key[0] < kindCursor {
				break
			}
			it.Next()
			continue
		}
		if len(key) != 13 {
			return nil, fmt.Errorf("malformed cursor key %x", key)
		}
		ns := binary.BigEndian.Uint32(key[1:])
		cursors[ns] = binary.BigEndian.Uint64(key[5:])
		it.Seek(prefix(nil, kindCursor, ns))
	}
	return cursors, nil
}

func (s *Store) loadMarks(ts uint64) error {
	txn := s.db.NewTransactionAt(ts, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kindWatermark}})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		err := it.Item().Value(func(v []byte) error {
			at, err := codec.DecodeNumber(v)
			s.marks.load(it.Item().Key(), int64(at))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Commit stores a batch in one synced transaction, then sets
// batch.State.PrevHash to the run's new hash. The context limits only the
// waiting: a batch that was handed over goes on.
//
// Errors: machine.ErrSeqConflict, machine.ErrConsumed (nothing was stored),
// *machine.Refusal with DISK_LOW, BATCH_TOO_LARGE or NAME_TOO_LONG (nothing was
// stored), machine.ErrIndeterminate (the store is read-only from then on),
// [ErrClosed].
func (s *Store) Commit(ctx context.Context, batch *machine.Batch) (machine.Committed, error) {
	w, err := s.Encode(batch)
	if err != nil {
		return machine.Committed{}, err
	}
	if err := s.committer.submit(ctx, w); err != nil {
		return machine.Committed{}, err
	}
	batch.State.PrevHash = w.hash
	return machine.Committed{Cursor: w.cursor, PrevHash: w.prevHash, Hash: w.hash}, nil
}

// CommitRaw sends ops through the committer as they are, without preconditions.
// It exists to measure the committer alone, on a store of its own: nothing
// checks that the ops make sense.
func (s *Store) CommitRaw(ctx context.Context, ops []Op) error {
	w := &Writes{ops: ops, entry: -1}
	if err := s.checkSize(w); err != nil {
		return err
	}
	return s.committer.submit(ctx, w)
}

// Epoch names this store for ever: cursors of another store are foreign.
func (s *Store) Epoch() [16]byte { return s.epoch }

// Stats counts what was committed since the store was opened.
func (s *Store) Stats() Stats {
	return Stats{
		Groups: s.stats.groups.Load(), Batches: s.stats.batches.Load(),
		Keys: s.stats.keys.Load(), Bytes: s.stats.bytes.Load(),
	}
}

// Failed is closed when the store met an error after which nobody knows what was
// stored. Reads go on; every write gets machine.ErrIndeterminate.
func (s *Store) Failed() <-chan struct{} { return s.failed }

func (s *Store) fail(cause error) {
	s.failOnce.Do(func() {
		s.cause = cause
		close(s.failed)
	})
}

// failure is why the store failed; call it after failed was closed.
func (s *Store) failure() error { return s.cause }

// Close takes no more work, stores what waits, ends the reads and closes the
// database. It may be called more than once.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Store) close() error {
	s.keeper.end()
	close(s.committer.stop)
	<-s.committer.done
	s.reads.shut()
	// Badger flushes its memtable when it closes, through a memory map: without
	// room that ends the process. The log holds everything, so leave it as it is.
	if err := s.disk.look(s.tableRoom()); err != nil {
		return fmt.Errorf("store closed without flushing, nothing is lost: %w", err)
	}
	return s.db.Close()
}

// get reads one key into a copy; nil if there is none.
func get(txn *badger.Txn, key []byte) ([]byte, error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v, err := item.ValueCopy(nil)
	if v == nil {
		v = []byte{}
	}
	return v, err
}

// has reports whether the current key of an iterator begins with p.
func has(it *badger.Iterator, p []byte) bool {
	return it.Valid() && bytes.HasPrefix(it.Item().Key(), p)
}
