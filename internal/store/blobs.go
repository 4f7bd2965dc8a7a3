package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// A blob consists of one row under its hash, and of pieces under a separate name. The upload already
// uses that name for its pieces, so that no bytes are copied when the upload is completed.

// piecesOf returns the name of the pieces of an upload that begins at the time at.
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
// has read. If the stored state is different, the error is [machine.ErrUploadChanged].
func (s *Store) AppendUpload(ctx context.Context, ns uint32, key machine.UploadKey, before machine.Upload, piece []byte, at int64) (machine.Upload, error) {
	after := before
	expects := []expect{uploadIs(ns, key, before)}
	if before.Chunks == 0 {
		after.Pieces = piecesOf(key, at)
		expects = append(expects, undropped(layout.PiecesPrefix(ns, after.Pieces), machine.ErrUploadChanged))
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

// FinishUpload turns an upload into a blob. up is the state of the upload that the caller has read. If
// the stored state is different, the error is [machine.ErrUploadChanged]. If the blob already exists,
// FinishUpload only sets the time of the blob to blob.At and drops the pieces of the upload.
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

// dropPieces removes n pieces of an upload or of a blob. It removes them in the same commit as the row.
// If they are too many for this commit, it removes them after it.
func (w *Writes) dropPieces(pieces [16]byte, n int) {
	if n > dropPage {
		w.drop(layout.PiecesPrefix(w.ns, pieces))
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
