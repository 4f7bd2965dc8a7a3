package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// SweepBlobs removes old blobs and abandoned uploads of a namespace. It removes a blob if the blob was
// last stored before the time before, in Unix nanoseconds, and if no journal entry of any run refers to
// it ("blob:sha256:<hex>"). It removes an upload if the upload got no piece since that time. The commit
// that removes a blob checks again that there is no reference.
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

// rowsBefore returns the rows of a kind for which old returns true.
func (s *Store) rowsBefore(ctx context.Context, kind byte, ns uint32, old func(value []byte) (bool, error)) ([]layout.Op, error) {
	var rows []layout.Op
	p := layout.Prefix(nil, kind, ns)
	err := s.view(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: p})
		defer it.Close()
		for it.Rewind(); layout.Has(it, p) && ctx.Err() == nil; it.Next() {
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

// dropBlobs removes old blobs without a reference. It keeps a blob whose row has changed since it
// was read.
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

// dropWrites returns writes that delete a row and its pieces. The commit fails with
// machine.ErrUploadChanged if the row has changed since it was read.
func dropWrites(ns uint32, row layout.Op, pieces [16]byte, n int) *Writes {
	w := &Writes{
		ns: ns, entry: -1, ops: []layout.Op{{Key: row.Key, Delete: true}}, reclaimsSpace: true,
		expects: []expect{{key: row.Key, value: row.Value, err: machine.ErrUploadChanged}},
	}
	w.dropPieces(pieces, n)
	return w
}

func (s *Store) drop(ctx context.Context, w *Writes) (bool, error) {
	if w.requireNoRefs != nil {
		// Most old blobs have references. This check finds most of them without a request to the
		// committer.
		referred, err := s.referred(w.requireNoRefs)
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

// referred reports whether the synced state of the store has a key under the prefix p of
// references.
func (s *Store) referred(p []byte) (found bool, err error) {
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
	return layout.Has(it, p)
}

// checkUnreferred returns errReferred if a reference under the prefix p exists in the store, in the
// group in flight or in the group being collected. A batch that adds a reference later finds that
// the blob no longer exists.
func (c *committer) checkUnreferred(g *group, p []byte) error {
	if p == nil {
		return nil
	}
	if err := layout.Guard(p); err != nil {
		return err
	}
	for _, guarded := range []map[string][]byte{g.guarded, c.sentGuarded} {
		for key, value := range guarded {
			if value != nil && strings.HasPrefix(key, string(p)) {
				return errReferred
			}
		}
	}
	if c.anyLeft(g, p) {
		return errReferred
	}
	return g.txn.Err()
}

// anyLeft reports whether the store has a key under the prefix p that neither the group being
// collected nor the group in flight removes.
func (c *committer) anyLeft(g *group, p []byte) bool {
	it := g.txn.Scan(kv.Range{Prefix: p, KeysOnly: true})
	defer it.Close()
	for it.Rewind(); layout.Has(it, p); it.Next() {
		_, gone := g.guarded[string(it.Key())]
		if !gone {
			_, gone = c.sentGuarded[string(it.Key())]
		}
		if !gone {
			return true
		}
	}
	return false
}
