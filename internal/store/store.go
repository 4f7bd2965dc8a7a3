package store

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/census"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/erasure"
	"github.com/pawl-dev/pawl/internal/store/host"
	"github.com/pawl-dev/pawl/internal/store/inspect"
	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/removal"
	"github.com/pawl-dev/pawl/internal/store/space"
)

// FormatVersion of the whole store, see docs/adr/0030-format-2.md and FORMAT.md. A store
// of another one is refused with a *[FormatError].
const FormatVersion = 2

// Store keeps runs in one directory. Its methods may be called at once from any
// number of goroutines.
type Store struct {
	opts  Options
	db    *badger.DB
	lock  *inspect.DirLock
	head  *inspect.HeadFile
	log   *host.Logger
	epoch [16]byte
	disk  *host.Disk
	reads *reads
	marks *marks
	stats stats
	// census is fed by the committer.
	census census.Census

	// What Badger takes in one transaction.
	maxTree int64
	maxKeys int

	committer *committer
	keeper    *keeper
	remover   *removal.Remover
	keys      *keyring.Ring
	custody   *erasure.Custody
	eraser    *erasure.Eraser
	space     *space.Room

	failOnce sync.Once
	failed   chan struct{}
	cause    error

	// replay makes states, see ReplayWith.
	replay atomic.Pointer[Replay]

	// importing is held by the one import that is under way.
	importing sync.Mutex

	closeOnce sync.Once
	closeErr  error
}

// Open opens or creates the store in opts.Dir. Errors: [ErrLocked] when another
// process has it open, [ErrFormat] when a newer version wrote it, *[Damage] when it
// holds less than was acknowledged or something that is not as it was written,
// *[inspect.KeyError] when it is encrypted otherwise than opts.EncryptionKey says
// (nothing was changed by either), *machine.Refusal DISK_LOW when there is not even room to
// start.
func Open(opts Options) (*Store, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("store options: %w", err)
	}
	if inspect.Moving(opts.Dir, nextTo(opts.Dir)) {
		return nil, fmt.Errorf("open store: %w: %s is being migrated; if nobody does, run sidecar migrate again", ErrFormat, opts.Dir)
	}
	if err := inspect.MakeDir(opts.Dir); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{
		opts:   opts,
		log:    &host.Logger{Log: opts.Logger, Unflushed: make(chan error, 1)},
		disk:   &host.Disk{Dir: opts.Dir, Min: opts.MinFree, Free: opts.FreeSpace},
		marks:  &marks{queues: make(map[layout.QueueID]*mark)},
		failed: make(chan struct{}),
	}
	s.remover = &removal.Remover{View: s.view, Write: s.writeRemoval}
	// Opening replays and flushes the log: it needs room for the memtables.
	if err := s.disk.Look(s.tableRoom()); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s.log.Room = func() { s.disk.AwaitRoom(s.tableRoom()) }
	found, err := s.openDatabase()
	if err != nil {
		return nil, openError(opts.Dir, "nothing was changed", err)
	}
	s.wireErasure()
	if err := s.start(found); err != nil {
		// Badger has turned its logs into tables, as at every start.
		return nil, openError(opts.Dir, "nothing that it holds was changed", errors.Join(err, s.giveUp()))
	}
	return s, nil
}

// giveUp closes a store whose start failed.
func (s *Store) giveUp() error {
	if s.keeper != nil {
		return s.Close()
	}
	return s.closeFlushed()
}

// openDatabase locks the directory, proves its files and only then lets Badger
// have it. It returns what the HEAD file says.
func (s *Store) openDatabase() (*inspect.Acked, error) {
	lock, err := inspect.LockDir(s.opts.Dir)
	if err != nil {
		return nil, err
	}
	s.step("locked")
	if inspect.Progress(s.opts.Dir) != "" && !s.opts.migrating {
		return nil, errors.Join(fmt.Errorf("%w: a migration of it was broken off; call 'sidecar migrate' again", ErrFormat), lock.Release())
	}
	found, err := inspect.Inspect(s.opts.Dir, s.opts.EncryptionKey)
	if err == nil {
		s.step("inspected")
		err = found.DropUnborn()
	}
	if err == nil {
		s.step("cleared")
		s.keys, err = keyring.Open(s.opts.Dir, s.opts.EncryptionKey, s.opts.Hooks.RunKeys)
	}
	if err == nil {
		if s.db, err = openBadger(s.opts.badger(s.log)); err != nil {
			err = errors.Join(err, s.keys.Close())
		}
	}
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	s.lock = lock
	s.step("opened")
	return found.Head, nil
}

// openBadger makes an error of a panic in files that nobody thought of.
func openBadger(opts badger.Options) (db *badger.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = layout.Damaged("", "the database does not open: %v", p)
		}
	}()
	return badger.OpenManaged(opts)
}

// step tells tests how far an opening is.
func (s *Store) step(name string) {
	if opening := s.opts.Hooks.Opening; opening != nil {
		opening(name)
	}
}

// closeDatabase closes the files and lets others in.
func (s *Store) closeDatabase() error {
	return errors.Join(s.closeFiles(), s.lock.Release())
}

// closeFiles closes the files while the directory stays locked.
func (s *Store) closeFiles() error { return errors.Join(s.db.Close(), s.keys.Close()) }

// tableRoom is the free space without which no table is written: neither by a
// flush at opening or closing nor by a compaction.
func (s *Store) tableRoom() int64 { return min(s.opts.MinFree, 3*s.opts.MemTableSize) }

// openError names the directory, and says what is left of it and can be done about damage.
func openError(dir, left string, err error) error {
	if errors.Is(err, layout.ErrDamaged) {
		return fmt.Errorf("open store %s: %w; %s: keep a copy of the directory and restore a backup ('sidecar check --data DIR' names the damage; docs/operations.md, Damage)", dir, err, left)
	}
	return fmt.Errorf("open store %s: %w", dir, err)
}

// start reads what the store must know before it serves; found is what the HEAD
// file says, nil if there is none.
func (s *Store) start(found *inspect.Acked) error {
	s.maxTree = s.db.MaxBatchSize() - 64<<10
	s.maxKeys = min(maxGroupKeys, int(s.db.MaxBatchCount())-64)
	ts := s.db.MaxVersion()
	if err := s.checkFormat(&ts); err != nil {
		return err
	}
	s.step("marked")
	txn := s.txnAt(ts, false)
	defer txn.Discard()
	if err := s.custody.Open(txn); err != nil {
		return err
	}
	cursors, err := s.loadCursors(ts)
	if err != nil {
		return err
	}
	if err := s.confirm(found, ts); err != nil {
		return err
	}
	if err := s.loadMarks(ts); err != nil {
		return err
	}
	if err := s.openHead(found, ts); err != nil {
		return err
	}
	s.step("confirmed")
	s.db.SetDiscardTs(ts)
	s.reads = newReads(ts, cursors)
	s.committer = newCommitter(s, ts, cursors)
	go s.committer.run()
	if s.space, err = newSpace(s); err != nil {
		return err
	}
	s.keeper = startKeeper(s)
	return s.tidy(context.Background())
}

// tidy ends what was broken off.
func (s *Store) tidy(ctx context.Context) error {
	return errors.Join(s.unlessLow(s.dropMarked(ctx)), s.unlessLow(s.dropUnfinished()), s.unlessLow(s.custody.Name(ctx)), s.unlessLow(s.eraser.Unfinished(ctx)))
}

// unlessRepair lets go of damage that a repair may mend: the start that follows tidies up.
func (s *Store) unlessRepair(err error) error {
	if s.opts.Repair && errors.Is(err, layout.ErrDamaged) {
		s.opts.Logger.Warn("what was broken off is removed by the start after the repair", "error", err)
		return nil
	}
	return err
}

// unlessLow lets go of an error of a disk that is nearly full: what is there is served
// nevertheless, and tidied up once there is room.
func (s *Store) unlessLow(err error) error {
	if refusal, ok := errors.AsType[*machine.Refusal](err); ok && refusal.Reason == host.DiskLow {
		s.opts.Logger.Warn("what was broken off is removed later", "error", err)
		return nil
	}
	return err
}

// confirm compares the database with what the HEAD file says was acknowledged.
func (s *Store) confirm(found *inspect.Acked, ts uint64) error {
	if found == nil {
		return nil
	}
	if found.Epoch != s.epoch {
		return layout.Damaged(inspect.HeadName, "it belongs to another store: epoch %x, the database has %x", found.Epoch, s.epoch)
	}
	if ts < found.Group {
		return layout.Damaged(inspect.HeadName, "group %d of commits was acknowledged, the database ends with %d", found.Group, ts)
	}
	if s.opts.Repair {
		return nil
	}
	txn := s.txnAt(ts, false)
	defer txn.Discard()
	return found.In(txn)
}

// openHead makes the HEAD file anew for a store that is as it should be.
func (s *Store) openHead(found *inspect.Acked, ts uint64) (err error) {
	now := inspect.Acked{Epoch: s.epoch, Since: ts}
	if found != nil {
		now = *found
	}
	now.Group, now.Collecting = ts, false
	newest, err := inspect.LastValues(s.opts.Dir)
	if err != nil {
		return err
	}
	s.head, err = inspect.NewHeadFile(s.opts.Dir, now, newest)
	return err
}

// checkFormat reads the marker, or writes it into a new store.
func (s *Store) checkFormat(ts *uint64) error {
	txn := s.txnAt(*ts, true)
	defer txn.Discard()
	item, err := txn.Get(layout.FormatKey)
	if errors.Is(err, badger.ErrKeyNotFound) {
		if *ts != 0 {
			return fmt.Errorf("%w: the directory holds a Badger database of something else", ErrFormat)
		}
		return s.create(txn, ts)
	}
	if err != nil {
		return err
	}
	return layout.ValueOf(item, func(v []byte) error {
		if len(v) < 4 {
			return fmt.Errorf("%w: marker of %d bytes", ErrFormat, len(v))
		}
		if version := binary.BigEndian.Uint32(v); version != FormatVersion {
			return &FormatError{Found: version, Want: FormatVersion}
		}
		if len(v) != 4+len(s.epoch) {
			return fmt.Errorf("%w: marker of %d bytes", ErrFormat, len(v))
		}
		copy(s.epoch[:], v[4:])
		return nil
	})
}

// create gives a new store its epoch.
func (s *Store) create(txn *layout.Txn, ts *uint64) error {
	if s.opts.epoch != nil {
		s.epoch = *s.opts.epoch
	} else if _, err := rand.Read(s.epoch[:]); err != nil {
		return err
	}
	value := append(binary.BigEndian.AppendUint32(nil, FormatVersion), s.epoch[:]...)
	if err := txn.Set(layout.FormatKey, value); err != nil {
		return err
	}
	*ts++
	return txn.CommitAt(*ts, nil)
}

// loadCursors finds the newest cursor of every namespace.
func (s *Store) loadCursors(ts uint64) (map[uint32]uint64, error) {
	txn := s.txnAt(ts, false)
	defer txn.Discard()
	opts := badger.IteratorOptions{Reverse: true}
	it := txn.NewIterator(opts)
	defer it.Close()
	cursors := make(map[uint32]uint64)
	for it.Seek([]byte{layout.KindCursor + 1}); it.Valid(); {
		key := it.Item().Key()
		if key[0] != layout.KindCursor {
			if key[0] < layout.KindCursor {
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
		it.Seek(layout.Prefix(nil, layout.KindCursor, ns))
	}
	return cursors, nil
}

func (s *Store) loadMarks(ts uint64) error {
	txn := s.txnAt(ts, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{layout.KindWatermark}})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		err := layout.ValueOf(it.Item(), func(v []byte) error {
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
// batch.State.PrevHash to the run's new hash, and batch.State.Unlisted. The context
// limits only the waiting: a batch that was handed over goes on.
//
// Errors: machine.ErrSeqConflict, machine.ErrConsumed (nothing was stored),
// *machine.Refusal with DISK_LOW, BATCH_TOO_LARGE or NAME_TOO_LONG (nothing was
// stored), machine.ErrIndeterminate (the store is read-only from then on),
// [ErrClosed].
func (s *Store) Commit(ctx context.Context, batch *machine.Batch) (machine.Committed, error) {
	w, err := s.writesOf(ctx, batch)
	if err != nil {
		return machine.Committed{}, err
	}
	if err := s.write(ctx, w); err != nil {
		s.custody.Unused(batch, err)
		return machine.Committed{}, err
	}
	batch.State.PrevHash, batch.State.Unlisted = w.hash, w.unlisted
	return machine.Committed{Cursor: w.cursor, PrevHash: w.prevHash, Hash: w.hash}, nil
}

// write is the one way of everything that is stored: it hands writes to the
// committer, which judges their preconditions, and waits until they are synced. What
// they have removed in steps goes then, whether or not the caller still waits.
func (s *Store) write(ctx context.Context, w *Writes) error {
	if err := s.checkSize(w); err != nil {
		return err
	}
	release := func() {}
	if w.buries() {
		release = s.space.Hold()
	}
	err := s.committer.submit(ctx, w)
	release()
	if err != nil || w.dropped == nil {
		return err
	}
	return s.dropUnder(context.WithoutCancel(ctx), w.dropped)
}

// Dir is the directory that holds it.
func (s *Store) Dir() string { return s.opts.Dir }

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
	// What failed before was tried again meanwhile, and is if it has to be.
	if len(s.log.Unflushed) > 0 {
		s.log.Log.Debug("a flush failed before the close", "error", <-s.log.Unflushed)
	}
	s.keeper.cancel()
	close(s.committer.stop)
	for _, done := range []<-chan struct{}{s.keeper.done, s.committer.done} {
		if err := s.unlessUnflushed(done); err != nil {
			s.fail(fmt.Errorf("%w: %w", machine.ErrIndeterminate, err))
			close(s.committer.abandoned)
			return err
		}
	}
	s.reads.shut()
	if err := s.head.Look(); err != nil {
		return fmt.Errorf("store closed: %w", err)
	}
	// Badger flushes its memtable when it closes, through a memory map: without
	// room that ends the process. The log holds everything, so leave it as it is, and a
	// compaction that is held for want of room.
	if err := s.disk.Await(s.space.Done(), s.log.Unflushed, s.tableRoom()); err != nil {
		return fmt.Errorf("store closed without flushing, nothing is lost: %w", err)
	}
	return errors.Join(s.head.Sync(), s.closeFlushed(), s.head.Close())
}

// closeFlushed closes the database, unless it cannot flush its memtable: it would try for
// ever, and the log holds everything. The lock then stays until the process ends.
func (s *Store) closeFlushed() error {
	closed := make(chan struct{})
	var err error
	go func() {
		defer close(closed)
		err = s.closeDatabase()
	}()
	if unflushed := s.unlessUnflushed(closed); unflushed != nil {
		return unflushed
	}
	return err
}

// unlessUnflushed waits for what Badger has under way, unless it cannot flush a memtable:
// then it has no room for writes either, and tries for ever.
func (s *Store) unlessUnflushed(done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case err := <-s.log.Unflushed:
		return fmt.Errorf("store closed without flushing, nothing that was acknowledged is lost: %w", err)
	}
}
