package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/badgerengine"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/erasure"
	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Salvaged is the result of [Salvage].
type Salvaged struct {
	check.Salvaged
	// Rows is the number of versions of rows that were read from the damaged directory.
	Rows int64
	// Damage are the parts of the damaged directory that could not be read, in the order of the files.
	Damage []*layout.Damage
}

// Salvage creates a store in the directory to, which must be empty or absent, from what can be read in the damaged
// directory opts.Dir. It never writes into the damaged directory, which no other process may have open. graphs returns
// the workflow graphs of the packs in the new store. The new store has an id (epoch) of its own and is checked
// completely. If Salvage is interrupted, the next call starts again. [check.Salvage] says which runs and rows the new
// store contains.
//
// Errors: [datadir.ErrLocked], [ErrFormat] if the directory has no files of a store, *[datadir.KeyError],
// *[layout.Damage] if nothing can be read, *machine.Error DISK_LOW, *[check.Fault] if a check of the new store finds a
// fault.
func Salvage(ctx context.Context, opts Options, to string, graphs func(*Store) check.Graphs) (out Salvaged, err error) {
	from := filepath.Clean(opts.Dir)
	if err = salvage(ctx, opts.withDefaults(), to, graphs, &out); err != nil {
		err = fmt.Errorf("salvage %s: %w", from, err)
	}
	return out, err
}

// salvage does the work of [Salvage]: it copies what can be read, opens the new store, rebuilds its rows and
// checks it.
func salvage(ctx context.Context, opts Options, to string, graphs func(*Store) check.Graphs, out *Salvaged) (err error) {
	from := opts.Dir
	if held, err := datadir.HasStore(from); err != nil || !held {
		return errors.Join(fmt.Errorf("%w: %s holds no store", ErrFormat, from), err)
	}
	lock, err := datadir.HoldDir(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	head, err := datadir.ReadAcked(from)
	if err != nil {
		return err
	}
	if err := datadir.ClearFor(to); err != nil {
		return err
	}
	opts.migrated("cleared")
	opts.Dir, opts.migrating, opts.Repair = to, true, true
	if err := datadir.WithLock(to, func() error { return opts.fillDamaged(ctx, from, out) }); err != nil {
		return err
	}
	opts.migrated("copied")
	fresh, err := Open(opts)
	if err != nil {
		return err
	}
	if err = fresh.destroyErased(); err == nil {
		lost, last := out.lost(head)
		out.Salvaged, err = check.Salvage(ctx, fresh.view, func(ops []layout.Op) error { return fresh.put(ctx, ops) }, graphs(fresh), lost, last)
	}
	if err = errors.Join(err, fresh.Close()); err != nil {
		return err
	}
	opts.migrated("proven")
	return datadir.SettleIn(to)
}

// lost reports whether commits may be lost that no row tells of: a part of a log or of a table cannot be read, or the
// last acknowledged commit is not there or not known. last is the last acknowledged entry. Its cursor is 0 if it is not known.
func (s *Salvaged) lost(head *datadir.AckMark) (lost bool, last layout.LastEntry) {
	if head != nil {
		last = head.LastEntry
	}
	for _, d := range s.Damage {
		switch {
		case d.File == datadir.HeadName:
			return true, layout.LastEntry{}
		case d.File != keyring.Name && filepath.Ext(d.File) != ".vlog":
			lost = true
		}
	}
	return lost, last
}

// destroyErased marks the keys of erased runs as destroyed if their places were lost with the file of run keys.
func (s *Store) destroyErased() error {
	ring := s.engine.Keys()
	return s.view(func(txn *layout.Txn) error {
		return erasure.Rows(txn, func(_ uint32, e *machine.Erased) error {
			if ring.DestroyedAt(e.Key) != 0 {
				return nil
			}
			return ring.Destroy(e.Key, e.At)
		})
	})
}

// notSalvaged are the kinds of rows that a salvage does not copy: the row with the format and the id, because the new
// store has its own; watermarks (the times at which scans of queues begin); and the marks of backups, which another
// store cannot continue.
var notSalvaged = []byte{layout.KindFormat, layout.KindWatermark, layout.KindBackup}

// fillDamaged creates the database of the new store from the damaged directory from.
func (o Options) fillDamaged(ctx context.Context, from string, out *Salvaged) error {
	var epoch [16]byte
	if _, err := rand.Read(epoch[:]); err != nil {
		return err
	}
	keys := runKeyCount(0)
	marker := append(binary.BigEndian.AppendUint32(nil, FormatVersion), epoch[:]...)
	lost := map[layout.Damage]bool{}
	var err error
	out.Rows, err = badgerengine.FillDamaged(ctx, o.directory(), from, func(row datadir.FoundRow) bool {
		keys.note(row)
		return layout.Kinds[row.Key[0]].Row != "" && !slices.Contains(notSalvaged, row.Key[0])
	}, func(d *layout.Damage) {
		if !lost[*d] {
			lost[*d] = true
			out.Damage = append(out.Damage, d)
		}
	}, func() []layout.Op { return []layout.Op{{Key: layout.FormatKey, Value: marker}} })
	if err == nil {
		err = keys.copyKeys(from, &o, out)
	}
	slices.SortStableFunc(out.Damage, func(a, b *layout.Damage) int { return cmp.Compare(a.File, b.File) })
	return err
}

// runKeyCount is the number of keys of erasable runs that were ever created, according to the rows that mention such
// keys.
type runKeyCount uint64

func (c *runKeyCount) note(row datadir.FoundRow) {
	keys := uint64(0)
	switch {
	case string(row.Key) == string(layout.RunKeysKey) && len(row.Value) == 16+8:
		keys = binary.BigEndian.Uint64(row.Value[16:])
	case row.Key[0] == layout.KindErased && !row.Deleted:
		if erased, err := codec.DecodeErased(row.Value); err == nil {
			keys = erased.Key
		}
	}
	*c = max(*c, runKeyCount(keys))
}

// copyKeys copies the file with the keys of erasable runs. A truncated file is extended to its old size. A lost file is
// replaced by one without keys. So no new run gets the place of a lost or destroyed key.
func (c *runKeyCount) copyKeys(from string, o *Options, out *Salvaged) error {
	copied, err := keyring.Copy(filepath.Join(from, keyring.Name), o.Dir)
	damage, damaged := errors.AsType[*layout.Damage](err)
	switch {
	case damaged:
	case err != nil:
		return err
	case !copied && *c == 0:
		return nil
	case copied:
		return keyring.Extend(o.Dir, uint64(*c))
	default:
		damage = &layout.Damage{File: keyring.Name, Detail: "it is missing"}
	}
	out.Damage = append(out.Damage, &layout.Damage{File: damage.File, Detail: damage.Detail + "; erasable runs can be read only with a copy of it"})
	ring, err := keyring.Open(o.Dir, o.EncryptionKey, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(ring.Begin(), ring.Close()); err != nil {
		return err
	}
	return keyring.Extend(o.Dir, uint64(*c))
}
