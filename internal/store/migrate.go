package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/store/codec"
)

// Migration is what became of a directory of an older format.
type Migration struct {
	// From and To are formats; equal: there was nothing to do.
	From, To uint32
	// Rows were copied as they were, Repair made all others from the entries.
	Rows   int64
	Repair Repair
	// Dir has the store in the new format, Old is what was migrated: unchanged, but for
	// the name where the new one took its place.
	Dir, Old string
}

// migratingName is a file in a directory that a migration is making: "building" until
// everything is there and proven, "complete" until the directory has its place.
const (
	migratingName = "MIGRATING"
	building      = "building\n"
	complete      = "complete\n"
)

// copied are the kinds of rows that a migration takes over: what is no function of the
// entries, the entries, the heads, which name each run's pack, and outgoing work, of
// which no entry says who holds it.
var copied = []byte{
	kindHead, kindEntry, kindOutbox, kindPack, kindPackName, kindPackRef, kindPackBare,
	kindBlob, kindBlobPiece, kindUpload, kindImport, kindNamespace, kindSubscription, kindDeadLetter, kindDrop,
}

// Migrate makes a store of this format, in the directory to, of the store of the format
// before in opts.Dir. graphs are those of the new store's packs. Everything is made anew
// from the entries and proven before it is called complete. The old directory holds what
// it held; nobody else may have it open.
//
// With to "" the new directory takes the old one's place, which is kept beside it under
// its name and ".format1". Broken off at any moment, and called again, it goes on or
// begins again.
func Migrate(ctx context.Context, opts Options, to string, graphs func(*Store) Graphs) (Migration, error) {
	dir := filepath.Clean(opts.Dir)
	out := Migration{From: FormatVersion - 1, To: FormatVersion, Dir: to, Old: dir}
	if to != "" {
		err := migrate(ctx, opts, &out, graphs, func() error { return settleIn(to) })
		return out, migrateError(dir, err)
	}
	next, before := dir+fmt.Sprintf(".format%d", FormatVersion), dir+fmt.Sprintf(".format%d", FormatVersion-1)
	done, err := goOn(dir, next)
	if done || err != nil {
		out.Dir, out.Old = dir, before
		return out, migrateError(dir, err)
	}
	if _, err := os.Lstat(before); err == nil {
		return out, migrateError(dir, fmt.Errorf("%s is in the way: it is where the old directory goes", before))
	}
	out.Dir = next
	err = migrate(ctx, opts, &out, graphs, func() error {
		return change(dir, before, next, opts.migrated)
	})
	if err == nil && out.From != out.To {
		out.Dir, out.Old = dir, before
	}
	return out, migrateError(dir, err)
}

// change puts the new directory in the place of the old one.
func change(dir, before, next string, step func(string)) error {
	if err := os.Rename(dir, before); err != nil {
		return err
	}
	step("moved")
	if err := errors.Join(os.Rename(next, dir), syncDir(filepath.Dir(dir))); err != nil {
		return err
	}
	step("placed")
	return settleIn(dir)
}

// migrated tells tests how far a migration is.
func (o *Options) migrated(step string) {
	if o.Hooks.Migrating != nil {
		o.Hooks.Migrating(step)
	}
}

func migrateError(dir string, err error) error {
	if err != nil {
		return fmt.Errorf("migrate %s: %w", dir, err)
	}
	return nil
}

// goOn ends a migration that was broken off while the directories changed places.
func goOn(dir, next string) (bool, error) {
	if state(dir) == complete {
		return true, settleIn(dir)
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) && state(next) == complete {
		return true, errors.Join(os.Rename(next, dir), syncDir(filepath.Dir(dir)), settleIn(dir))
	}
	return false, nil
}

// state is what a directory's file says, "" without one.
func state(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, migratingName))
	if err != nil {
		return ""
	}
	return string(data)
}

// note says, synced, how far a directory is.
func note(dir, how string) error {
	file, err := os.OpenFile(filepath.Join(dir, migratingName), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(how)
	return errors.Join(err, file.Sync(), file.Close(), syncDir(dir))
}

// settleIn makes a complete directory one like any other.
func settleIn(dir string) error {
	return errors.Join(os.Remove(filepath.Join(dir, migratingName)), syncDir(dir))
}

// clearFor empties the directory that is to be made; one that a migration has begun may go.
func clearFor(dir string) error {
	if state(dir) != "" {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	files, err := os.ReadDir(dir)
	if len(files) > 0 {
		return fmt.Errorf("%s is not empty", dir)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return errors.Join(os.MkdirAll(dir, 0o700), note(dir, building))
}

// migrate makes out.Dir and calls swap before the old directory is free for others.
func migrate(ctx context.Context, opts Options, out *Migration, graphs func(*Store) Graphs, swap func() error) (err error) {
	old, found, err := openOld(opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, old.lock.release()) }()
	err = old.outdated()
	if same, ok := errors.AsType[*FormatError](err); ok && same.Found == FormatVersion {
		out.From, out.Dir, err = FormatVersion, opts.Dir, nil
		return old.db.Close()
	}
	if err == nil {
		err = clearFor(out.Dir)
	}
	if err == nil {
		opts.migrated("cleared")
		opts.Dir, opts.Repair, opts.epoch = out.Dir, true, &old.epoch
		err = old.into(ctx, opts, found, graphs, out)
	}
	if err = errors.Join(err, old.db.Close()); err != nil {
		return err
	}
	if err := errors.Join(copyOthers(old.opts.Dir, out.Dir), note(out.Dir, complete)); err != nil {
		return err
	}
	opts.migrated("complete")
	return swap()
}

// openOld opens the database of a directory, after the proofs of any start.
func openOld(opts Options) (*Store, *acked, error) {
	opts = opts.withDefaults()
	if held, err := Holds(opts.Dir); err != nil || !held {
		return nil, nil, errors.Join(fmt.Errorf("%w: %s holds no store", ErrFormat, opts.Dir), err)
	}
	s := &Store{opts: opts, log: &logger{log: opts.Logger, room: func() {}}}
	found, err := s.openDatabase()
	return s, found, err
}

// outdated reads the epoch of a store of the format before this one, the only one that is
// migrated.
func (s *Store) outdated() error {
	txn := s.db.NewTransactionAt(s.db.MaxVersion(), false)
	defer txn.Discard()
	marker, err := get(txn, formatKey)
	if err != nil || len(marker) != 4+len(s.epoch) {
		return errors.Join(fmt.Errorf("%w: marker of %d bytes", ErrFormat, len(marker)), err)
	}
	copy(s.epoch[:], marker[4:])
	if version := binary.BigEndian.Uint32(marker); version != FormatVersion-1 {
		return &FormatError{Found: version, Want: FormatVersion}
	}
	return nil
}

// into fills a new store from an old one, and proves it.
func (s *Store) into(ctx context.Context, opts Options, found *acked, graphs func(*Store) Graphs, out *Migration) (err error) {
	if found != nil && s.db.MaxVersion() < found.group {
		return damage(headName, "group %d of commits was acknowledged, the database ends with %d", found.group, s.db.MaxVersion())
	}
	opts.migrating = true
	fresh, err := Open(opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fresh.Close()) }()
	for _, kind := range copied {
		n, err := s.copyRows(ctx, kind, fresh)
		if out.Rows += n; err != nil {
			return fmt.Errorf("copy %s rows: %w", kinds[kind].row, err)
		}
	}
	opts.migrated("copied")
	if out.Repair, err = fresh.Repair(ctx, graphs(fresh)); err != nil {
		return err
	}
	if len(out.Repair.Broken) > 0 {
		return fmt.Errorf("%d runs are not in order, nothing was changed: %w", len(out.Repair.Broken), out.Repair.Broken[0])
	}
	opts.migrated("repaired")
	if _, err := fresh.Check(ctx, graphs(fresh)); err != nil {
		return err
	}
	opts.migrated("proven")
	return fresh.hasAcked(found)
}

// hasAcked looks for what the old directory says was acknowledged last.
func (s *Store) hasAcked(found *acked) error {
	if found == nil || found.cursor == 0 {
		return nil
	}
	return s.view(func(txn *badger.Txn) error {
		seen := false
		err := eachPlace(txn, found.ns, found.cursor, func(_ uint64, place codec.Place) (bool, error) {
			e, _, err := entryAt(txn, found.ns, place)
			seen = err == nil && e.Hash == found.hash
			return false, err
		})
		if err == nil && !seen {
			err = damage(headName, "commit %d was acknowledged, the migrated store has another one or none", found.cursor)
		}
		return err
	})
}

// copyRows takes over the rows of a kind as they are.
func (s *Store) copyRows(ctx context.Context, kind byte, to *Store) (n int64, err error) {
	txn := s.db.NewTransactionAt(s.db.MaxVersion(), false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kind}})
	defer it.Close()
	var ops []Op
	size := 0
	flush := func() error {
		n += int64(len(ops))
		batch := ops
		ops, size = nil, 0
		return to.write(ctx, &Writes{entry: -1, ops: batch})
	}
	for it.Rewind(); has(it, []byte{kind}); it.Next() {
		value, err := copyOf(it.Item())
		if err != nil {
			return n, err
		}
		ops = append(ops, Op{Key: it.Item().KeyCopy(nil), Value: value})
		if size += len(value); size >= importBytes || len(ops) >= importKeys {
			if err := flush(); err != nil {
				return n, err
			}
		}
	}
	if len(ops) == 0 {
		return n, nil
	}
	return n, flush()
}

// copyOthers takes over files beside the store's own, such as a place in an export.
func copyOthers(from, to string) error {
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	own := []string{headName, "LOCK", "KEYREGISTRY", "DISCARD", badger.ManifestFilename, migratingName}
	for _, f := range files {
		ext := filepath.Ext(f.Name())
		if !f.Type().IsRegular() || slices.Contains(own, f.Name()) || slices.Contains([]string{".sst", ".mem", ".vlog"}, ext) {
			continue
		}
		if err := copyFile(filepath.Join(from, f.Name()), filepath.Join(to, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}
