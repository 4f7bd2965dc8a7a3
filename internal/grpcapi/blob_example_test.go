package grpcapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/internal/store"
)

// openWithBlobs is a sidecar that keeps blobs in a directory of its own.
func openWithBlobs() *sidecar {
	dir, err := os.MkdirTemp("", "pawl-example-*")
	check(err)
	blobs, err := store.Open(store.Options{Dir: dir, MinFree: 1})
	check(err)
	s := open(func(c *services.Config) { c.Blobs = blobs })
	closed := s.close
	s.close = func() {
		closed()
		check(errors.Join(blobs.Close(), os.RemoveAll(dir)))
	}
	return s
}

// The bytes go in pieces, each with its offset. With an upload_id a broken upload
// is gone on with: without `last` the answer says how many bytes are stored.
func Example_putBlob() {
	s := openWithBlobs()
	defer s.close()
	ctx := context.Background()
	put := func(pieces ...*pawlv1.PutBlobRequest) *pawlv1.PutBlobResponse {
		stream, err := s.runs.PutBlob(ctx)
		check(err)
		for _, piece := range pieces {
			check(stream.Send(piece))
		}
		got, err := stream.CloseAndRecv()
		check(err)
		return got
	}
	broken := put(&pawlv1.PutBlobRequest{UploadId: "report", MediaType: "text/plain", Data: []byte("all tests ")})
	complete := put(&pawlv1.PutBlobRequest{UploadId: "report", Offset: broken.GetSize(), Data: []byte("passed"), Last: true})
	again := put(&pawlv1.PutBlobRequest{BlobRef: complete.GetBlobRef(), Last: true})
	fmt.Println(broken.GetSize(), complete.GetSize(), complete.GetBlobRef()[:24], again.GetDuplicate())
	// Output: 10 16 blob:sha256:00caea118a2b true
}

// A blob is read from any offset, by the reference that PutBlob gave.
func Example_getBlob() {
	s := openWithBlobs()
	defer s.close()
	ctx := context.Background()
	up, err := s.runs.PutBlob(ctx)
	check(err)
	check(up.Send(&pawlv1.PutBlobRequest{MediaType: "text/plain", Data: []byte("all tests passed"), Last: true}))
	blob, err := up.CloseAndRecv()
	check(err)
	down, err := s.runs.GetBlob(ctx, &pawlv1.GetBlobRequest{BlobRef: blob.GetBlobRef(), Offset: 4})
	check(err)
	for {
		piece, err := down.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		check(err)
		fmt.Printf("%s: %q of %d bytes\n", piece.GetMediaType(), piece.GetData(), piece.GetSize())
	}
	// Output: text/plain: "tests passed" of 16 bytes
}
