package blob

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
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// RefPrefix is the prefix of every reference to a blob. 64 hex digits of the SHA-256 follow.
const RefPrefix = "blob:sha256:"

// These constants are the sizes and times of blobs.
const (
	// PieceBytes is the size of the stored pieces, in bytes.
	PieceBytes = 256 << 10
	// DefaultMaxBytes bounds one blob, in bytes.
	DefaultMaxBytes = 64 << 20
	// DefaultGrace is how long a blob that no run refers to is kept after its last upload.
	DefaultGrace = 24 * time.Hour
	// sweepEvery is the time between two removals of unused blobs.
	sweepEvery = time.Hour
)

// Store stores blobs. A blob is a value that is too large for the journal of a run. The journal contains only a
// reference to it.
type Store interface {
	// Upload returns the stored progress of an upload. The zero value means that nothing is stored.
	Upload(ctx context.Context, ns uint32, key machine.UploadKey) (machine.Upload, error)
	// AppendUpload stores the next piece of an upload. before must equal the stored progress. Otherwise another call
	// has changed it, and the error is [machine.ErrUploadChanged].
	AppendUpload(ctx context.Context, ns uint32, key machine.UploadKey, before machine.Upload, piece []byte, at int64) (machine.Upload, error)
	// FinishUpload makes a complete upload a blob. existed reports whether the blob was already stored. The error is
	// [machine.ErrUploadChanged] if another call changed the upload.
	FinishUpload(ctx context.Context, ns uint32, key machine.UploadKey, up machine.Upload, blob machine.Blob) (existed bool, err error)
	// Blob returns the metadata of a blob. The error is [machine.ErrNoBlob] if the blob does not exist.
	Blob(ctx context.Context, ns uint32, sum [32]byte) (machine.Blob, error)
	// Piece returns the n-th piece of a blob or an upload. The error is [machine.ErrNoBlob] if the piece does not exist.
	Piece(ctx context.Context, ns uint32, pieces [16]byte, n int) ([]byte, error)
	// SweepBlobs removes old uploads, and old blobs that no run refers to. They are old if they were last stored before
	// the given time, in Unix nanoseconds.
	SweepBlobs(ctx context.Context, ns uint32, before int64) (machine.BlobSweep, error)
}

// PutRequest is the argument of [Service.Put].
type PutRequest struct {
	runtime.Call
	// UploadID identifies the upload among the uploads of the principal. If it is "", an interrupted upload cannot be
	// resumed.
	UploadID  string
	MediaType string
	// Ref is the expected reference of the complete blob. If it is "", the reference is not checked.
	Ref string
}

// Info describes a blob, or the progress of its upload.
type Info struct {
	// Ref is the reference to the blob. It is "" while the upload is not complete.
	Ref string
	// Size is in bytes. For an incomplete upload it is the offset at which the caller must continue.
	Size      int64
	MediaType string
	// Duplicate reports whether a blob with the same bytes was already stored.
	Duplicate bool
}

// Writer receives the pieces of one blob. Not safe for concurrent use.
type Writer struct {
	r    *Service
	ns   uint32
	key  machine.UploadKey
	req  PutRequest
	want [32]byte
	up   machine.Upload
	hash hash.Hash
	// pending are received bytes that do not fill a piece yet.
	pending []byte
	// stored is the blob that the caller wants to upload, if it is already stored. Otherwise it is nil.
	stored *machine.Blob
}

// Put starts or resumes the upload of a blob. Errors: PERMISSION_DENIED SCOPE_MISSING, FAILED_PRECONDITION BLOBS_OFF, INVALID_ARGUMENT
// BAD_BLOB_REF, and those of Engine.Health (UNAVAILABLE DRAINING). If the blob with the reference of the request is already stored, Put
// starts no upload.
func (r *Service) Put(ctx context.Context, req PutRequest) (*Writer, error) {
	ns, err := r.admit(req.Call, policy.RunsWrite|policy.Work)
	if err != nil {
		return nil, err
	}
	if err := r.cfg.Engine.Health(); err != nil {
		return nil, err
	}
	w := &Writer{r: r, ns: ns, req: req, hash: sha256.New()}
	w.key = machine.UploadKey{Principal: req.Principal.Name(), ID: req.UploadID}
	if req.UploadID == "" {
		// The caller gave no id for the upload, so the server makes one that cannot be guessed. Callers may not choose ids
		// with the reserved prefix.
		w.key.ID = validate.ReservedPrefix + r.cfg.IDs.Token()
	}
	if req.Ref != "" {
		if w.want, err = parseRef(req.Ref); err != nil {
			return nil, err
		}
		blob, err := r.cfg.Store.Blob(ctx, ns, w.want)
		if err == nil {
			w.stored = &blob
			return w, nil
		}
		if !errors.Is(err, machine.ErrNoBlob) {
			return nil, err
		}
	}
	return w, w.goOn(ctx)
}

// admit checks that the server stores blobs (BLOBS_OFF otherwise) and that the caller has one of the scopes. It returns
// the number of the namespace.
func (r *Service) admit(call runtime.Call, scopes runtime.Scopes) (uint32, error) {
	ns, err := r.cfg.Engine.Admit(call, scopes)
	if err != nil {
		return 0, err
	}
	if r.cfg.Store == nil {
		return 0, &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "BLOBS_OFF", Message: "this server keeps no blobs"}
	}
	return ns, nil
}

func parseRef(ref string) (sum [32]byte, err error) {
	digits, ok := strings.CutPrefix(ref, RefPrefix)
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) != len(sum) {
		return sum, &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "BAD_BLOB_REF", Field: "blob_ref", Message: "must be " + RefPrefix + " and 64 hex digits",
		}
	}
	return [32]byte(raw), nil
}

// goOn reads the stored part of an upload and computes its hash, so that Write can continue the hash.
func (w *Writer) goOn(ctx context.Context) (err error) {
	if w.up, err = w.r.cfg.Store.Upload(ctx, w.ns, w.key); err != nil {
		return fmt.Errorf("runtime: %w", err)
	}
	for n := range w.up.Chunks {
		piece, err := w.r.cfg.Store.Piece(ctx, w.ns, w.up.Pieces, n)
		if err != nil {
			return fmt.Errorf("runtime: upload %q: %w", w.key.ID, err)
		}
		w.hash.Write(piece)
	}
	return nil
}

// IsStored reports whether the requested blob is already stored, so that the caller need not send it.
func (w *Writer) IsStored() bool { return w.stored != nil }

func (w *Writer) size() int64 { return w.up.Size + int64(len(w.pending)) }

// Write appends data that begins at offset. Bytes that were already received are skipped. Errors: INVALID_ARGUMENT
// BLOB_GAP, RESOURCE_EXHAUSTED BLOB_TOO_LARGE, ABORTED UPLOAD_CONTENDED.
func (w *Writer) Write(ctx context.Context, offset int64, data []byte) error {
	have := w.size()
	if offset > have {
		return &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "BLOB_GAP", Field: "offset", Limit: have, Got: offset,
			Message: fmt.Sprintf("%d bytes are stored; go on from there", have),
		}
	}
	skip := have - offset
	if skip >= int64(len(data)) {
		return nil
	}
	data = data[skip:]
	if limit := w.r.cfg.MaxBytes; have+int64(len(data)) > limit {
		return &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: "BLOB_TOO_LARGE", Field: "data", Limit: limit, Got: have + int64(len(data)),
			Message: "a blob is too large",
		}
	}
	w.pending = append(w.pending, data...)
	for len(w.pending) >= PieceBytes {
		if err := w.store(ctx, w.pending[:PieceBytes]); err != nil {
			return err
		}
		w.pending = append(w.pending[:0], w.pending[PieceBytes:]...)
	}
	return nil
}

func (w *Writer) store(ctx context.Context, piece []byte) error {
	up, err := w.r.cfg.Store.AppendUpload(ctx, w.ns, w.key, w.up, piece, w.r.cfg.Clock.Now().UnixNano())
	if err != nil {
		return uploadFailed(err)
	}
	w.up = up
	w.hash.Write(piece)
	return nil
}

func uploadFailed(err error) error {
	if errors.Is(err, machine.ErrUploadChanged) {
		return &machine.Error{
			Code: machine.CodeAborted, Reason: "UPLOAD_CONTENDED", Field: "upload_id",
			Message: "another caller continues the same upload",
		}
	}
	return fmt.Errorf("runtime: upload: %w", err)
}

// Pause stores the received bytes and returns the offset at which the caller can continue later. If the caller gave the
// upload no id, it cannot be continued, and a sweep removes it later.
func (w *Writer) Pause(ctx context.Context) (Info, error) {
	if w.stored != nil {
		return infoOf(w.stored, true), nil
	}
	if len(w.pending) > 0 && w.req.UploadID != "" {
		if err := w.store(ctx, w.pending); err != nil {
			return Info{}, err
		}
		w.pending = nil
	}
	return Info{Size: w.size()}, nil
}

// Finish makes the received bytes a blob. Errors: those of Write, and INVALID_ARGUMENT BLOB_MISMATCH, after which the
// upload can be continued.
func (w *Writer) Finish(ctx context.Context) (Info, error) {
	if w.stored != nil {
		return w.refresh(ctx)
	}
	if len(w.pending) > 0 {
		if err := w.store(ctx, w.pending); err != nil {
			return Info{}, err
		}
		w.pending = nil
	}
	sum := [32]byte(w.hash.Sum(nil))
	if w.req.Ref != "" && sum != w.want {
		return Info{}, &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "BLOB_MISMATCH", Field: "blob_ref",
			Message: "the bytes have the hash " + hex.EncodeToString(sum[:]),
		}
	}
	blob := machine.Blob{
		SHA256: sum, Size: w.up.Size, Chunks: w.up.Chunks, MediaType: w.req.MediaType,
		At: w.r.cfg.Clock.Now().UnixNano(), Pieces: w.up.Pieces,
	}
	existed, err := w.r.cfg.Store.FinishUpload(ctx, w.ns, w.key, w.up, blob)
	if err != nil {
		return Info{}, uploadFailed(err)
	}
	return infoOf(&blob, existed), nil
}

// refresh updates the time at which a stored blob was last stored, so that no sweep removes it before a run refers to
// it.
func (w *Writer) refresh(ctx context.Context) (Info, error) {
	blob := *w.stored
	blob.At = w.r.cfg.Clock.Now().UnixNano()
	key := machine.UploadKey{ID: validate.ReservedPrefix + w.r.cfg.IDs.Token()}
	if _, err := w.r.cfg.Store.FinishUpload(ctx, w.ns, key, machine.Upload{}, blob); err != nil {
		return Info{}, uploadFailed(err)
	}
	return infoOf(&blob, true), nil
}

func infoOf(b *machine.Blob, existed bool) Info {
	return Info{
		Ref: RefPrefix + hex.EncodeToString(b.SHA256[:]), Size: b.Size, MediaType: b.MediaType, Duplicate: existed,
	}
}

// Get reads a blob from offset to its end. It calls emit for each piece, and at least once even if there are no bytes. Errors:
// PERMISSION_DENIED SCOPE_MISSING, FAILED_PRECONDITION BLOBS_OFF, INVALID_ARGUMENT BAD_BLOB_REF, NOT_FOUND BLOB_NOT_FOUND, OUT_OF_RANGE
// BLOB_OFFSET, and the errors that emit returns.
func (r *Service) Get(ctx context.Context, call runtime.Call, ref string, offset int64, emit func(info Info, at int64, piece []byte) error) error {
	ns, err := r.admit(call, policy.RunsRead|policy.RunsWrite|policy.Work)
	if err != nil {
		return err
	}
	sum, err := parseRef(ref)
	if err != nil {
		return err
	}
	blob, err := r.cfg.Store.Blob(ctx, ns, sum)
	if errors.Is(err, machine.ErrNoBlob) {
		return &machine.Error{Code: machine.CodeNotFound, Reason: "BLOB_NOT_FOUND", Field: "blob_ref", Message: "no such blob"}
	}
	if err != nil {
		return fmt.Errorf("runtime: %w", err)
	}
	if offset > blob.Size {
		return &machine.Error{
			Code: machine.CodeOutOfRange, Reason: "BLOB_OFFSET", Field: "offset", Limit: blob.Size, Got: offset,
			Message: "the blob is shorter",
		}
	}
	return r.emit(ctx, ns, &blob, offset, emit)
}

// emit passes the pieces of a blob from the offset on to the function emit, each with its offset. If no byte is
// left, it calls the function once without data.
func (r *Service) emit(ctx context.Context, ns uint32, blob *machine.Blob, offset int64, emit func(Info, int64, []byte) error) error {
	info, at, told := infoOf(blob, false), int64(0), false
	for n := range blob.Chunks {
		piece, err := r.cfg.Store.Piece(ctx, ns, blob.Pieces, n)
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

// Run removes unused blobs every hour until ctx ends. It returns nil.
func (r *Service) Run(ctx context.Context) error {
	for {
		select {
		case <-r.cfg.Clock.After(sweepEvery):
		case <-ctx.Done():
			return nil
		}
		_ = r.Sweep(ctx) // an error is ignored, because the next sweep tries again
	}
}

// Sweep removes, in every namespace, uploads and unreferenced blobs that were last stored longer than Config.Grace ago.
func (r *Service) Sweep(ctx context.Context) error {
	if r.cfg.Store == nil {
		return nil
	}
	before := r.cfg.Clock.Now().Add(-r.cfg.Grace).UnixNano()
	var errs []error
	for _, ns := range r.cfg.Engine.NamespaceNumbers() {
		if _, err := r.cfg.Store.SweepBlobs(ctx, ns, before); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
