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

// SweepBlobs removes the blobs of a namespace that were last stored before the
// given time, Unix nanoseconds, and that no entry in the journal of any run refers
// to ("blob:sha256:<hex>"), and uploads without a piece since then. Whether there is
// a reference is looked at in the commit that removes the blob.
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

// rowsBefore collects the rows of a kind that old says are to be looked at.
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

// dropBlobs removes old blobs without a reference, each only if it is still as it
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

// dropWrites deletes a row and its pieces unless the row has changed since it was read.
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
		// Most old blobs are referred to: that needs no look by the committer.
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

// errReferred: a row under the prefix that must be empty is there.
var errReferred = errors.New("the blob is referred to")

// referred: there is a reference, in what is synced.
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

// checkUnreferred sees the references in the store, in the group in flight and in
// what this group holds already; those that come after it find the blob gone.
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

// anyLeft: there is a stored key under the prefix that neither this group nor the one in flight
// removes.
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
