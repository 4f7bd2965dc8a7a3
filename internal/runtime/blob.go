package runtime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// BlobRefPrefix begins every reference to a blob; 64 hex digits follow.
const BlobRefPrefix = "blob:sha256:"

// Bounds of blobs.
const (
	// BlobPiece is how large the stored pieces are, bytes.
	BlobPiece = 256 << 10
	// DefaultMaxBlobBytes bounds one blob.
	DefaultMaxBlobBytes = 64 << 20
	// DefaultBlobGrace is how long a blob is kept that nothing refers to.
	DefaultBlobGrace = 24 * time.Hour
	// blobSweepEvery is the pause between two sweeps.
	blobSweepEvery = time.Hour
)

// BlobStore keeps blobs: what is too large for a run's journal, which then holds
// a reference.
type BlobStore interface {
	// Upload returns what is stored of an upload; zero if nothing is.
	Upload(ctx context.Context, ns uint32, key machine.UploadKey) (machine.Upload, error)
	// AppendUpload stores the next piece of an upload, which must be as before;
	// [machine.ErrUploadChanged].
	AppendUpload(ctx context.Context, ns uint32, key machine.UploadKey, before machine.Upload, piece []byte, at int64) (machine.Upload, error)
	// FinishUpload makes an upload a blob; [machine.ErrUploadChanged].
	FinishUpload(ctx context.Context, ns uint32, key machine.UploadKey, up machine.Upload, blob machine.Blob) (existed bool, err error)
	// Blob returns what is known of a blob; [machine.ErrNoBlob].
	Blob(ctx context.Context, ns uint32, sum [32]byte) (machine.Blob, error)
	// Piece returns the n-th piece of a blob or an upload; [machine.ErrNoBlob].
	Piece(ctx context.Context, ns uint32, pieces [16]byte, n int) ([]byte, error)
	// SweepBlobs removes what was last stored before a time, Unix nanoseconds, and
	// what no run refers to.
	SweepBlobs(ctx context.Context, ns uint32, before int64) (machine.BlobSweep, error)
}

// PutBlobRequest is the argument of [Engine.PutBlob].
type PutBlobRequest struct {
	Call
	// UploadID names the upload among those of the principal; "" = one that cannot
	// be gone on with.
	UploadID  string
	MediaType string
	// Ref is what the whole must be; "" = not asked.
	Ref string
}

// BlobInfo is a blob as it is told, or how far its upload is.
type BlobInfo struct {
	// Ref is "" while the upload is not complete.
	Ref string
	// Size in bytes; of an upload: where to go on.
	Size      int64
	MediaType string
	// Duplicate: these bytes were stored before.
	Duplicate bool
}

// BlobWriter takes the pieces of one blob. Not safe for concurrent use.
type BlobWriter struct {
	e    *Engine
	ns   uint32
	key  machine.UploadKey
	req  PutBlobRequest
	want [32]byte
	up   machine.Upload
	hash hash.Hash
	// pending are bytes that do not fill a piece yet.
	pending []byte
	// known is the blob that is there already.
	known *machine.Blob
}

// PutBlob begins an upload or goes on with it. Errors: PERMISSION_DENIED
// SCOPE_MISSING, FAILED_PRECONDITION BLOBS_OFF, UNAVAILABLE DRAINING.
func (e *Engine) PutBlob(ctx context.Context, req PutBlobRequest) (*BlobWriter, error) {
	ns, err := e.blobs(req.Call, policy.RunsWrite|policy.Work)
	if err != nil {
		return nil, err
	}
	if err := e.gate.check(); err != nil {
		return nil, err
	}
	w := &BlobWriter{e: e, ns: ns, req: req, hash: sha256.New()}
	w.key = machine.UploadKey{Principal: req.Principal.Name, ID: req.UploadID}
	if req.UploadID == "" {
		// The word is nobody's to guess, and no caller's id begins like it.
		w.key.ID = reservedPrefix + e.cfg.IDs.Token()
	}
	if req.Ref != "" {
		if w.want, err = parseBlobRef(req.Ref); err != nil {
			return nil, err
		}
		blob, err := e.cfg.Blobs.Blob(ctx, ns, w.want)
		if err == nil {
			w.known = &blob
			return w, nil
		}
		if !errors.Is(err, machine.ErrNoBlob) {
			return nil, err
		}
	}
	return w, w.goOn(ctx)
}

// blobs checks that there are any, and the caller's right.
func (e *Engine) blobs(call Call, scopes Scopes) (uint32, error) {
	ns, err := e.namespace(call.Namespace)
	if err != nil {
		return 0, err
	}
	if err := policy.Require(call.Principal, scopes); err != nil {
		return 0, denied(err)
	}
	if e.cfg.Blobs == nil {
		return 0, &machine.Refusal{Code: machine.CodeFailedPrecondition, Reason: "BLOBS_OFF", Message: "this server keeps no blobs"}
	}
	return ns, nil
}

func parseBlobRef(ref string) (sum [32]byte, err error) {
	digits, ok := strings.CutPrefix(ref, BlobRefPrefix)
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) != len(sum) {
		return sum, malformed("BAD_BLOB_REF", "ref", "must be "+BlobRefPrefix+" and 64 hex digits")
	}
	return [32]byte(raw), nil
}

// goOn hashes what is stored of the upload already.
func (w *BlobWriter) goOn(ctx context.Context) (err error) {
	if w.up, err = w.e.cfg.Blobs.Upload(ctx, w.ns, w.key); err != nil {
		return fmt.Errorf("runtime: %w", err)
	}
	for n := range w.up.Chunks {
		piece, err := w.e.cfg.Blobs.Piece(ctx, w.ns, w.up.Pieces, n)
		if err != nil {
			return fmt.Errorf("runtime: upload %q: %w", w.key.ID, err)
		}
		w.hash.Write(piece)
	}
	return nil
}

// Known: the blob that was asked for is there; nothing has to be written.
func (w *BlobWriter) Known() bool { return w.known != nil }

func (w *BlobWriter) size() int64 { return w.up.Size + int64(len(w.pending)) }

// Write takes the bytes from an offset on; those that it has already are skipped.
// Errors: INVALID_ARGUMENT BLOB_GAP, RESOURCE_EXHAUSTED BLOB_TOO_LARGE, ABORTED
// UPLOAD_CONTENDED.
func (w *BlobWriter) Write(ctx context.Context, offset int64, data []byte) error {
	have := w.size()
	if offset > have {
		return &machine.Refusal{
			Code: machine.CodeInvalidArgument, Reason: "BLOB_GAP", Field: "offset", Limit: have, Got: offset,
			Message: fmt.Sprintf("%d bytes are stored; go on from there", have),
		}
	}
	skip := have - offset
	if skip >= int64(len(data)) {
		return nil
	}
	data = data[skip:]
	if limit := w.e.cfg.MaxBlobBytes; have+int64(len(data)) > limit {
		return &machine.Refusal{
			Code: machine.CodeResourceExhausted, Reason: "BLOB_TOO_LARGE", Field: "data", Limit: limit, Got: have + int64(len(data)),
			Message: "a blob is too large",
		}
	}
	w.pending = append(w.pending, data...)
	for len(w.pending) >= BlobPiece {
		if err := w.store(ctx, w.pending[:BlobPiece]); err != nil {
			return err
		}
		w.pending = append(w.pending[:0], w.pending[BlobPiece:]...)
	}
	return nil
}

func (w *BlobWriter) store(ctx context.Context, piece []byte) error {
	up, err := w.e.cfg.Blobs.AppendUpload(ctx, w.ns, w.key, w.up, piece, w.e.cfg.Clock.Now().UnixNano())
	if err != nil {
		return uploadFailed(err)
	}
	w.up = up
	w.hash.Write(piece)
	return nil
}

func uploadFailed(err error) error {
	if errors.Is(err, machine.ErrUploadChanged) {
		return &machine.Refusal{
			Code: machine.CodeAborted, Reason: "UPLOAD_CONTENDED", Field: "upload_id",
			Message: "somebody else goes on with the same upload",
		}
	}
	return fmt.Errorf("runtime: upload: %w", err)
}

// Pause stores what was written and says where to go on. An upload without an
// id of the caller's is only forgotten by a sweep.
func (w *BlobWriter) Pause(ctx context.Context) (BlobInfo, error) {
	if w.known != nil {
		return infoOf(w.known, true), nil
	}
	if len(w.pending) > 0 && w.req.UploadID != "" {
		if err := w.store(ctx, w.pending); err != nil {
			return BlobInfo{}, err
		}
		w.pending = nil
	}
	return BlobInfo{Size: w.size()}, nil
}

// Finish makes what was written a blob. Beside the errors of Write:
// INVALID_ARGUMENT BLOB_MISMATCH, after which the upload is as it was.
func (w *BlobWriter) Finish(ctx context.Context) (BlobInfo, error) {
	if w.known != nil {
		return w.refresh(ctx)
	}
	if len(w.pending) > 0 {
		if err := w.store(ctx, w.pending); err != nil {
			return BlobInfo{}, err
		}
		w.pending = nil
	}
	sum := [32]byte(w.hash.Sum(nil))
	if w.req.Ref != "" && sum != w.want {
		return BlobInfo{}, &machine.Refusal{
			Code: machine.CodeInvalidArgument, Reason: "BLOB_MISMATCH", Field: "ref",
			Message: "the bytes have the hash " + hex.EncodeToString(sum[:]),
		}
	}
	blob := machine.Blob{
		SHA256: sum, Size: w.up.Size, Chunks: w.up.Chunks, MediaType: w.req.MediaType,
		At: w.e.cfg.Clock.Now().UnixNano(), Pieces: w.up.Pieces,
	}
	existed, err := w.e.cfg.Blobs.FinishUpload(ctx, w.ns, w.key, w.up, blob)
	if err != nil {
		return BlobInfo{}, uploadFailed(err)
	}
	return infoOf(&blob, existed), nil
}

// refresh stores a known blob anew, so that no sweep takes it before it is
// referred to.
func (w *BlobWriter) refresh(ctx context.Context) (BlobInfo, error) {
	blob := *w.known
	blob.At = w.e.cfg.Clock.Now().UnixNano()
	key := machine.UploadKey{ID: reservedPrefix + w.e.cfg.IDs.Token()}
	if _, err := w.e.cfg.Blobs.FinishUpload(ctx, w.ns, key, machine.Upload{}, blob); err != nil {
		return BlobInfo{}, uploadFailed(err)
	}
	return infoOf(&blob, true), nil
}

func infoOf(b *machine.Blob, existed bool) BlobInfo {
	return BlobInfo{
		Ref: BlobRefPrefix + hex.EncodeToString(b.SHA256[:]), Size: b.Size, MediaType: b.MediaType, Duplicate: existed,
	}
}

// GetBlob reads a blob from an offset on: emit is called for each piece, at least
// once. Errors: NOT_FOUND BLOB_NOT_FOUND, OUT_OF_RANGE BLOB_OFFSET, those of emit.
func (e *Engine) GetBlob(ctx context.Context, call Call, ref string, offset int64, emit func(info BlobInfo, at int64, piece []byte) error) error {
	ns, err := e.blobs(call, policy.RunsRead|policy.RunsWrite|policy.Work)
	if err != nil {
		return err
	}
	sum, err := parseBlobRef(ref)
	if err != nil {
		return err
	}
	blob, err := e.cfg.Blobs.Blob(ctx, ns, sum)
	if errors.Is(err, machine.ErrNoBlob) {
		return &machine.Refusal{Code: machine.CodeNotFound, Reason: "BLOB_NOT_FOUND", Field: "ref", Message: "no such blob"}
	}
	if err != nil {
		return fmt.Errorf("runtime: %w", err)
	}
	if offset > blob.Size {
		return &machine.Refusal{
			Code: machine.CodeOutOfRange, Reason: "BLOB_OFFSET", Field: "offset", Limit: blob.Size, Got: offset,
			Message: "the blob is shorter",
		}
	}
	return e.emitBlob(ctx, ns, &blob, offset, emit)
}

func (e *Engine) emitBlob(ctx context.Context, ns uint32, blob *machine.Blob, offset int64, emit func(BlobInfo, int64, []byte) error) error {
	info, at, told := infoOf(blob, false), int64(0), false
	for n := range blob.Chunks {
		piece, err := e.cfg.Blobs.Piece(ctx, ns, blob.Pieces, n)
		if err != nil {
			return fmt.Errorf("runtime: %w", err)
		}
		end := at + int64(len(piece))
		if end > offset {
			from := max(offset-at, 0)
			if err := emit(info, at+from, piece[from:]); err != nil {
				return err
			}
			told = true
		}
		at = end
	}
	if told {
		return nil
	}
	return emit(info, offset, nil)
}

// sweepBlobs removes, now and then, what nothing refers to, until ctx ends.
func (e *Engine) sweepBlobs(ctx context.Context) {
	if e.cfg.Blobs == nil {
		return
	}
	for {
		select {
		case <-e.cfg.Clock.After(blobSweepEvery):
		case <-ctx.Done():
			return
		case <-e.gate.failed:
			return
		case <-e.gate.empty:
			return
		}
		_ = e.SweepBlobs(ctx) // what is left is found by the next sweep
	}
}

// SweepBlobs removes, in every namespace, blobs that nothing refers to and
// uploads that nobody goes on with, once they are older than Config.BlobGrace.
func (e *Engine) SweepBlobs(ctx context.Context) error {
	before := e.cfg.Clock.Now().Add(-e.cfg.BlobGrace).UnixNano()
	var errs []error
	for _, ns := range e.cfg.Namespaces {
		if _, err := e.cfg.Blobs.SweepBlobs(ctx, ns, before); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
