package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// A blob is stored as one row under its hash, and as pieces (parts of its bytes) under another name.
// The upload of the blob stores its pieces under the same name. So the end of the upload copies no
// bytes.

// piecesOf returns the name under which the pieces of an upload are stored. at is the time of its first
// piece.
func piecesOf(key machine.UploadKey, at int64) [16]byte {
	sum := sha256.Sum256(layout.Number(layout.AppendName(layout.AppendName(nil, key.Principal), key.ID), uint64(at)))
	return [16]byte(sum[:16])
}

// Upload returns the stored state of an upload, or the zero value if the upload does not exist.
func (s *Store) Upload(ctx context.Context, ns uint32, key machine.UploadKey) (machine.Upload, error) {
	var up machine.Upload
	err := s.view(func(txn *layout.Txn) error {
		value, err := layout.Get(txn, layout.UploadKey(ns, key))
		if err != nil || value == nil {
			return err
		}
		up, err = codec.DecodeUpload(value)
		return err
	})
	if err != nil {
		return up, fmt.Errorf("upload %q: %w", key.ID, err)
	}
	return up, ctx.Err()
}

// AppendUpload stores the next piece of an upload. before is the state of the upload that the caller
// has read. If the stored state differs from it, the error is [machine.ErrUploadChanged].
func (s *Store) AppendUpload(ctx context.Context, ns uint32, key machine.UploadKey, before machine.Upload, piece []byte, at int64) (machine.Upload, error) {
	after := before
	expects := []expect{uploadIs(ns, key, before)}
	if before.Chunks == 0 {
		after.Pieces = piecesOf(key, at)
		expects = append(expects, expectNotDropped(layout.PiecesPrefix(ns, after.Pieces), machine.ErrUploadChanged))
	}
	after.Size, after.Chunks, after.At = before.Size+int64(len(piece)), before.Chunks+1, at
	w := &Writes{ns: ns, entry: -1, expects: expects, ops: []layout.Op{
		{Key: layout.UploadKey(ns, key), Value: codec.EncodeUpload(&after)},
		{Key: layout.PieceKey(ns, after.Pieces, before.Chunks), Value: bytes.Clone(piece)},
	}}
	return after, s.write(ctx, w)
}

func uploadIs(ns uint32, key machine.UploadKey, up machine.Upload) expect {
	e := expect{key: layout.UploadKey(ns, key), err: machine.ErrUploadChanged}
	if up.Chunks > 0 {
		e.value = codec.EncodeUpload(&up)
	}
	return e
}

// FinishUpload turns an upload into a blob. up is the state of the upload that the caller has read. If the
// stored state differs from it, the error is [machine.ErrUploadChanged]. If the blob already exists,
// FinishUpload removes the upload with its pieces, and the blob keeps the later one of its own time and
// blob.At.
func (s *Store) FinishUpload(ctx context.Context, ns uint32, key machine.UploadKey, up machine.Upload, blob machine.Blob) (existed bool, err error) {
	at := layout.BlobKey(ns, blob.SHA256)
	before, value, err := s.blob(at)
	if err != nil {
		return false, err
	}
	w := &Writes{ns: ns, entry: -1, expects: []expect{uploadIs(ns, key, up), {key: at, value: value, err: machine.ErrUploadChanged}}}
	if up.Chunks > 0 {
		w.ops = append(w.ops, layout.Op{Key: layout.UploadKey(ns, key), Delete: true})
	}
	if existed = value != nil; existed {
		w.dropPieces(up.Pieces, up.Chunks)
		before.At = max(before.At, blob.At)
		blob = before
	}
	w.ops = append(w.ops, layout.Op{Key: at, Value: codec.EncodeBlob(&blob)})
	return existed, s.write(ctx, w)
}

// dropPieces removes n pieces of an upload or of a blob in the same commit as its row. If they are too
// many for one commit, they are removed by later commits.
func (w *Writes) dropPieces(pieces [16]byte, n int) {
	if n > dropPage {
		w.addDrop(layout.PiecesPrefix(w.ns, pieces))
		return
	}
	for i := range n {
		w.ops = append(w.ops, layout.Op{Key: layout.PieceKey(w.ns, pieces, i), Delete: true})
	}
}

// blob reads the row of a blob. The returned value is nil if the row does not exist.
func (s *Store) blob(key []byte) (machine.Blob, []byte, error) {
	var blob machine.Blob
	var value []byte
	err := s.view(func(txn *layout.Txn) (err error) {
		if value, err = layout.Get(txn, key); err != nil || value == nil {
			return err
		}
		blob, err = codec.DecodeBlob(value)
		return err
	})
	if len(key) >= 32 {
		blob.SHA256 = [32]byte(key[len(key)-32:])
	}
	return blob, value, err
}

// Blob returns the row of a blob: its size, media type, time and pieces. If the blob does not
// exist, the error is [machine.ErrNoBlob].
func (s *Store) Blob(ctx context.Context, ns uint32, sum [32]byte) (machine.Blob, error) {
	blob, value, err := s.blob(layout.BlobKey(ns, sum))
	if err == nil && value == nil {
		err = machine.ErrNoBlob
	}
	if err != nil {
		return blob, fmt.Errorf("blob %x: %w", sum, err)
	}
	return blob, ctx.Err()
}

// Piece returns piece n, counted from 0, of a blob or an upload. If the piece does not exist, the
// error is [machine.ErrNoBlob].
func (s *Store) Piece(ctx context.Context, ns uint32, pieces [16]byte, n int) ([]byte, error) {
	var piece []byte
	err := s.view(func(txn *layout.Txn) (err error) {
		piece, err = layout.Get(txn, layout.PieceKey(ns, pieces, n))
		return err
	})
	if err == nil && piece == nil {
		err = machine.ErrNoBlob
	}
	if err != nil {
		return nil, fmt.Errorf("piece %d of a blob: %w", n, err)
	}
	return piece, ctx.Err()
}

// SweepBlobs removes old blobs and abandoned uploads of a namespace. before is in Unix nanoseconds. A
// blob is removed if it was last stored before this time and no journal entry of any run refers to it
// ("blob:sha256:<hex>"). An upload is removed if it got no piece since this time. The commit that
// removes a blob checks again that there is no reference.
func (s *Store) SweepBlobs(ctx context.Context, ns uint32, before int64) (machine.BlobSweep, error) {
	var sweep machine.BlobSweep
	if err := s.dropBlobs(ctx, ns, before, &sweep); err != nil {
		return sweep, fmt.Errorf("sweep of blobs: %w", err)
	}
	if err := s.dropUploads(ctx, ns, before, &sweep); err != nil {
		return sweep, fmt.Errorf("sweep of uploads: %w", err)
	}
	return sweep, nil
}

// rowsBefore returns the rows of a kind that are old: the function old returns true for their values.
func (s *Store) rowsBefore(ctx context.Context, kind byte, ns uint32, old func(value []byte) (bool, error)) ([]layout.Op, error) {
	var rows []layout.Op
	p := layout.Prefix(nil, kind, ns)
	err := s.view(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: p})
		defer it.Close()
		for it.Rewind(); layout.AtPrefix(it, p) && ctx.Err() == nil; it.Next() {
			value, err := layout.CopyOf(it)
			if err != nil {
				return err
			}
			take, err := old(value)
			if err != nil {
				return err
			}
			if take {
				rows = append(rows, layout.Op{Key: it.KeyCopy(), Value: value})
			}
		}
		return ctx.Err()
	})
	return rows, err
}

// dropBlobs removes blobs that are old and have no reference. It keeps a blob whose row has changed
// since it was read.
func (s *Store) dropBlobs(ctx context.Context, ns uint32, before int64, sweep *machine.BlobSweep) error {
	rows, err := s.rowsBefore(ctx, layout.KindBlob, ns, func(value []byte) (bool, error) {
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
		w := dropWrites(ns, row, blob.Pieces, blob.Chunks)
		w.requireNoRefs = layout.BlobRefsOf(ns, [32]byte(row.Key[5:]))
		gone, err := s.drop(ctx, w)
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

// dropUploads removes abandoned uploads.
func (s *Store) dropUploads(ctx context.Context, ns uint32, before int64, sweep *machine.BlobSweep) error {
	rows, err := s.rowsBefore(ctx, layout.KindUpload, ns, func(value []byte) (bool, error) {
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
		gone, err := s.drop(ctx, dropWrites(ns, row, up.Pieces, up.Chunks))
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

// dropWrites returns the writes that delete the row of a blob or an upload, and its pieces. The commit
// fails with machine.ErrUploadChanged if the row has changed since it was read.
func dropWrites(ns uint32, row layout.Op, pieces [16]byte, n int) *Writes {
	w := &Writes{
		ns: ns, entry: -1, ops: []layout.Op{{Key: row.Key, Delete: true}}, reclaimsSpace: true,
		expects: []expect{{key: row.Key, value: row.Value, err: machine.ErrUploadChanged}},
	}
	w.dropPieces(pieces, n)
	return w
}

// drop writes w and reports whether the blob or upload was removed. It keeps a blob or upload that has changed,
// and a blob that has a reference.
func (s *Store) drop(ctx context.Context, w *Writes) (bool, error) {
	if w.requireNoRefs != nil {
		// Most old blobs still have references. This read finds them without a request to the
		// committer. The committer checks again before it removes a blob.
		referred, err := s.hasReference(w.requireNoRefs)
		if err != nil || referred {
			return false, err
		}
	}
	err := s.write(ctx, w)
	if errors.Is(err, machine.ErrUploadChanged) || errors.Is(err, errReferred) {
		return false, nil
	}
	return err == nil, err
}

// errReferred means that a reference to the blob exists, so the blob must not be removed.
var errReferred = errors.New("the blob is referred to")

// hasReference reports whether the synced state of the store has a reference whose key begins with p.
func (s *Store) hasReference(p []byte) (found bool, err error) {
	err = s.view(func(txn *layout.Txn) error {
		found = anyUnder(txn, p)
		return nil
	})
	return found, err
}

func anyUnder(txn *layout.Txn, p []byte) bool {
	it := txn.Scan(kv.Range{Prefix: p, KeysOnly: true})
	defer it.Close()
	it.Rewind()
	return layout.AtPrefix(it, p)
}
