package store

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// scrub proves the tables of the open database, one after the other: Badger takes
// a block that fails its checksum for the end of its table, in reads and, worse, in
// the compaction that then deletes the table. A damaged table fails the store.
func (s *Store) scrub(ctx context.Context) error {
	for _, t := range s.db.Tables() {
		if ctx.Err() != nil {
			return nil
		}
		_, err := verifyTable(s.opts.Dir, t.ID, options.Snappy)
		if errors.Is(err, ErrDamaged) && s.hasTable(t.ID) {
			return err
		}
	}
	return nil
}

// hasTable: a compaction may have deleted it meanwhile.
func (s *Store) hasTable(id uint64) bool {
	return slices.ContainsFunc(s.db.Tables(), func(t badger.TableInfo) bool { return t.ID == id })
}

// wholeGarbage proves the value logs that collection might rewrite: Badger moves
// what it reads before the first fault and deletes the file with what is behind.
func (s *Store) wholeGarbage() error {
	stats, err := os.ReadFile(filepath.Join(s.opts.Dir, "DISCARD"))
	if err != nil || !soundDiscard(stats) {
		return err
	}
	for at := 0; at < len(stats); at += 16 {
		id, dead := binary.BigEndian.Uint64(stats[at:]), binary.BigEndian.Uint64(stats[at+8:])
		if id == 0 {
			return nil
		}
		name := valueLogName(uint32(id))
		info, err := os.Stat(filepath.Join(s.opts.Dir, name))
		if err != nil || dead == 0 || float64(dead) < collectRatio*float64(info.Size()) {
			continue
		}
		if err := wholeValues(s.opts.Dir, name); err != nil {
			return err
		}
	}
	return nil
}
