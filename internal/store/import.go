package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/runfile"
)

// importBytes and importKeys are the approximate limits of one commit of an import, in bytes and in
// keys.
const (
	importBytes = 2 << 20
	importKeys  = 4096
)

// Import stores the run of an unpacked export file: its journal, its checkpoints, its artifact and message
// rows, its blobs with their references, its list rows, and a head (current state) that is marked as imported.
// The run gets no cursors, ids, timers, outbox rows or ready turn, so that it is never executed. Import checks
// the whole run before it stores any row, and stores the head last, so that a visible run is complete. row
// describes the pack, which is stored only under its digest. at is the current time in Unix nanoseconds.
// duplicate reports whether the same run was imported before.
//
// Errors: *machine.Error EXPORT_INVALID with the first bad seq, RUN_EXISTS.
func (s *Store) Import(ctx context.Context, ns uint32, x machine.Export, row machine.PackRow, g *machine.Graph, at int64) (*machine.State, bool, error) {
	s.importing.Lock()
	defer s.importing.Unlock()
	if st, err := s.imported(ctx, ns, x); err != nil || st != nil {
		return st, st != nil, err
	}
	proof, err := check.ProveExport(x, g)
	if err != nil {
		return nil, false, err
	}
	if !proof.OK() {
		return nil, false, &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "EXPORT_INVALID", Field: "data", Seq: proof.BadSeq,
			Message: fmt.Sprintf("record %d: %s", proof.BadSeq, proof.Detail),
		}
	}
	mark := layout.RunKey(nil, layout.KindImport, ns, x.RunID)
	if err := errors.Join(s.dropUnfinishedOf(mark), s.remover.FinishInterrupted(ctx, ns, x.RunID)); err != nil {
		return nil, false, fmt.Errorf("import run %q: %w", x.RunID, err)
	}
	st, err := s.store(ctx, ns, x, row, g, at)
	if err != nil {
		err = errors.Join(err, s.dropImport(mark))
		return nil, false, fmt.Errorf("import run %q: %w", x.RunID, err)
	}
	return st, false, nil
}

// imported returns the state of the run in the file x if the same run was imported before. If the
// namespace has no run with this id, it returns nil. If it has a different run with this id, the error
// is RUN_EXISTS.
func (s *Store) imported(ctx context.Context, ns uint32, x machine.Export) (*machine.State, error) {
	st, err := s.Head(ctx, ns, x.RunID)
	switch {
	case errors.Is(err, machine.ErrNoRun):
		return nil, nil
	case err != nil:
		return nil, err
	case st.Imported && st.PrevHash == x.Hash:
		return st, nil
	}
	return nil, &machine.Error{
		Code: machine.CodeAlreadyExists, Reason: "RUN_EXISTS", Field: "data",
		Message: "the run exists here: " + x.RunID, Seq: st.Seq,
	}
}

// importer collects the rows of an import until they are stored.
type importer struct {
	s *Store
	check.Prover
	ops   []layout.Op
	bytes int
	// at is the time that is stored as the time of the imported blobs, in Unix nanoseconds.
	at     int64
	upload *blobUpload
}

// store writes the rows of the run. The first commit of the run's own rows also stores a row which marks the
// import as unfinished. Blobs are stored by commits of their own, which may come before. The last commit stores
// the head (current state) of the run and removes this row.
func (s *Store) store(ctx context.Context, ns uint32, x machine.Export, row machine.PackRow, g *machine.Graph, at int64) (*machine.State, error) {
	i := &importer{s: s, at: at, Prover: check.Prover{Ns: ns, Run: x.RunID, Graph: g}}
	mark := layout.RunKey(nil, layout.KindImport, ns, x.RunID)
	i.add(layout.Op{Key: mark, Value: codec.Mark})
	if err := i.pack(row); err != nil {
		return nil, err
	}
	err := check.Frames(x, func(kind runfile.Kind, body []byte) error {
		if kind == runfile.KindEntry {
			return i.entry(ctx, body)
		}
		return i.blob(ctx, kind, body)
	})
	if err != nil {
		return nil, err
	}
	if err := i.endBlob(ctx); err != nil {
		return nil, err
	}
	if err := i.flush(ctx); err != nil {
		return nil, err
	}
	return i.finish(ctx, mark)
}

// pack adds the rows of the pack, under its digest only, if the namespace does not have the pack.
func (i *importer) pack(row machine.PackRow) error {
	_, ref, _ := layout.PackKeys(i.Ns, row.ID, row.Version, row.Digest)
	return i.s.view(func(txn *layout.Txn) error {
		known, err := layout.Get(txn, ref)
		if err == nil && known == nil {
			i.add(layout.Op{Key: ref, Value: codec.EncodePackName(&row)})
			i.add(layout.Op{Key: layout.PackKey(row.Digest), Value: codec.EncodePackBytes(&row)})
		}
		return err
	})
}

func (i *importer) add(op layout.Op) {
	i.ops = append(i.ops, op)
	i.bytes += len(op.Key) + len(op.Value)
}

// entry adds those rows of a journal entry that an imported run has: the entry, checkpoints, artifacts,
// messages and blob references.
func (i *importer) entry(ctx context.Context, value []byte) error {
	codec.SetCursor(value, 0)
	_, w, err := i.Next(value)
	if err != nil {
		return err
	}
	for _, op := range w.Ops {
		switch op.Key[0] {
		case layout.KindEntry, layout.KindSnapshot, layout.KindArtifact, layout.KindMessage, layout.KindBlobRef:
			i.add(op)
		}
	}
	if i.bytes < importBytes && len(i.ops) < importKeys {
		return nil
	}
	return i.flush(ctx)
}

func (i *importer) flush(ctx context.Context) error {
	if len(i.ops) == 0 {
		return nil
	}
	ops := i.ops
	i.ops, i.bytes = nil, 0
	return i.s.write(ctx, &Writes{ns: i.Ns, entry: -1, ops: ops})
}

// finish stores the head (current state), which makes the run visible, with the artifact rows and list rows
// that no entry has stored. In the same commit, it removes the row mark, which marks the import as unfinished.
func (i *importer) finish(ctx context.Context, mark []byte) (*machine.State, error) {
	st := *i.Progress
	st.Imported = true
	w := &Writes{ns: i.Ns, entry: -1, run: layout.HeadKey(i.Ns, i.Run), runID: i.Run, last: st.Seq, ops: layout.ListedRows(i.Ns, i.Run, st.Unlisted)}
	st.Unlisted = nil
	w.ops = append(w.ops, []layout.Op{{Key: w.run, Value: codec.EncodeHead(&st, i.Chain)}, {Key: mark, Delete: true}}...)
	for _, c := range rules.Indexes(&st) {
		w.ops = append(w.ops, layout.Op{Key: layout.IndexKey(nil, i.Ns, i.Run, &c), Value: codec.Mark})
	}
	return &st, i.s.write(ctx, w)
}

// blobUpload is the upload of one imported blob.
type blobUpload struct {
	key  machine.UploadKey
	up   machine.Upload
	blob machine.Blob
}

// blob stores a blob of the export file in the same way as a client's upload: piece by piece.
func (i *importer) blob(ctx context.Context, kind runfile.Kind, body []byte) error {
	switch kind {
	case runfile.KindBlob:
		if err := i.endBlob(ctx); err != nil {
			return err
		}
		b, err := runfile.ReadBlob(body)
		if err != nil {
			return err
		}
		sum, err := hex.DecodeString(b.SHA256)
		if err != nil || len(sum) != 32 {
			return fmt.Errorf("%w: blob %q", runfile.ErrInvalid, b.SHA256)
		}
		i.upload = &blobUpload{
			key:  machine.UploadKey{Principal: importPrincipal, ID: i.Run + "/" + b.SHA256},
			blob: machine.Blob{SHA256: [32]byte(sum), Size: b.Size, MediaType: b.MediaType, At: i.at},
		}
		i.upload.up, err = i.s.Upload(ctx, i.Ns, i.upload.key)
		if err == nil && i.upload.up.Chunks > 0 {
			// These pieces were left by an interrupted import, so they are removed before the new
			// upload.
			w := &Writes{ns: i.Ns, entry: -1, reclaimsSpace: true, ops: []layout.Op{{Key: layout.UploadKey(i.Ns, i.upload.key), Delete: true}}}
			w.dropPieces(i.upload.up.Pieces, i.upload.up.Chunks)
			err = i.s.write(ctx, w)
			i.upload.up = machine.Upload{}
		}
		return err
	case runfile.KindPiece:
		if i.upload == nil {
			return fmt.Errorf("%w: a piece of no blob", runfile.ErrInvalid)
		}
		var err error
		i.upload.up, err = i.s.AppendUpload(ctx, i.Ns, i.upload.key, i.upload.up, body, i.at)
		return err
	}
	return nil
}

// importPrincipal is the principal under which an import uploads blobs. It is empty, so that these
// uploads never conflict with those of a real principal.
const importPrincipal = ""

func (i *importer) endBlob(ctx context.Context) error {
	u := i.upload
	if u == nil {
		return nil
	}
	i.upload = nil
	u.blob.Chunks, u.blob.Pieces = u.up.Chunks, u.up.Pieces
	_, err := i.s.FinishUpload(ctx, i.Ns, u.key, u.up, u.blob)
	return err
}

// dropUnfinished removes the rows of imports that were interrupted before they stored their head
// (current state).
func (s *Store) dropUnfinished() error {
	marks, err := s.marked()
	if err != nil {
		return err
	}
	for _, mark := range marks {
		if err := s.dropImport(mark); err != nil {
			return fmt.Errorf("remove an unfinished import: %w", err)
		}
	}
	return nil
}

// dropUnfinishedOf removes the rows that an earlier, unfinished import of the same run has left. These
// rows still exist if the disk was too full to remove them when the store was opened.
func (s *Store) dropUnfinishedOf(mark []byte) error {
	var value []byte
	err := s.view(func(txn *layout.Txn) (err error) {
		value, err = layout.Get(txn, mark)
		return err
	})
	if err != nil || value == nil {
		return err
	}
	return s.dropImport(mark)
}

func (s *Store) marked() (marks [][]byte, err error) {
	err = s.view(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: []byte{layout.KindImport}})
		defer it.Close()
		for it.Rewind(); layout.AtPrefix(it, []byte{layout.KindImport}); it.Next() {
			marks = append(marks, it.KeyCopy())
		}
		return nil
	})
	return marks, err
}

// dropImport removes the rows of an interrupted import and its mark, whose key is given. If the import was completed,
// it removes only the mark.
func (s *Store) dropImport(mark []byte) error {
	ns, run, err := layout.RunOf(mark)
	if err != nil {
		return err
	}
	ops := []layout.Op{}
	err = s.view(func(txn *layout.Txn) error {
		if head, err := layout.Get(txn, layout.HeadKey(ns, run)); err != nil || head != nil {
			return err
		}
		// The references to blobs are found only in the entries, so they are removed first.
		refs, err := importedRefs(txn, ns, run)
		if err != nil {
			return err
		}
		ops = refs
		for _, kind := range check.PerRun {
			p := layout.RunKey(nil, kind, ns, run)
			iterator := txn.Scan(kv.Range{Prefix: p})
			for iterator.Rewind(); layout.AtPrefix(iterator, p); iterator.Next() {
				ops = append(ops, layout.Op{Key: iterator.KeyCopy(), Delete: true})
			}
			iterator.Close()
		}
		return nil
	})
	if err != nil {
		return err
	}
	ops = append(ops, layout.Op{Key: mark, Delete: true})
	for len(ops) > 0 {
		n := min(len(ops), importKeys)
		if err := s.write(context.Background(), &Writes{ns: ns, entry: -1, reclaimsSpace: true, ops: ops[:n]}); err != nil {
			return err
		}
		ops = ops[n:]
	}
	return nil
}

// importedRefs returns ops that remove the references to blobs which the entries of an unfinished import have stored.
// The entries of an import are never encrypted.
func importedRefs(txn *layout.Txn, ns uint32, run string) (ops []layout.Op, err error) {
	p, seen := layout.RunKey(nil, layout.KindEntry, ns, run), map[[32]byte]bool{}
	it := txn.Scan(kv.Range{Prefix: p})
	defer it.Close()
	for it.Rewind(); layout.AtPrefix(it, p); it.Next() {
		err = layout.ValueOf(it, func(value []byte) error {
			for _, sum := range layout.RefsIn(value) {
				if !seen[sum] {
					seen[sum] = true
					ops = append(ops, layout.Op{Key: layout.AppendName(layout.BlobRefsOf(ns, sum), run), Delete: true})
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return ops, nil
}
