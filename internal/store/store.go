package store

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/badgerengine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/diskspace"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/erasure"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/internal/store/removal"
)

// FormatVersion is the newest format of the whole store. If a store has a format that this program does
// not support, opening it returns a *[FormatError].
const FormatVersion = layout.Format

// Store keeps runs in one engine. Safe for concurrent use.
type Store struct {
	opts   Options
	engine engine.Engine
	bounds kv.Bounds
	epoch  [16]byte
	// needsUpgrade reports whether the store's marker contains an older format than the engine's
	// format.
	needsUpgrade   bool
	readTimestamps *readTimestamps
	watermarks     *watermarks
	stats          stats
	// runCounts is updated by the committer.
	runCounts runCounts

	committer   *committer
	maintenance *maintenance
	remover     *removal.Remover
	runKeys     *erasure.RunKeys
	eraser      *erasure.Eraser

	failOnce sync.Once
	failed   chan struct{}
	cause    error

	// replay computes the state of runs; see ReplayWith.
	replay atomic.Pointer[Replay]

	// importing is held during an import, so that only one import runs at a time.
	importing sync.Mutex

	closeOnce sync.Once
	closeErr  error
}

// Open opens or creates the store in opts.Dir. Errors: [ErrLocked] if another process has it open,
// [ErrFormat] if a newer version wrote it, *[layout.Damage] if acknowledged data is missing or
// stored data has changed, *[datadir.KeyError] if it is encrypted differently from
// opts.EncryptionKey (the directory stays unchanged in both cases), *machine.Error DISK_LOW if the
// disk space is too low for a start.
func Open(opts Options) (*Store, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("store options: %w", err)
	}
	s := &Store{
		opts:       opts,
		watermarks: &watermarks{queues: make(map[layout.QueueID]*watermark)},
		failed:     make(chan struct{}),
	}
	s.remover = &removal.Remover{View: s.view, Write: s.writeRemoval}
	var err error
	if s.engine, err = opts.Engine(opts); err != nil {
		return nil, openError(opts.Dir, "nothing was changed", err)
	}
	s.wireErasure()
	if err := s.start(); err != nil {
		// Badger has already converted its logs to tables, as in every start.
		return nil, openError(opts.Dir, "nothing that it holds was changed", errors.Join(err, s.closeFailed()))
	}
	return s, nil
}

// closeFailed closes a store whose start failed.
func (s *Store) closeFailed() error {
	if s.maintenance != nil {
		return s.Close()
	}
	return s.engine.Close()
}

// step reports the progress of an opening to tests.
func (s *Store) step(name string) {
	if opening := s.opts.Hooks.Opening; opening != nil {
		opening(name)
	}
}

// step reports to tests how far an opening has come.
func openError(dir, left string, err error) error {
	if errors.Is(err, layout.ErrDamaged) && dsn.Is(dir) {
		return fmt.Errorf("open store %s: %w; %s: keep a dump of its schema and restore a backup of the database ('pawl check --store URL' names the damage; docs/operations/postgresql-cluster.md)", dir, err, left)
	}
	if errors.Is(err, layout.ErrDamaged) {
		return fmt.Errorf("open store %s: %w; %s: keep a copy of the directory and restore a backup ('pawl check --data DIR' names the damage; docs/operations/backup.md, Damage)", dir, err, left)
	}
	return fmt.Errorf("open store %s: %w", dir, err)
}

// openError adds the directory to an error. For damage it also adds the state of the data and the next
// step for the operator.
func (s *Store) start() error {
	s.bounds = boundsOf(s.engine)
	if err := s.checkFormat(); err != nil {
		return err
	}
	s.step("marked")
	group := s.engine.Last()
	var cursors map[uint32]uint64
	err := s.viewAt(group, func(txn *layout.Txn) (err error) {
		if err = s.runKeys.Open(txn); err != nil {
			return err
		}
		if cursors, err = loadCursors(txn); err != nil {
			return err
		}
		if err = s.engine.Confirm(txn, s.epoch, s.opts.Repair); err != nil {
			return err
		}
		return s.loadWatermarks(txn)
	})
	if err == nil {
		err = s.engine.Serve(group, s.epoch)
	}
	if err != nil {
		return err
	}
	s.step("confirmed")
	s.engine.Release(group)
	s.readTimestamps = newReadTimestamps(group, cursors)
	s.committer = newCommitter(s, group, cursors)
	go s.committer.run()
	if s.maintenance, err = startMaintenance(s); err != nil {
		return err
	}
	return s.finishInterrupted(context.Background())
}

// finishInterrupted completes the work that was interrupted when the store last stopped.
func (s *Store) finishInterrupted(ctx context.Context) error {
	return errors.Join(s.upgradeFormat(ctx), s.ignoreDiskLow(s.dropMarked(ctx)), s.ignoreDiskLow(s.dropUnfinished()), s.ignoreDiskLow(s.runKeys.Name(ctx)), s.ignoreDiskLow(s.eraser.Unfinished(ctx)))
}

// ignoreDamageInRepair ignores damage while the store is open for a repair, because the repair may
// remove the damage. The next start then completes the interrupted work.
func (s *Store) ignoreDamageInRepair(err error) error {
	if s.opts.Repair && errors.Is(err, layout.ErrDamaged) {
		s.opts.Logger.Warn("interrupted removal deferred until after the repair", "error", err)
		return nil
	}
	return err
}

// ignoreDiskLow ignores the error that the disk is nearly full. The store can still serve its data. The
// removal is done when there is enough space.
func (s *Store) ignoreDiskLow(err error) error {
	if refusal, ok := errors.AsType[*machine.Error](err); ok && refusal.Reason == diskspace.DiskLow {
		s.opts.Logger.Warn("interrupted removal deferred, disk almost full", "error", err)
		return nil
	}
	return err
}

// checkFormat reads the format marker, or writes it if the store is new.
func (s *Store) checkFormat() error {
	var marker []byte
	last := s.engine.Last()
	err := s.viewAt(last, func(txn *layout.Txn) (err error) {
		marker, err = layout.Get(txn, layout.FormatKey)
		return err
	})
	switch {
	case err != nil:
		return err
	case marker == nil && last != 0:
		return fmt.Errorf("%w: the directory holds a Badger database of something else", ErrFormat)
	case marker == nil:
		return s.create()
	case len(marker) < 4:
		return fmt.Errorf("%w: marker of %d bytes", ErrFormat, len(marker))
	}
	if version := binary.BigEndian.Uint32(marker); version < layout.OldestFormat || version > s.engine.Format() {
		return &FormatError{Found: version, Want: FormatVersion}
	}
	if len(marker) != 4+len(s.epoch) {
		return fmt.Errorf("%w: marker of %d bytes", ErrFormat, len(marker))
	}
	copy(s.epoch[:], marker[4:])
	s.needsUpgrade = binary.BigEndian.Uint32(marker) < s.engine.Format()
	return nil
}

// upgradeFormat changes the store's format marker to the engine's format.
func (s *Store) upgradeFormat(ctx context.Context) error {
	if !s.needsUpgrade {
		return nil
	}
	s.needsUpgrade = false
	return s.put(ctx, []layout.Op{{Key: layout.FormatKey, Value: s.marker()}})
}

func (s *Store) marker() []byte {
	return append(binary.BigEndian.AppendUint32(nil, s.engine.Format()), s.epoch[:]...)
}

// create chooses the epoch of a new store and writes the format marker as group 1.
func (s *Store) create() error {
	if s.opts.epoch != nil {
		s.epoch = *s.opts.epoch
	} else if _, err := rand.Read(s.epoch[:]); err != nil {
		return err
	}
	batch := s.engine.Batch()
	batch.Set(layout.FormatKey, s.marker())
	done := make(chan kv.Result, 1)
	batch.Commit(1, func(r kv.Result) { done <- r })
	return unstored(<-done)
}

// loadCursors finds the newest cursor of every namespace.
func loadCursors(txn *layout.Txn) (map[uint32]uint64, error) {
	it := txn.Scan(kv.Range{Reverse: true, KeysOnly: true})
	defer it.Close()
	cursors := make(map[uint32]uint64)
	for it.Seek([]byte{layout.KindCursor + 1}); it.Valid(); {
		key := it.Key()
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

func (s *Store) loadWatermarks(txn *layout.Txn) error {
	it := txn.Scan(kv.Range{Prefix: []byte{layout.KindWatermark}})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		err := layout.ValueOf(it, func(v []byte) error {
			at, err := codec.DecodeNumber(v)
			s.watermarks.load(it.Key(), int64(at))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Commit stores a batch in one synced transaction. Then it sets batch.State.PrevHash to the run's new
// hash, and sets batch.State.Unlisted. The context limits only the wait. A batch that the committer has
// received is still committed.
//
// Errors: machine.ErrSeqConflict, machine.ErrConsumed (no row was stored), *machine.Error with
// DISK_LOW, BATCH_TOO_LARGE or NAME_TOO_LONG (no row was stored), machine.ErrIndeterminate (afterwards
// the store is read-only), [ErrClosed].
func (s *Store) Commit(ctx context.Context, batch *machine.Batch) (machine.Committed, error) {
	w, err := s.writesOf(ctx, batch)
	if err != nil {
		return machine.Committed{}, err
	}
	if err := s.write(ctx, w); err != nil {
		s.runKeys.Unused(batch, err)
		return machine.Committed{}, err
	}
	batch.State.PrevHash, batch.State.Unlisted = w.hash, w.unlisted
	return machine.Committed{Cursor: w.cursor, PrevHash: w.prevHash, Hash: w.hash}, nil
}

// write passes writes to the committer, which checks their preconditions, and waits until they are
// synced. All changes of the store use it. If the writes drop the rows under a prefix, write then
// removes those rows, even if the caller has stopped waiting.
func (s *Store) write(ctx context.Context, w *Writes) error {
	if err := s.checkSize(w); err != nil {
		return err
	}
	release := func() {}
	if w.removesLargeValues() {
		release = s.engine.BeginLargeDelete()
	}
	err := s.committer.submit(ctx, w)
	release()
	if err != nil || w.dropped == nil {
		return err
	}
	return s.dropUnder(context.WithoutCancel(ctx), w.dropped)
}

// Dir returns the directory or the URL with which the store was opened.
func (s *Store) Dir() string { return s.opts.Dir }

// Epoch returns the identity of this store. It never changes. A cursor is valid only in the store with
// the same epoch.
func (s *Store) Epoch() [16]byte { return s.epoch }

// Stats returns the counts of commits since the store was opened.
func (s *Store) Stats() Stats {
	return Stats{
		Groups: s.stats.groups.Load(), Batches: s.stats.batches.Load(),
		Keys: s.stats.keys.Load(), Bytes: s.stats.bytes.Load(),
	}
}

// Failed returns a channel that is closed after an error that makes it unknown what was stored. After
// that, reads still work, and every write fails with machine.ErrIndeterminate.
func (s *Store) Failed() <-chan struct{} { return s.failed }

func (s *Store) fail(cause error) {
	s.failOnce.Do(func() {
		s.cause = cause
		close(s.failed)
	})
}

// failure returns the reason why the store failed. It may be called only after failed was closed.
func (s *Store) failure() error { return s.cause }

// Close stops accepting work, stores the batches that wait, waits for running reads and closes the
// database. It may be called more than once.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Store) close() error {
	// Removals that failed earlier were retried in the meantime and are retried as needed.
	select {
	case err := <-s.engine.Fatal():
		s.opts.Logger.Debug("flush before close failed", "error", err)
	default:
	}
	s.maintenance.cancel()
	close(s.committer.stop)
	for _, done := range []<-chan struct{}{s.maintenance.done, s.committer.done} {
		select {
		case <-done:
		case err := <-s.engine.Fatal():
			err = badgerengine.Unflushed(err)
			s.fail(fmt.Errorf("%w: %w", machine.ErrIndeterminate, err))
			close(s.committer.abandoned)
			return err
		}
	}
	s.readTimestamps.shut()
	return s.engine.Close()
}
