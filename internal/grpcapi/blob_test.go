package grpcapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/internal/store"
)

// withBlobs keeps blobs in a real store.
func withBlobs(t *testing.T) func(*Config, *services.Config) {
	s, err := store.Open(store.Options{Dir: filepath.Join(t.TempDir(), "db"), MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := s.Check(context.Background(), nil); err != nil {
			t.Errorf("the store is damaged: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(_ *Config, c *services.Config) { c.Blobs, c.MaxBlobBytes = s, 4<<20 }
}

// put sends the pieces and returns the answer.
func (r *rig) put(ctx context.Context, pieces ...*pawlv1.PutBlobRequest) (*pawlv1.PutBlobResponse, error) {
	r.t.Helper()
	stream, err := r.runs.PutBlob(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, p := range pieces {
		if err := stream.Send(p); err != nil && !errors.Is(err, io.EOF) {
			r.t.Fatal(err)
		}
	}
	return stream.CloseAndRecv()
}

func (r *rig) get(ctx context.Context, ref string, offset int64) ([]byte, *pawlv1.GetBlobResponse, error) {
	r.t.Helper()
	stream, err := r.runs.GetBlob(ctx, &pawlv1.GetBlobRequest{BlobRef: ref, Offset: offset})
	if err != nil {
		r.t.Fatal(err)
	}
	var data []byte
	var first *pawlv1.GetBlobResponse
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return data, first, nil
		}
		if err != nil {
			return data, first, err
		}
		if first == nil {
			first = piece
		}
		if at := offset + int64(len(data)); piece.GetOffset() != at {
			r.t.Fatalf("piece at %d, want %d", piece.GetOffset(), at)
		}
		data = append(data, piece.GetData()...)
	}
}

func blobRef(data []byte) string { return fmt.Sprintf("blob:sha256:%x", sha256.Sum256(data)) }

func TestBlob(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withBlobs(t)), testContext(t)
	data := bytes.Repeat([]byte("0123456789"), 70_000)
	got, err := r.put(ctx,
		&pawlv1.PutBlobRequest{MediaType: "text/plain", Data: data[:400_000]},
		&pawlv1.PutBlobRequest{Offset: 400_000, Data: data[400_000:], Last: true},
	)
	if err != nil || got.GetBlobRef() != blobRef(data) || got.GetSize() != int64(len(data)) || got.GetDuplicate() {
		t.Fatalf("put %v, %v", got, err)
	}
	for _, offset := range []int64{0, 1, 262_143, 262_144, 699_999, 700_000} {
		read, first, err := r.get(ctx, got.GetBlobRef(), offset)
		if err != nil || !bytes.Equal(read, data[offset:]) || first.GetSize() != int64(len(data)) || first.GetMediaType() != "text/plain" {
			t.Fatalf("from %d: %d bytes, first %v, %v", offset, len(read), first.GetSize(), err)
		}
	}
	again, err := r.put(ctx, &pawlv1.PutBlobRequest{BlobRef: got.GetBlobRef()})
	if err != nil || !again.GetDuplicate() || again.GetBlobRef() != got.GetBlobRef() || again.GetSize() != got.GetSize() {
		t.Fatalf("put by reference: %v, %v", again, err)
	}
	empty, err := r.put(ctx, &pawlv1.PutBlobRequest{Last: true})
	if err != nil || empty.GetBlobRef() != blobRef(nil) {
		t.Fatalf("the empty blob: %v, %v", empty, err)
	}
	if read, first, err := r.get(ctx, empty.GetBlobRef(), 0); err != nil || len(read) != 0 || first == nil {
		t.Fatalf("the empty blob reads %v, %v, %v", read, first, err)
	}
}

// TestBlobResume: an upload that was broken off is gone on with.
func TestBlobResume(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withBlobs(t)), testContext(t)
	data := bytes.Repeat([]byte("abcdefgh"), 100_000)
	first, err := r.put(ctx, &pawlv1.PutBlobRequest{UploadId: "u", Data: data[:300_000]})
	if err != nil || first.GetBlobRef() != "" || first.GetSize() != 300_000 {
		t.Fatalf("put a part: %v, %v", first, err)
	}
	broken, cancel := context.WithCancel(ctx)
	stream, err := r.runs.PutBlob(broken)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&pawlv1.PutBlobRequest{UploadId: "u", Offset: 300_000, Data: data[300_000:600_000]}); err != nil {
		t.Fatal(err)
	}
	cancel()
	for size := int64(0); size < 300_000; {
		position, err := r.put(ctx, &pawlv1.PutBlobRequest{UploadId: "u"})
		if codeOf(err) == codes.Aborted {
			continue // the broken stream was just storing its part
		}
		if err != nil || position.GetBlobRef() != "" {
			t.Fatalf("ask how far: %v, %v", position, err)
		}
		size = position.GetSize()
	}
	_, err = r.put(ctx, &pawlv1.PutBlobRequest{UploadId: "u", Offset: 799_999, Data: data[799_999:], Last: true})
	wantError(t, err, codes.InvalidArgument, "BLOB_GAP")
	for {
		done, err := r.put(ctx, &pawlv1.PutBlobRequest{UploadId: "u", Offset: 200_000, Data: data[200_000:], Last: true})
		if codeOf(err) == codes.Aborted {
			continue
		}
		if err != nil || done.GetBlobRef() != blobRef(data) {
			t.Fatalf("finish: %v, %v", done, err)
		}
		break
	}
	if read, _, err := r.get(ctx, blobRef(data), 0); err != nil || !bytes.Equal(read, data) {
		t.Fatalf("read %d bytes, %v", len(read), err)
	}
}

func TestBadBlobs(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withBlobs(t)), testContext(t)
	_, err := r.put(ctx)
	wantError(t, err, codes.InvalidArgument, "REQUEST_REQUIRED")
	_, err = r.put(ctx, &pawlv1.PutBlobRequest{BlobRef: blobRef([]byte("other")), Data: []byte("this"), Last: true})
	wantError(t, err, codes.InvalidArgument, "BLOB_MISMATCH")
	_, err = r.put(ctx, &pawlv1.PutBlobRequest{BlobRef: "blob:md5:0"})
	wantError(t, err, codes.InvalidArgument, "INVALID_REQUEST")
	var pieces []*pawlv1.PutBlobRequest
	for i := range int64(5) {
		pieces = append(pieces, &pawlv1.PutBlobRequest{Offset: i << 20, Data: make([]byte, 1<<20)})
	}
	_, err = r.put(ctx, pieces...)
	st := wantError(t, err, codes.ResourceExhausted, "BLOB_TOO_LARGE")
	if st.Message() == "" {
		t.Fatal("no message")
	}
	_, _, err = r.get(ctx, blobRef([]byte("nothing")), 0)
	wantError(t, err, codes.NotFound, "BLOB_NOT_FOUND")
	got, err := r.put(ctx, &pawlv1.PutBlobRequest{Data: []byte("x"), Last: true})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = r.get(ctx, got.GetBlobRef(), 2)
	wantError(t, err, codes.OutOfRange, "BLOB_OFFSET")

	off := newRig(t)
	_, err = off.put(ctx, &pawlv1.PutBlobRequest{Last: true})
	wantError(t, err, codes.FailedPrecondition, "BLOBS_OFF")
}

// TestBlobScopes: workers may store and read blobs, readers only read them.
func TestBlobScopes(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withBlobs(t), withTokens), testContext(t)
	got, err := r.put(withToken(ctx, "work"), &pawlv1.PutBlobRequest{Data: []byte("x"), Last: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.put(withToken(ctx, "runs:read"), &pawlv1.PutBlobRequest{Last: true})
	wantError(t, err, codes.PermissionDenied, "SCOPE_MISSING")
	for _, who := range []string{"work", "runs:read"} {
		if data, _, err := r.get(withToken(ctx, who), got.GetBlobRef(), 0); err != nil || string(data) != "x" {
			t.Errorf("%s reads %q, %v", who, data, err)
		}
	}
}

// TestBlobSweep: a day after they were stored, blobs that nothing refers to go.
func TestBlobSweep(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withBlobs(t)), testContext(t)
	got, err := r.put(ctx, &pawlv1.PutBlobRequest{Data: []byte("x"), Last: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after time.Duration
		kept  bool
	}{{time.Hour, true}, {24 * time.Hour, false}} {
		r.clock.Advance(c.after)
		if err := r.engine.Blobs.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.get(ctx, got.GetBlobRef(), 0); (err == nil) != c.kept {
			t.Fatalf("after %v: %v", c.after, err)
		}
	}
}
