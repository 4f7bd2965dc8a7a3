package codec

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	pb "github.com/pawl-dev/pawl/internal/store/storagepb"
)

func TestBlobRows(t *testing.T) {
	t.Parallel()
	blob := machine.Blob{Size: 1 << 40, Chunks: 7, MediaType: "text/html", At: 99, Pieces: [16]byte{1, 2}}
	value := EncodeBlob(&blob)
	sameAsGenerated(t, value[1:], &pb.Blob{})
	if got, err := DecodeBlob(value); err != nil || got != blob {
		t.Fatalf("read %+v, %v", got, err)
	}
	upload := machine.Upload{Size: 5, Chunks: 1, At: 3, Pieces: [16]byte{9}}
	value = EncodeUpload(&upload)
	sameAsGenerated(t, value[1:], &pb.Upload{})
	if got, err := DecodeUpload(value); err != nil || got != upload {
		t.Fatalf("read %+v, %v", got, err)
	}
	for _, bad := range [][]byte{nil, {Format + 1}, {Format, 0x2a, 1, 0}, append(EncodeBlob(&blob), 0x30, 1)} {
		if _, err := DecodeBlob(bad); err == nil {
			t.Errorf("%x was read as a blob", bad)
		}
		if _, err := DecodeUpload(bad); err == nil {
			t.Errorf("%x was read as an upload", bad)
		}
	}
}
