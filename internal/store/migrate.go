package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/store/badgerengine"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Migration is the result of migrating a data directory from an older storage format.
type Migration struct {
	// From is the old format, and To is the new format. If they are equal, no migration was needed.
	From, To uint32
	// Rows is the number of rows that were copied unchanged. Repair counts all other rows, which were
	// computed from the journal entries.
	Rows   int64
	Repair check.Repair
	// Dir is the directory of the store in the new format. Old is the directory that was migrated,
	// whose contents are unchanged. If the new directory replaced it, Old is its new name.
	Dir, Old string
}

// copiedKinds lists the kinds of rows that a migration copies: the entries, and rows that cannot be computed
// from them. The heads (current states) are copied because they name the pack of each run. The outgoing
// work is copied because no entry contains the worker that holds a step.
var copiedKinds = []byte{
	layout.KindHead, layout.KindEntry, layout.KindOutbox, layout.KindPack, layout.KindPackName, layout.KindPackRef, layout.KindPackBare,
	layout.KindBlob, layout.KindBlobPiece, layout.KindUpload, layout.KindImport, layout.KindNamespace, layout.KindSubscription, layout.KindDeadLetter, layout.KindDrop,
}

// Migrate creates a store of this format in the directory to, from the store of the previous format in
// opts.Dir. graphs returns the workflow graphs of the new store's packs. Migrate copies the entries and the
// rows that cannot be computed, computes every other row, and checks the result before it marks the new store
// as complete. The contents of the old directory do not change. No other process may have it open.
//
// If to is "", the new directory replaces the old one. The old one is renamed: ".format" and the number
// of its format are appended to its name. If Migrate is interrupted at any moment, the next call
// continues the migration or starts it again.
func Migrate(ctx context.Context, opts Options, to string, graphs func(*Store) check.Graphs) (Migration, error) {
	dir := filepath.Clean(opts.Dir)
	out := Migration{From: FormatVersion - 1, To: FormatVersion, Dir: to, Old: dir}
	if to != "" {
		err := migrate(ctx, opts, &out, graphs, func() error { return datadir.SettleIn(to) })
		return out, migrateError(dir, err)
	}
	next, before := nextTo(dir), dir+fmt.Sprintf(".format%d", FormatVersion-1)
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

// nextTo returns the path of the new directory that will replace dir.
func nextTo(dir string) string { return dir + fmt.Sprintf(".format%d", FormatVersion) }

// change replaces the old directory by the new one: it renames dir to before, and then next to dir.
func change(dir, before, next string, step func(string)) error {
	if err := os.Rename(dir, before); err != nil {
		return err
	}
	step("moved")
	if err := errors.Join(os.Rename(next, dir), datadir.SyncDir(filepath.Dir(dir))); err != nil {
		return err
	}
	step("placed")
	return datadir.SettleIn(dir)
}

// migrated calls the test hook Migrating, if there is one, with the name of a finished step of a
// migration.
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

// goOn completes a migration that was interrupted while it renamed the directories, and then returns
// true. It returns false if there is none, so that the migration starts from the beginning.
func goOn(dir, next string) (bool, error) {
	if datadir.Progress(dir) == datadir.Complete {
		return true, datadir.SettleIn(dir)
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) && datadir.Progress(next) == datadir.Complete {
		return true, errors.Join(os.Rename(next, dir), datadir.SyncDir(filepath.Dir(dir)), datadir.SettleIn(dir))
	}
	return false, nil
}

// migrate creates and checks the store in out.Dir. At the end it calls swap while the old directory is still
// locked. If the store already has the new format, it does nothing and does not call swap.
func migrate(ctx context.Context, opts Options, out *Migration, graphs func(*Store) check.Graphs, swap func() error) (err error) {
	old, dir, err := openOld(opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Unlock()) }()
	err = old.readOldEpoch()
	if same, ok := errors.AsType[*FormatError](err); ok && same.Found == FormatVersion {
		out.From, out.Dir, err = FormatVersion, opts.Dir, nil
		return dir.CloseFiles()
	}
	if err == nil {
		err = datadir.ClearFor(out.Dir)
	}
	if err == nil {
		opts.migrated("cleared")
		opts.Dir, opts.Repair, opts.epoch = out.Dir, true, &old.epoch
		err = old.migrateInto(ctx, opts, dir.OpenedMark(), graphs, out)
	}
	if err = errors.Join(err, dir.CloseFiles()); err != nil {
		return err
	}
	if err := datadir.CopyOthers(old.opts.Dir, out.Dir); err != nil {
		return err
	}
	if err := datadir.SetProgress(out.Dir, datadir.Complete); err != nil {
		return err
	}
	opts.migrated("complete")
	return swap()
}

// openOld opens the database of a directory in order to copy it. It checks the files in the same way as
// every start.
func openOld(opts Options) (*Store, *badgerengine.Directory, error) {
	opts = opts.withDefaults()
	if held, err := datadir.HasStore(opts.Dir); err != nil || !held {
		return nil, nil, errors.Join(fmt.Errorf("%w: %s holds no store", ErrFormat, opts.Dir), err)
	}
	dir, err := badgerengine.OpenOld(opts.directory())
	return &Store{opts: opts, engine: dir}, dir, err
}

// readOldEpoch reads the epoch (id) of a store of the previous storage format. It returns an error for a
// store of any other format, because only the previous one can be migrated.
func (s *Store) readOldEpoch() error {
	var marker []byte
	err := s.viewAt(s.engine.LastKey(), func(txn *layout.Txn) (err error) {
		marker, err = layout.Get(txn, layout.FormatKey)
		return err
	})
	if err != nil || len(marker) != 4+len(s.epoch) {
		return errors.Join(fmt.Errorf("%w: marker of %d bytes", ErrFormat, len(marker)), err)
	}
	copy(s.epoch[:], marker[4:])
	if version := binary.BigEndian.Uint32(marker); version != FormatVersion-1 {
		return &FormatError{Found: version, Want: FormatVersion}
	}
	return nil
}

// migrateInto copies the rows of this old store into a new store, rebuilds all others, and then checks the new
// store.
func (s *Store) migrateInto(ctx context.Context, opts Options, found *datadir.AckMark, graphs func(*Store) check.Graphs, out *Migration) (err error) {
	if last := s.engine.LastKey(); found != nil && last < found.Group {
		return layout.NewDamage(datadir.HeadName, "group %d of commits was acknowledged, the database ends with %d", found.Group, last)
	}
	opts.migrating = true
	fresh, err := Open(opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fresh.Close()) }()
	for _, kind := range copiedKinds {
		n, err := s.copyRows(ctx, kind, fresh)
		if out.Rows += n; err != nil {
			return fmt.Errorf("copy %s rows: %w", layout.Kinds[kind].Row, err)
		}
	}
	opts.migrated("copied")
	// The new store completes the removals, and cleans up the imports, that the old store had not
	// finished. Every start does this.
	if err := fresh.finishInterrupted(ctx); err != nil {
		return err
	}
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
	return fresh.view(found.CheckIn)
}

// copyRows copies the rows of a kind unchanged to another store.
func (s *Store) copyRows(ctx context.Context, kind byte, to *Store) (n int64, err error) {
	var ops []layout.Op
	size := 0
	flush := func() error {
		n += int64(len(ops))
		batch := ops
		ops, size = nil, 0
		return to.write(ctx, &Writes{entry: -1, ops: batch})
	}
	view := func(read func(txn *layout.Txn) error) error { return s.viewAt(s.engine.LastKey(), read) }
	err = layout.EachRow(ctx, view, []byte{kind}, func(key, value []byte) error {
		grown := size + len(key) + len(value)
		if len(ops) > 0 && (grown > importBytes || len(ops) >= importKeys) {
			if err := flush(); err != nil {
				return err
			}
			grown = len(key) + len(value)
		}
		ops, size = append(ops, layout.Op{Key: key, Value: value}), grown
		return nil
	})
	if err != nil || len(ops) == 0 {
		return n, err
	}
	return n, flush()
}
