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

// RefPrefix is the prefix of every reference to a blob; 64 hex digits follow.
const RefPrefix = "blob:sha256:"

// Bounds of blobs.
const (
	// PieceBytes is the size of the stored pieces, in bytes.
	PieceBytes = 256 << 10
	// DefaultMaxBytes bounds one blob, in bytes.
	DefaultMaxBytes = 64 << 20
	// DefaultGrace is how long an unreferenced blob is kept.
	DefaultGrace = 24 * time.Hour
	// sweepEvery is the time between two sweeps.
	sweepEvery = time.Hour
)

// Store stores blobs. A blob is a value that is too large for a run's journal; the journal has only a reference to it.
type Store interface {
	// Upload returns the stored part of an upload. The zero value means that nothing is stored.
	Upload(ctx context.Context, ns uint32, key machine.UploadKey) (machine.Upload, error)
	// AppendUpload stores the next piece of an upload. The stored state of the upload must equal before; otherwise the error is
	// [machine.ErrUploadChanged].
	AppendUpload(ctx context.Context, ns uint32, key machine.UploadKey, before machine.Upload, piece []byte, at int64) (machine.Upload, error)
	// FinishUpload turns a complete upload into a blob. The error is [machine.ErrUploadChanged] if another call changed the upload.
	FinishUpload(ctx context.Context, ns uint32, key machine.UploadKey, up machine.Upload, blob machine.Blob) (existed bool, err error)
	// Blob returns the metadata of a blob. The error is [machine.ErrNoBlob] if the blob does not exist.
	Blob(ctx context.Context, ns uint32, sum [32]byte) (machine.Blob, error)
	// Piece returns the n-th piece of a blob or an upload. The error is [machine.ErrNoBlob] if the piece does not exist.
	Piece(ctx context.Context, ns uint32, pieces [16]byte, n int) ([]byte, error)
	// SweepBlobs removes uploads and unreferenced blobs that were last stored before a time, Unix
	// nanoseconds.
	SweepBlobs(ctx context.Context, ns uint32, before int64) (machine.BlobSweep, error)
}

// PutRequest is the argument of [Service.Put].
type PutRequest struct {
	runtime.Call
	// UploadID identifies the upload among the uploads of the principal. If it is "", the upload cannot be resumed.
	UploadID  string
	MediaType string
	// Ref is the expected reference of the complete blob. If it is "", the reference is not checked.
	Ref string
}

// Info describes a blob, or the progress of its upload.
type Info struct {
	// Ref is "" while the upload is not complete.
	Ref string
	// Size is in bytes. For an upload it is the offset at which the caller continues.
	Size      int64
	MediaType string
	// Duplicate reports whether these bytes were already stored.
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
	// pending are received bytes that are not yet a full piece.
	pending []byte
	// known is the requested blob if this blob is already stored. Otherwise it is nil.
	known *machine.Blob
}

// Put starts or resumes an upload. Errors: PERMISSION_DENIED SCOPE_MISSING, FAILED_PRECONDITION
// BLOBS_OFF, UNAVAILABLE DRAINING.
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
		// The generated id cannot be guessed. Callers may not use ids with its prefix.
		w.key.ID = validate.ReservedPrefix + r.cfg.IDs.Token()
	}
	if req.Ref != "" {
		if w.want, err = parseRef(req.Ref); err != nil {
			return nil, err
		}
		blob, err := r.cfg.Store.Blob(ctx, ns, w.want)
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

// admit checks that blobs are enabled and that the caller has the right to use them.
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

// goOn computes the hash of the part of the upload that is already stored, so that Write can continue
// the hash after that part.
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

// Known reports whether the requested blob is already stored, so that no data has to be written.
func (w *Writer) Known() bool { return w.known != nil }

func (w *Writer) size() int64 { return w.up.Size + int64(len(w.pending)) }

// Write appends data, which begins at offset. It skips the bytes that it has already received. Errors: INVALID_ARGUMENT BLOB_GAP,
// RESOURCE_EXHAUSTED BLOB_TOO_LARGE, ABORTED UPLOAD_CONTENDED.
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

// Pause stores the received bytes and returns the offset at which the caller continues. An upload without an id from the caller cannot be
// resumed; a sweep removes it.
func (w *Writer) Pause(ctx context.Context) (Info, error) {
	if w.known != nil {
		return infoOf(w.known, true), nil
	}
	if len(w.pending) > 0 && w.req.UploadID != "" {
		if err := w.store(ctx, w.pending); err != nil {
			return Info{}, err
		}
		w.pending = nil
	}
	return Info{Size: w.size()}, nil
}

// Finish turns the received bytes into a blob. Errors: those of Write, and INVALID_ARGUMENT BLOB_MISMATCH, which leaves the upload as it
// was.
func (w *Writer) Finish(ctx context.Context) (Info, error) {
	if w.known != nil {
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

// refresh stores a known blob again, so that no sweep removes it before a run refers to it.
func (w *Writer) refresh(ctx context.Context) (Info, error) {
	blob := *w.known
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

// Get reads a blob from offset to its end. It calls emit for each piece, and at least once. Errors: NOT_FOUND BLOB_NOT_FOUND,
// OUT_OF_RANGE BLOB_OFFSET, and the errors that emit returns.
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

// Run sweeps unreferenced blobs periodically until ctx ends. It returns nil.
func (r *Service) Run(ctx context.Context) error {
	for {
		select {
		case <-r.cfg.Clock.After(sweepEvery):
		case <-ctx.Done():
			return nil
		}
		_ = r.Sweep(ctx) // The next sweep retries.
	}
}

// Sweep removes, in every namespace, unreferenced blobs and abandoned uploads that are older than
// Config.Grace.
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
