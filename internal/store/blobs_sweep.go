package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

// blobRef begins every reference to a blob in what a run stores.
var blobRef = []byte("blob:sha256:")

// sweepPage is how many entries are read at once.
const sweepPage = 512

func blobRefKey(ns uint32, sum [32]byte, run string) []byte {
	return name(append(prefix(nil, kindBlobRef, ns), sum[:]...), run)
}

func blobMarkKey(ns uint32) []byte { return prefix(nil, kindBlobMark, ns) }

// SweepBlobs removes the blobs of a namespace that were last stored before the
// given time, Unix nanoseconds, and that nothing in the journal of any run refers
// to ("blob:sha256:<hex>"), and uploads without a piece since then. The journal is
// read only as far as it has grown since the sweep before.
func (s *Store) SweepBlobs(ctx context.Context, ns uint32, before int64) (machine.BlobSweep, error) {
	var sweep machine.BlobSweep
	for {
		done, err := s.noteRefs(ctx, ns)
		if err != nil {
			return sweep, fmt.Errorf("references to blobs: %w", err)
		}
		if done {
			break
		}
	}
	if err := s.dropBlobs(ctx, ns, before, &sweep); err != nil {
		return sweep, fmt.Errorf("sweep of blobs: %w", err)
	}
	if err := s.dropUploads(ctx, ns, before, &sweep); err != nil {
		return sweep, fmt.Errorf("sweep of uploads: %w", err)
	}
	return sweep, nil
}

// noteRefs stores which blobs the next page of the journal refers to. True: there
// was nothing more.
func (s *Store) noteRefs(ctx context.Context, ns uint32) (done bool, err error) {
	var ops []Op
	err = s.view(func(txn *badger.Txn) error {
		value, err := get(txn, blobMarkKey(ns))
		if err != nil {
			return err
		}
		var mark uint64
		if value != nil {
			if mark, err = codec.DecodeNumber(value); err != nil {
				return err
			}
		}
		p := prefix(nil, kindCursor, ns)
		it := txn.NewIterator(badger.IteratorOptions{Prefix: p})
		defer it.Close()
		read := mark
		for it.Seek(cursorKey(nil, ns, mark+1)); has(it, p) && read < mark+sweepPage && ctx.Err() == nil; it.Next() {
			read = binary.BigEndian.Uint64(it.Item().Key()[5:])
			refs, err := entryRefs(txn, it.Item(), ns)
			if err != nil {
				return err
			}
			ops = append(ops, refs...)
		}
		if done = read == mark; !done {
			ops = append(ops, Op{Key: blobMarkKey(ns), Value: codec.EncodeNumber(read)})
		}
		return ctx.Err()
	})
	if err != nil || done {
		return done, err
	}
	return false, s.CommitRaw(ctx, ops)
}

// entryRefs are the rows for the references in one entry.
func entryRefs(txn *badger.Txn, cursor *badger.Item, ns uint32) ([]Op, error) {
	place, err := cursor.ValueCopy(nil)
	if err != nil {
		return nil, err
	}
	run, first, err := codec.DecodePlace(place)
	if err != nil {
		return nil, err
	}
	entry, err := get(txn, entryKey(ns, run, first))
	if err != nil {
		return nil, err
	}
	var ops []Op
	for {
		i := bytes.Index(entry, blobRef)
		if i < 0 {
			return ops, nil
		}
		entry = entry[i+len(blobRef):]
		var sum [32]byte
		if len(entry) < 2*len(sum) {
			return ops, nil
		}
		if _, err := hex.Decode(sum[:], entry[:2*len(sum)]); err == nil {
			ops = append(ops, Op{Key: blobRefKey(ns, sum, run), Value: codec.Mark})
		}
	}
}

// rowsBefore collects the rows of a kind that old says are to be looked at.
func (s *Store) rowsBefore(ctx context.Context, kind byte, ns uint32, old func(key, value []byte) (bool, error)) ([]Op, error) {
	var rows []Op
	p := prefix(nil, kind, ns)
	err := s.view(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: p})
		defer it.Close()
		for it.Rewind(); has(it, p) && ctx.Err() == nil; it.Next() {
			value, err := it.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			key := it.Item().KeyCopy(nil)
			take, err := old(key, value)
			if err != nil {
				return err
			}
			if take {
				rows = append(rows, Op{Key: key, Value: value})
			}
		}
		return ctx.Err()
	})
	return rows, err
}

// dropBlobs removes old blobs without a reference, each only if it is still as it
// was read.
func (s *Store) dropBlobs(ctx context.Context, ns uint32, before int64, sweep *machine.BlobSweep) error {
	rows, err := s.rowsBefore(ctx, kindBlob, ns, func(_, value []byte) (bool, error) {
		blob, err := codec.DecodeBlob(value)
		return blob.At < before, err
	})
	if err != nil {
		return err
	}
	for _, row := range rows {
		blob, err := codec.DecodeBlob(row.Value)
		if err != nil {
			return err
		}
		referred, err := s.referred(ns, [32]byte(row.Key[5:]))
		if err != nil {
			return err
		}
		if referred {
			continue
		}
		gone, err := s.drop(ctx, ns, row, dropPieces(ns, blob.Pieces, blob.Chunks))
		if err != nil {
			return err
		}
		if gone {
			sweep.Blobs++
			sweep.Bytes += blob.Size
		}
	}
	return nil
}

// referred: a run that is there refers to the blob.
func (s *Store) referred(ns uint32, sum [32]byte) (found bool, err error) {
	p := append(prefix(nil, kindBlobRef, ns), sum[:]...)
	err = s.view(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: p})
		defer it.Close()
		for it.Rewind(); has(it, p) && !found; it.Next() {
			run, _, ok := cutName(it.Item().Key()[len(p):])
			if !ok {
				return fmt.Errorf("malformed blob reference %x", it.Item().Key())
			}
			head, err := get(txn, headKey(ns, run))
			if err != nil {
				return err
			}
			found = head != nil
		}
		return nil
	})
	return found, err
}

// dropUploads removes uploads that nobody goes on with.
func (s *Store) dropUploads(ctx context.Context, ns uint32, before int64, sweep *machine.BlobSweep) error {
	rows, err := s.rowsBefore(ctx, kindUpload, ns, func(_, value []byte) (bool, error) {
		up, err := codec.DecodeUpload(value)
		return up.At < before, err
	})
	if err != nil {
		return err
	}
	for _, row := range rows {
		up, err := codec.DecodeUpload(row.Value)
		if err != nil {
			return err
		}
		gone, err := s.drop(ctx, ns, row, dropPieces(ns, up.Pieces, up.Chunks))
		if err != nil {
			return err
		}
		if gone {
			sweep.Uploads++
			sweep.Bytes += up.Size
		}
	}
	return nil
}

// drop deletes a row and its pieces unless the row was changed meanwhile.
func (s *Store) drop(ctx context.Context, ns uint32, row Op, pieces []Op) (bool, error) {
	w := &Writes{
		ns: ns, entry: -1, ops: append([]Op{{Key: row.Key, Delete: true}}, pieces...),
		expects: []expect{{key: row.Key, value: row.Value, miss: machine.ErrUploadChanged}},
	}
	err := s.submitRows(ctx, w)
	if errors.Is(err, machine.ErrUploadChanged) {
		return false, nil
	}
	return err == nil, err
}
