package machine

import "errors"

// ErrNoBlob means that the namespace has no blob with the given hash.
var ErrNoBlob = errors.New("no such blob")

// ErrUploadChanged means that another request changed the upload. The blob was not stored.
var ErrUploadChanged = errors.New("the upload was changed meanwhile")

// Blob describes a stored blob, addressed by its hash.
type Blob struct {
	SHA256 [32]byte
	// Size is in bytes. The blob is stored in Chunks pieces.
	Size   int64
	Chunks int
	// MediaType is the media type that the first writer set. It is "" if there is none.
	MediaType string
	// At is the time at which the blob was last stored, in Unix nanoseconds.
	At int64
	// Pieces is the id under which the pieces of the blob are stored.
	Pieces [16]byte
}

// UploadKey identifies an upload in progress.
type UploadKey struct{ Principal, ID string }

// Upload is the stored progress of an upload. The zero value is an upload that has not begun.
type Upload struct {
	Size   int64
	Chunks int
	// At is the time at which the last piece was stored, in Unix nanoseconds.
	At     int64
	Pieces [16]byte
}

// BlobSweep is the result of a sweep of blobs.
type BlobSweep struct {
	// Blobs and Uploads are the numbers of removed blobs and uploads. Bytes is their size.
	Blobs, Uploads int
	Bytes          int64
}
