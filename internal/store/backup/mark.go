package backup

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// A store keeps one row, a mark, for each of its latest backups, at most maxMarks. An incremental backup can
// continue only a backup whose mark exists. A restored store has no marks. A copy of the data directory has
// only the marks that existed when it was copied.

// maxMarks is the maximum number of backups that a store remembers.
const maxMarks = 1000

type mark struct {
	key []byte
	// group is the last commit in the backup.
	group uint64
}

// sinceOf returns the last commit in the backup with the given id. If id is "", it returns 0.
func sinceOf(view View, id string) (since uint64, err error) {
	if id == "" {
		return 0, nil
	}
	err = view(func(txn *layout.Txn) error {
		value, err := layout.Get(txn, layout.BackupKey(id))
		if err == nil && value == nil {
			err = fmt.Errorf("%w: %s belongs to another store, to a copy of this store, or is no longer known: make a full backup", ErrForeign, id)
		}
		if err != nil {
			return err
		}
		since, err = codec.DecodeNumber(value)
		return err
	})
	return since, err
}

// note stores the mark of a backup, which is the row by which the store remembers the backup. It is called
// after all rows of the backup were written. Backups never contain marks. If there are too many marks, note
// removes the oldest ones.
func note(ctx context.Context, from Source, h Header) error {
	marks, err := marksOf(from.View)
	if err != nil {
		return err
	}
	ops := []layout.Op{{Key: layout.BackupKey(h.ID), Value: codec.EncodeNumber(h.Group)}}
	slices.SortFunc(marks, func(a, b mark) int { return cmp.Compare(a.group, b.group) })
	for _, old := range marks[:max(0, len(marks)+1-maxMarks)] {
		ops = append(ops, layout.Op{Key: old.key, Delete: true})
	}
	return from.Note(ctx, ops)
}

// Last returns the time at which the newest backup began that the store remembers, not later than now. It returns the
// zero time if the store remembers no backup whose id contains a time. This is so in a new or restored store, after
// check --repair has rebuilt the rows, and if a program that made random ids wrote all backups.
func Last(view View, now time.Time) (last time.Time, err error) {
	err = eachMark(view, func(item *kv.Iterator) error {
		if at := timeOf(item.Key()); at.After(last) && !at.After(now) {
			last = at
		}
		return nil
	})
	return last, err
}

// oldestID is a time before the first backup whose id contains its time. If an id seems to contain an earlier time, the
// id is a random one of an older program.
var oldestID = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// timeOf returns the time in a backup's id. key is the key of the backup's mark. If the id is a random one without a
// time, timeOf returns the zero time.
func timeOf(key []byte) time.Time {
	id, _, _ := layout.CutName(key[len(layout.Prefix(nil, layout.KindBackup, 0)):])
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != len(ulid.ULID{}) {
		return time.Time{}
	}
	if at := ulid.Time(ulid.ULID(raw).Time()); at.After(oldestID) {
		return at
	}
	return time.Time{}
}

// Forget removes the rows by which the store remembers its backups, so that no incremental backup can continue them and
// the next backup must be a full one.
func Forget(ctx context.Context, view View, write func(ctx context.Context, ops []layout.Op) error) error {
	var ops []layout.Op
	err := eachMark(view, func(item *kv.Iterator) error {
		ops = append(ops, layout.Op{Key: item.KeyCopy(), Delete: true})
		return nil
	})
	if err != nil || len(ops) == 0 {
		return err
	}
	return write(ctx, ops)
}

func marksOf(view View) (marks []mark, err error) {
	err = eachMark(view, func(item *kv.Iterator) error {
		value, err := layout.CopyOf(item)
		if err != nil {
			return err
		}
		group, err := codec.DecodeNumber(value)
		marks = append(marks, mark{key: item.KeyCopy(), group: group})
		return err
	})
	return marks, err
}

func eachMark(view View, visit func(item *kv.Iterator) error) error {
	p := []byte{layout.KindBackup}
	return view(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: p})
		defer it.Close()
		for it.Rewind(); layout.AtPrefix(it, p); it.Next() {
			if err := visit(it); err != nil {
				return err
			}
		}
		return nil
	})
}
