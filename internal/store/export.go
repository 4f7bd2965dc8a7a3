package store

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/runfile"
)

// Export writes the portable file of a run as it is now: its pack, its entries as
// they are stored, and the blobs that it refers to and that are there. Errors:
// machine.ErrNoRun, and those of the writer.
func (s *Store) Export(ctx context.Context, ns uint32, run string, out io.Writer) error {
	if err := s.export(ctx, ns, run, out); err != nil {
		return fmt.Errorf("export run %q: %w", run, err)
	}
	return nil
}

func (s *Store) export(ctx context.Context, ns uint32, run string, out io.Writer) error {
	head, last, hash, err := s.endOf(ns, run)
	if err != nil {
		return err
	}
	row, err := s.Pack(ctx, ns, head.Digest)
	if err != nil {
		return err
	}
	w, err := runfile.NewWriter(out, runfile.Header{
		RunID: run, Digest: head.Digest, Entry: head.Entry, Agent: head.Agent, EntryOverride: head.EntryOverride,
		Records: last, Hash: hex.EncodeToString(hash[:]),
	})
	if err != nil {
		return err
	}
	if err := w.Frame(runfile.KindPack, row.Canonical); err != nil {
		return err
	}
	refs, err := s.exportEntries(ctx, ns, run, last, w)
	if err != nil {
		return err
	}
	for _, sum := range refs {
		if err := s.exportBlob(ctx, ns, sum, w); err != nil {
			return err
		}
	}
	return w.Close()
}

// endOf is a run's stored head, its last record, and the chain up to that.
func (s *Store) endOf(ns uint32, run string) (head *machine.State, last uint64, hash [32]byte, err error) {
	err = s.view(func(txn *badger.Txn) error {
		if head, err = layout.StoredHead(txn, ns, run); err != nil {
			return err
		}
		last, hash = head.Seq, head.PrevHash
		return layout.EachAfter(txn, layout.HeadKey(ns, run), head.Seq, func(value []byte) (int, error) {
			_, records, err := codec.EntrySpan(value)
			last, hash = last+uint64(records), codec.EntryHash(value)
			return records, err
		})
	})
	return head, last, hash, err
}

// exportEntries writes the journal and returns the blobs that it refers to, in
// the order of their first mention.
func (s *Store) exportEntries(ctx context.Context, ns uint32, run string, last uint64, w *runfile.Writer) ([][32]byte, error) {
	var refs [][32]byte
	seen := make(map[[32]byte]bool)
	for next := uint64(1); next <= last; {
		// The page is read before it is written: a slow reader holds no read open.
		values, after, err := s.rawEntries(ctx, ns, run, next, last)
		if err != nil {
			return nil, err
		}
		next = after
		for _, value := range values {
			codec.SetCursor(value, 0)
			if err := w.Frame(runfile.KindEntry, value); err != nil {
				return nil, err
			}
			for _, sum := range layout.RefsIn(value) {
				if !seen[sum] {
					seen[sum], refs = true, append(refs, sum)
				}
			}
		}
	}
	return refs, nil
}

// rawEntries reads the stored entries from a first record on, one page, and the
// record after them.
func (s *Store) rawEntries(ctx context.Context, ns uint32, run string, next, last uint64) ([][]byte, uint64, error) {
	var values [][]byte
	err := s.view(func(txn *badger.Txn) error {
		for read := 0; len(values) < pageRecords && read < pageBytes && next <= last; {
			value, err := layout.Get(txn, layout.EntryKey(ns, run, next))
			if err != nil {
				return err
			}
			if value == nil {
				return fmt.Errorf("record %d: %w", next, machine.ErrNoRecord)
			}
			e, err := codec.DecodeEntry(run, bytes.Clone(value))
			if err != nil {
				return fmt.Errorf("record %d: %w", next, err)
			}
			values, read, next = append(values, value), read+len(value), next+uint64(len(e.Records))
		}
		return ctx.Err()
	})
	return values, next, err
}

// exportBlob writes a blob; one that is not there any more is left out.
func (s *Store) exportBlob(ctx context.Context, ns uint32, sum [32]byte, w *runfile.Writer) error {
	blob, err := s.Blob(ctx, ns, sum)
	if errors.Is(err, machine.ErrNoBlob) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := w.JSON(runfile.KindBlob, runfile.Blob{SHA256: hex.EncodeToString(sum[:]), Size: blob.Size, MediaType: blob.MediaType}); err != nil {
		return err
	}
	for n := range blob.Chunks {
		piece, err := s.Piece(ctx, ns, blob.Pieces, n)
		if err != nil {
			return err
		}
		if err := w.Frame(runfile.KindPiece, piece); err != nil {
			return err
		}
	}
	return nil
}
