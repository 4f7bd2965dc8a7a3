package store

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/runfile"
)

// exportRun writes a file with a run in its current state: the pack of the run, the journal entries as they are
// stored, and the existing blobs that the run refers to. Errors: machine.ErrNoRun, *machine.Error RUN_ERASABLE
// or the error of an erased run, and the errors of out.
func exportRun(ctx context.Context, s *Store, ns uint32, run string, out io.Writer) error {
	x := &runExporter{Store: s, ns: ns, run: run}
	if err := x.export(ctx, out); err != nil {
		return fmt.Errorf("export run %q: %w", run, err)
	}
	return nil
}

// runExporter is one running export.
type runExporter struct {
	*Store
	ns  uint32
	run string
}

// export writes the file of the run: a header, its pack, its entries and its blobs. It refuses an erasable run,
// because a later erasure could not reach the values in the file.
func (x *runExporter) export(ctx context.Context, out io.Writer) error {
	var end layout.RunEnd
	err := x.View(func(txn *layout.Txn) (err error) {
		end, err = layout.EndOf(txn, x.ns, x.run)
		return err
	})
	if err != nil {
		return err
	}
	head, last, hash := end.Head, end.Last, end.Hash
	if head.Erased != nil {
		return head.Erased.Err()
	}
	if head.Erasable {
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "RUN_ERASABLE", Field: "run_id", Seq: last,
			Message: "the values of the run can be erased, and in a file they could not be",
		}
	}
	row, err := x.Pack(ctx, x.ns, head.Digest)
	if err != nil {
		return err
	}
	w, err := runfile.NewWriter(out, runfile.Header{
		RunID: x.run, Digest: head.Digest, Entry: head.Entry, Agent: head.Agent, EntryOverride: head.EntryOverride,
		Records: last, Hash: hex.EncodeToString(hash[:]),
	})
	if err != nil {
		return err
	}
	if err := w.Frame(runfile.KindPack, row.Canonical); err != nil {
		return err
	}
	refs, err := x.entries(ctx, last, w)
	if err != nil {
		return err
	}
	for _, sum := range refs {
		if err := x.blob(ctx, sum, w); err != nil {
			return err
		}
	}
	return w.Close()
}

// entries writes the journal entries up to the record last. It returns the hashes of the blobs that the
// entries refer to, in the order of their first occurrence.
func (x *runExporter) entries(ctx context.Context, last uint64, w *runfile.Writer) ([][32]byte, error) {
	var refs [][32]byte
	seen := make(map[[32]byte]bool)
	for next := uint64(1); next <= last; {
		// A page is read completely before it is written, so that a slow receiver of the export does
		// not keep a read of the store open.
		values, after, err := x.raw(ctx, next, last)
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

// raw reads one page of stored journal entries, beginning with the record next. It also returns the
// number of the first record after this page.
func (x *runExporter) raw(ctx context.Context, next, last uint64) ([][]byte, uint64, error) {
	var values [][]byte
	err := x.View(func(txn *layout.Txn) error {
		for read := 0; len(values) < pageRecords && read < pageBytes && next <= last; {
			value, err := layout.Get(txn, layout.EntryKey(x.ns, x.run, next))
			if err != nil {
				return err
			}
			if value == nil {
				return fmt.Errorf("record %d: %w", next, layout.MissingRunError(txn, x.ns, x.run, machine.ErrNoRecord))
			}
			e, err := txn.Entry(x.run, bytes.Clone(value))
			if err != nil {
				return fmt.Errorf("record %d: %w", next, err)
			}
			values, read, next = append(values, value), read+len(value), next+uint64(len(e.Records))
		}
		return ctx.Err()
	})
	return values, next, err
}

// blob writes a blob into the export file, in pieces. If the blob no longer exists, it writes nothing.
func (x *runExporter) blob(ctx context.Context, sum [32]byte, w *runfile.Writer) error {
	blob, err := x.Blob(ctx, x.ns, sum)
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
		piece, err := x.Piece(ctx, x.ns, blob.Pieces, n)
		if err != nil {
			return err
		}
		if err := w.Frame(runfile.KindPiece, piece); err != nil {
			return err
		}
	}
	return nil
}
