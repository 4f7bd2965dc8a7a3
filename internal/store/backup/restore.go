package backup

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Target is the empty store into which a backup is restored.
type Target struct {
	// Format is the storage format of the store.
	Format uint32
	// View reads the rows that are restored so far. Write stores rows in one commit.
	View  View
	Write func(ctx context.Context, ops []layout.Op) error
}

// Order checks the order of the headers of a chain of backups. The first backup must be a full one, and
// each other backup must continue the one before it. Errors: [ErrInvalid].
func Order(chain []Header) error {
	for i, h := range chain {
		switch {
		case i == 0 && h.Parent != "":
			return fmt.Errorf("%w: the first backup is not a full backup: it continues %s", ErrInvalid, h.Parent)
		case i > 0 && h.Parent == "":
			return fmt.Errorf("%w: number %d is a full backup, which continues no other", ErrInvalid, i+1)
		case i > 0 && h.Parent != chain[i-1].ID:
			return fmt.Errorf("%w: number %d continues %s, but the backup before it is %s: a backup is missing, or the order is wrong", ErrInvalid, i+1, h.Parent, chain[i-1].ID)
		}
	}
	if len(chain) == 0 {
		return fmt.Errorf("%w: no backup was given", ErrInvalid)
	}
	return nil
}

// Restore writes a chain of n backups into an empty store. The caller must have checked the order of
// the chain with [Order]. open returns the backup with the index i.
func Restore(ctx context.Context, to Target, n int, open func(i int) (io.ReadCloser, error)) error {
	for i := range n {
		if err := restoreOne(ctx, to, i == n-1, func() (io.ReadCloser, error) { return open(i) }); err != nil {
			return fmt.Errorf("backup %d of %d: %w", i+1, n, err)
		}
	}
	s := &sweeper{to: to, imported: map[string]uint64{}}
	for _, step := range []func(context.Context) error{s.heads, s.perRun, s.callers, s.refs, s.pieces, s.cursors} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return s.flush(ctx)
}

// restoreOne writes the rows of one backup. If the backup is not the last of the chain, restoreOne
// skips the rows of short-lived kinds, for example timers.
func restoreOne(ctx context.Context, to Target, last bool, open func() (io.ReadCloser, error)) error {
	in, err := open()
	if err != nil {
		return err
	}
	defer in.Close()
	accept := func(h Header) error {
		if h.Format == to.Format {
			return nil
		}
		return fmt.Errorf("%w: it was made from a store of format %d, this program writes format %d: restore it with a program of that format and migrate the result", ErrInvalid, h.Format, to.Format)
	}
	_, err = readIf(in, accept, func(rows []layout.Op) error {
		var ops []layout.Op
		for _, row := range rows {
			if last || bytes.IndexByte(stable, row.Key[0]) >= 0 {
				ops = append(ops, row)
			}
		}
		return writeAll(ctx, to, ops)
	})
	return err
}

// writeBytes and writeRows are the approximate limits of one commit of a restore, in bytes and in rows.
const (
	writeBytes = 2 << 20
	writeRows  = 4096
)

func writeAll(ctx context.Context, to Target, ops []layout.Op) error {
	for len(ops) > 0 {
		n, size := 0, 0
		for n < len(ops) && n < writeRows && (n == 0 || size < writeBytes) {
			size += len(ops[n].Key) + len(ops[n].Value)
			n++
		}
		if err := to.Write(ctx, ops[:n]); err != nil {
			return err
		}
		ops = ops[n:]
	}
	return nil
}

// sweeper removes rows that were restored from an earlier backup of the chain, but whose run or blob
// does not exist in the last backup.
type sweeper struct {
	to  Target
	ops []layout.Op
	// imported maps the key of each imported run's head (its stored current state) to the run's last
	// record.
	imported map[string]uint64
}

func (s *sweeper) drop(ctx context.Context, key []byte) error {
	s.ops = append(s.ops, layout.Op{Key: bytes.Clone(key), Delete: true})
	if len(s.ops) < writeRows {
		return nil
	}
	return s.flush(ctx)
}

func (s *sweeper) flush(ctx context.Context) error {
	ops := s.ops
	s.ops = nil
	return writeAll(ctx, s.to, ops)
}

// filter drops the rows of a kind for which the function keep returns false.
func (s *sweeper) filter(ctx context.Context, kind byte, keep func(txn *layout.Txn, item *kv.Iterator) (bool, error)) error {
	err := s.to.View(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: []byte{kind}})
		defer it.Close()
		for it.Rewind(); layout.AtPrefix(it, []byte{kind}); it.Next() {
			if err := ctx.Err(); err != nil {
				return err
			}
			kept, err := keep(txn, it)
			if err == nil {
				// If a read has failed, keep may have returned false only because data was missing.
				// Then the row must not be dropped.
				err = txn.Err()
			}
			if err == nil && !kept {
				err = s.drop(ctx, it.Key())
			}
			if err != nil {
				return fmt.Errorf("%s: %w", layout.RowName(it.Key()), err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.flush(ctx)
}

// heads drops the heads (stored current states) of runs that do not exist. A run exists if it has all its rows
// in the list indexes. These rows come only from the last backup of the chain.
func (s *sweeper) heads(ctx context.Context) error {
	return s.filter(ctx, layout.KindHead, func(txn *layout.Txn, item *kv.Iterator) (bool, error) {
		value, err := layout.CopyOf(item)
		if err != nil {
			return false, err
		}
		st, err := codec.LeftOfHead(value)
		if err != nil {
			return false, err
		}
		for _, row := range rules.Indexes(st) {
			if listed, err := layout.Get(txn, layout.IndexKey(nil, st.Namespace, st.RunID, &row)); err != nil || listed == nil {
				return false, err
			}
		}
		if st.Imported {
			s.imported[string(item.Key())] = st.Seq
		}
		return true, nil
	})
}

// there reports whether the run of a row exists or is still being imported or removed. The next start
// of the store completes such a removal and cleans up such an import.
func (s *sweeper) there(txn *layout.Txn, ns uint32, run string) (bool, error) {
	if there, err := layout.RunExists(txn, ns, run); err != nil || there {
		return there, err
	}
	for _, mark := range [][]byte{layout.RemovalKey(ns, run), layout.RunKey(nil, layout.KindImport, ns, run)} {
		if value, err := layout.Get(txn, mark); err != nil || value != nil {
			return value != nil, err
		}
	}
	return false, nil
}

// perRun drops the rows of runs that do not exist, and of an imported run the rows that do not belong to the
// import.
func (s *sweeper) perRun(ctx context.Context) error {
	for _, kind := range []byte{layout.KindEntry, layout.KindSnapshot, layout.KindArtifact, layout.KindMessage, layout.KindRunID} {
		err := s.filter(ctx, kind, func(txn *layout.Txn, item *kv.Iterator) (bool, error) {
			ns, run, err := layout.RunOf(item.Key())
			if err != nil {
				return false, err
			}
			if there, err := s.there(txn, ns, run); err != nil || !there {
				return false, err
			}
			last, ok := s.imported[string(layout.HeadKey(ns, run))]
			if !ok {
				return true, nil
			}
			return ofImport(item, last)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ofImport reports whether a row of an imported run was written by the import. last is the number of
// the last record of the import. A row with a higher number, or with a used request id, belongs to an
// earlier run that had the same id and was deleted.
func ofImport(item *kv.Iterator, last uint64) (bool, error) {
	key := item.Key()
	switch key[0] {
	case layout.KindRunID:
		return false, nil
	case layout.KindMessage:
		value, err := layout.CopyOf(item)
		if err != nil {
			return false, err
		}
		seq, err := codec.DecodeNumber(value)
		return seq <= last, err
	}
	seq, err := layout.LastNumber(key, key[:max(len(key)-8, 0)])
	return seq <= last, err
}

// callers removes the rows that map the id of a start request to a run that does not exist. It keeps
// the rows of deleted runs whose id is still reserved.
func (s *sweeper) callers(ctx context.Context) error {
	return s.filter(ctx, layout.KindCallerID, func(txn *layout.Txn, item *kv.Iterator) (bool, error) {
		value, err := layout.CopyOf(item)
		if err != nil {
			return false, err
		}
		d, err := codec.LeftOfDedupe(machine.Dedupe{Scope: machine.PerPrincipal}, value)
		if err != nil {
			return false, err
		}
		ns := binary.BigEndian.Uint32(item.Key()[1:])
		if kept, err := layout.DeletedOf(txn, ns, d.RunID); kept != nil || err != nil {
			return kept != nil, err
		}
		return s.there(txn, ns, d.RunID)
	})
}

func (s *sweeper) refs(ctx context.Context) error {
	return s.filter(ctx, layout.KindBlobRef, func(txn *layout.Txn, item *kv.Iterator) (bool, error) {
		key := item.Key()
		run, _, ok := layout.CutName(key[min(len(key), 5+32):])
		if !ok {
			return false, fmt.Errorf("%w: malformed key %x", ErrInvalid, key)
		}
		return s.there(txn, binary.BigEndian.Uint32(key[1:]), run)
	})
}

// pieces removes the pieces (parts of a blob's bytes) that no blob, upload or unfinished removal refers
// to.
func (s *sweeper) pieces(ctx context.Context) error {
	owned := map[string]bool{}
	err := s.to.View(func(txn *layout.Txn) error {
		for _, kind := range []byte{layout.KindBlob, layout.KindUpload, layout.KindDrop} {
			it := txn.Scan(kv.Range{Prefix: []byte{kind}})
			for it.Rewind(); layout.AtPrefix(it, []byte{kind}); it.Next() {
				prefix, err := piecesOf(it)
				if err != nil {
					it.Close()
					return err
				}
				owned[string(prefix)] = true
			}
			it.Close()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.filter(ctx, layout.KindBlobPiece, func(_ *layout.Txn, item *kv.Iterator) (bool, error) {
		key := item.Key()
		return owned[string(key[:min(len(key), 5+16)])], nil
	})
}

// piecesOf returns the prefix of the keys of a blob's pieces (the parts of its bytes). item is the row
// of a blob, of an upload or of a removal.
func piecesOf(item *kv.Iterator) ([]byte, error) {
	if item.Key()[0] == layout.KindDrop {
		return layout.DroppedPrefix(item.KeyCopy())
	}
	value, err := layout.CopyOf(item)
	if err != nil {
		return nil, err
	}
	ns := binary.BigEndian.Uint32(item.Key()[1:])
	if item.Key()[0] == layout.KindBlob {
		blob, err := codec.DecodeBlob(value)
		return layout.PiecesPrefix(ns, blob.Pieces), err
	}
	up, err := codec.DecodeUpload(value)
	return layout.PiecesPrefix(ns, up.Pieces), err
}

// cursors drops a row of the cursor index if a later row contains the same cursors. The index maps the
// cursors of a namespace to journal entries.
func (s *sweeper) cursors(ctx context.Context) error {
	// The scan runs backwards, so that a row is read before an older row that has the same cursors.
	next := map[uint32]uint64{}
	return s.to.View(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Reverse: true})
		defer it.Close()
		for it.Seek([]byte{layout.KindCursor + 1}); it.Valid(); it.Next() {
			key := it.Key()
			if key[0] > layout.KindCursor {
				continue
			}
			if key[0] < layout.KindCursor {
				break
			}
			ns, last := binary.BigEndian.Uint32(key[1:]), binary.BigEndian.Uint64(key[5:])
			if first, ok := next[ns]; ok && last >= first {
				if err := s.drop(ctx, key); err != nil {
					return err
				}
				continue
			}
			value, err := layout.CopyOf(it)
			if err != nil {
				return err
			}
			places, err := codec.DecodeEntryRefs(value)
			if err != nil {
				return err
			}
			next[ns] = last + 1 - uint64(len(places))
		}
		return nil
	})
}
