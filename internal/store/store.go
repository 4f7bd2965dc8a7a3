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
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/erasure"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/internal/store/removal"
)

// FormatVersion is the newest storage format of the whole store. If a store has a format that this
// program does not support, opening it returns a *[FormatError].
const FormatVersion = layout.Format

// Store keeps runs in one storage engine. Safe for concurrent use.
type Store struct {
	opts   Options
	engine engine.Engine
	bounds kv.Bounds
	epoch  [16]byte
	// needsUpgrade reports whether the format row of the store still contains an older format than the
	// one that the storage engine has.
	needsUpgrade   bool
	readTimestamps *readTimestamps
	watermarks     *watermarks
	stats          stats
	// runCounts counts the runs of each namespace. The committer updates it.
	runCounts runCounts

	committer   *committer
	maintenance *maintenance
	remover     *removal.Remover
	runKeys     *runKeys
	eraser      *erasure.Eraser

	failOnce sync.Once
	failed   chan struct{}
	cause    error

	// replay computes the states of runs from their journals; see ReplayWith.
	replay atomic.Pointer[Replay]

	// importing is held during an import, so that only one import runs at a time.
	importing sync.Mutex

	closeOnce sync.Once
	closeErr  error
}

// Open opens or creates the store in opts.Dir. Errors: [datadir.ErrLocked] if another process has it open,
// [ErrFormat] if it has a format that this program does not support, *[layout.Damage] if acknowledged data is
// missing or stored data has changed, *[datadir.KeyError] if it is encrypted differently from
// opts.EncryptionKey, *machine.Error DISK_LOW if the disk space is too low for a start. After damage and a
// *KeyError the data of the directory is unchanged.
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
		// At this point Badger has only converted its logs to tables, as every start does. So the stored data is
		// unchanged, and the error says so.
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

// step calls the test hook Opening, if there is one, with the name of a finished part of the opening.
func (s *Store) step(name string) {
	if opening := s.opts.Hooks.Opening; opening != nil {
		opening(name)
	}
}

// openError adds the directory to an error of Open. For damage it also adds the state of the data and
// the next step for the operator.
func openError(dir, left string, err error) error {
	if errors.Is(err, layout.ErrDamaged) && dsn.IsURL(dir) {
		return fmt.Errorf("open store %s: %w; %s: keep a dump of its schema and restore a backup of the database ('pawl check --store URL' names the damage; docs/operations/postgresql-cluster.md)", dir, err, left)
	}
	if errors.Is(err, layout.ErrDamaged) {
		return fmt.Errorf("open store %s: %w; %s: keep a copy of the directory and restore a backup ('pawl check --data DIR' names the damage, 'pawl salvage' saves what is whole; docs/operations/backup.md, Damage)", dir, err, left)
	}
	return fmt.Errorf("open store %s: %w", dir, err)
}

// start checks the opened storage engine, loads the watermarks and cursors into memory, and starts the
// committer and the maintenance. Then it completes interrupted work.
func (s *Store) start() error {
	s.bounds = boundsOf(s.engine)
	if err := s.checkFormat(); err != nil {
		return err
	}
	s.step("marked")
	group := s.engine.LastKey()
	var cursors map[uint32]uint64
	err := s.viewAt(group, func(txn *layout.Txn) (err error) {
		if err = s.runKeys.open(txn); err != nil {
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

// finishInterrupted completes the removals and erasures that were interrupted when the store was last open, and
// removes the rows of interrupted imports. It also stores the format of the engine and the number of run keys
// if the rows are older.
func (s *Store) finishInterrupted(ctx context.Context) error {
	return errors.Join(s.upgradeFormat(ctx), s.ignoreDiskLow(s.dropMarked(ctx)), s.ignoreDiskLow(s.dropUnfinished()), s.ignoreDiskLow(s.runKeys.record(ctx)), s.ignoreDamageInRepair(s.ignoreDiskLow(s.eraser.FinishInterrupted(ctx))))
}

// ignoreDamageInRepair ignores damage while the store is open for a repair, because the repair may
// correct the damage. The next start then completes the interrupted work.
func (s *Store) ignoreDamageInRepair(err error) error {
	if s.opts.Repair && errors.Is(err, layout.ErrDamaged) {
		s.opts.Logger.Warn("interrupted removal deferred until after the repair", "error", err)
		return nil
	}
	return err
}

// ignoreDiskLow ignores the error that the disk is nearly full, because the store can still serve its data. The
// maintenance or a later start then completes the interrupted work.
func (s *Store) ignoreDiskLow(err error) error {
	if refusal, ok := errors.AsType[*machine.Error](err); ok && refusal.Reason == datadir.DiskLow {
		s.opts.Logger.Warn("interrupted removal deferred, disk almost full", "error", err)
		return nil
	}
	return err
}

// checkFormat reads the row with the storage format and the store's id, or writes it if the store is
// new.
func (s *Store) checkFormat() error {
	var marker []byte
	last := s.engine.LastKey()
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

// upgradeFormat changes the format in the store's format row to the storage engine's format.
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

// create chooses the random id (epoch) of a new store, or takes that of the migrated store, and writes the
// format row as commit group 1.
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
	return resultError(<-done)
}

// loadCursors finds the newest cursor of every namespace. It scans backwards, so the first row of a namespace
// has its newest cursor, and a seek skips the other rows.
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

// loadWatermarks reads the stored watermarks, at which the scans of queues begin.
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

// Commit stores a batch in one synced transaction. Then it sets batch.State.PrevHash to the run's new hash, and
// sets batch.State.Unlisted. ctx limits only the wait. A batch that is already in the committer's queue is
// processed even if ctx ends.
//
// Errors: machine.ErrSeqConflict, machine.ErrConsumed, machine.ErrEffectTaken (no row was stored),
// *machine.Error with DISK_LOW, BATCH_TOO_LARGE or NAME_TOO_LONG (no row was stored), machine.ErrIndeterminate
// (afterwards the store is read-only), [ErrClosed].
func (s *Store) Commit(ctx context.Context, batch *machine.Batch) (machine.Committed, error) {
	w, err := s.writesOf(ctx, batch)
	if err != nil {
		return machine.Committed{}, err
	}
	if err := s.write(ctx, w); err != nil {
		s.runKeys.unused(batch, err)
		return machine.Committed{}, err
	}
	batch.State.PrevHash, batch.State.Unlisted = w.hash, w.unlisted
	return machine.Committed{Cursor: w.cursor, PrevHash: w.prevHash, Hash: w.hash}, nil
}

// write passes writes to the committer, which checks their preconditions, and waits until they are synced.
// After the start of the store, all its changes use it. Writes that remove large values, or that request the
// removal of further rows (dropped), have work to do after their commit. write then waits for the commit and
// does this work, even if the caller has stopped waiting.
func (s *Store) write(ctx context.Context, w *Writes) error {
	if err := s.checkSize(w); err != nil {
		return err
	}
	large := w.removesLargeValues()
	if !large && w.dropped == nil {
		return s.committer.submit(ctx, w)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("commit not begun: %w", err)
	}
	ctx = context.WithoutCancel(ctx)
	release := func() {}
	if large {
		release = s.engine.BeginLargeDelete()
	}
	err := s.committer.submit(ctx, w)
	release() // dropUnder calls write, which must not hold two of them
	if err != nil || w.dropped == nil {
		return err
	}
	return s.dropUnder(ctx, w.dropped)
}

// Dir returns the directory or the URL with which the store was opened.
func (s *Store) Dir() string { return s.opts.Dir }

// Format returns the number of the format in which the store is written.
func (s *Store) Format() uint32 { return s.engine.Format() }

// Epoch returns the random id of this store, which never changes. A cursor is valid only in the store
// with the same epoch.
func (s *Store) Epoch() [16]byte { return s.epoch }

// Stats returns the counts of commits since the store was opened.
func (s *Store) Stats() Stats {
	return Stats{
		Groups: s.stats.groups.Load(), Batches: s.stats.batches.Load(),
		Keys: s.stats.keys.Load(), Bytes: s.stats.bytes.Load(),
	}
}

// Failed returns a channel that is closed after damage, or after an error that makes it unknown what was stored.
// Afterwards reads still work, and every write fails with the error that closed the channel. If it is unknown what was
// stored, this error wraps machine.ErrIndeterminate.
func (s *Store) Failed() <-chan struct{} { return s.failed }

func (s *Store) fail(cause error) {
	s.failOnce.Do(func() {
		s.cause = cause
		close(s.failed)
	})
}

// failure returns the reason why the store failed. It may be called only after the channel failed was
// closed.
func (s *Store) failure() error { return s.cause }

// Close stops accepting work, stores the waiting batches, waits for running reads and closes the
// database. It may be called more than once.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

// close ends the maintenance and the committer, and closes the storage engine. If the engine cannot flush its
// data, close returns that error and does not wait any longer.
func (s *Store) close() error {
	// An earlier error of a flush is only logged, because the storage engine retries the flush.
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
	s.readTimestamps.close()
	return s.engine.Close()
}

// expect is a precondition of a commit on one key. The key must have this value. If value is nil, the
// key must be absent.
type expect struct {
	key, value []byte
	// predicate decides whether the stored value is acceptable. If it is nil, the stored value must be
	// equal to value.
	predicate func(value []byte) bool
	// err is the error of the commit if the precondition does not hold.
	err error
}

// anyValue is a predicate for expect that accepts every value of an existing key.
func anyValue(value []byte) bool { return value != nil }

// Writes is an encoded batch: the rows that one commit sets, and the preconditions of the commit.
type Writes struct {
	ns  uint32
	ops []layout.Op

	// entry is the index of the journal entry in ops, into which the committer writes the cursor. It is
	// negative if the writes have no journal entry.
	entry int
	// run is the key of the run's head (current state). The seq of the run's last record must be prev
	// before the commit, and is last afterwards. runID is the id of the run for the cursor row.
	run        []byte
	runID      string
	prev, last uint64
	expects    []expect
	// requireNoRefs is the key prefix of the references to a blob that the writes remove. No key may
	// begin with it. If it is nil, nothing is checked.
	requireNoRefs []byte
	// dropped is the key prefix of rows that are removed by later commits, after this one. It is nil if
	// there are none.
	dropped []byte
	// reclaimsSpace means that the writes free disk space. They are then accepted even if the disk is
	// nearly full.
	reclaimsSpace bool
	// flushWatermarks means that the commit also stores the watermarks (where scans of queues begin)
	// that have risen.
	flushWatermarks bool
	// usage is what the writes add to rollups of usage. The committer decides to which ones, and adds the ops. usageAt is
	// the time of the writes in Unix nanoseconds.
	usage   []usageAdd
	usageAt int64

	size           size
	prevHash, hash [32]byte
	// unlisted are artifact versions of the run that still have no artifact row after this batch.
	unlisted []machine.ArtifactVersion
	cursor   uint64
}

// removesLargeValues reports whether the writes remove values that may be large.
func (w *Writes) removesLargeValues() bool {
	for i := range w.ops {
		if w.ops[i].RemovesLargeValue() {
			return true
		}
	}
	return false
}

// Ops returns the keys and values that the commit sets. The cursor in the entry is still 0.
func (w *Writes) Ops() []layout.Op { return w.ops }

// Bytes returns the total size of the keys and values.
func (w *Writes) Bytes() int64 {
	var n int64
	for i := range w.ops {
		n += int64(len(w.ops[i].Key) + len(w.ops[i].Value))
	}
	return n
}

// Encode computes the bytes of a batch and stores none of them. For a batch that begins an erasable run, it
// takes a run key, see runKeys.keyOf. It runs in the caller's goroutine, so that the committer only has to
// check, number and sync the batch. batch.State.PrevHash must be the hash of the run's last entry.
func (s *Store) Encode(batch *machine.Batch) (*Writes, error) {
	w, err := s.writesOf(context.Background(), batch)
	if err != nil {
		return nil, err
	}
	return w, s.checkSize(w)
}

// writesOf returns the writes of a batch with the preconditions of its commit.
func (s *Store) writesOf(ctx context.Context, batch *machine.Batch) (*Writes, error) {
	key, err := s.runKeys.keyOf(ctx, batch)
	if err != nil {
		return nil, err
	}
	m, err := layout.Encode(batch, key)
	if err != nil {
		return nil, err
	}
	w := &Writes{
		ns: m.Ns, ops: m.Ops, entry: m.Entry, run: m.Run, runID: m.RunID, prev: m.Prev, last: m.Last,
		prevHash: m.PrevHash, hash: m.Hash, unlisted: m.Unlisted,
		usage: s.usageOf(batch), usageAt: batch.State.At,
	}
	if len(m.Fresh) > 0 {
		w.expects = make([]expect, len(m.Fresh))
		for i, key := range m.Fresh {
			w.expects[i] = expect{key: key, err: machine.ErrConsumed}
		}
	}
	for _, key := range m.Untaken {
		w.expects = append(w.expects, expect{key: key, err: machine.ErrEffectTaken})
	}
	return w, nil
}

// checkSpace returns an error if the disk has too little space for the writes.
func (s *Store) checkSpace(w *Writes) error {
	return s.engine.CheckSpace(w.size.bytes, w.reclaimsSpace)
}
