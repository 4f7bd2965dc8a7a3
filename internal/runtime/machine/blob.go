package machine

import "errors"

// ErrNoBlob means that there is no blob of that hash in the namespace.
var ErrNoBlob = errors.New("no such blob")

// ErrUploadChanged means that another request changed the upload. The blob was not stored.
var ErrUploadChanged = errors.New("the upload was changed meanwhile")

// Blob describes a stored blob, addressed by its hash.
type Blob struct {
	SHA256 [32]byte
	// Size is in bytes; the blob is stored as Chunks pieces.
	Size   int64
	Chunks int
	// MediaType is the media type given by the first writer; "" = none given.
	MediaType string
	// At is when it was last stored, Unix nanoseconds.
	At int64
	// Pieces is the id under which its pieces are stored.
	Pieces [16]byte
}

// UploadKey identifies an upload in progress.
type UploadKey struct{ Principal, ID string }

// Upload is the stored progress of an upload; the zero value is an upload that has not begun.
type Upload struct {
	Size   int64
	Chunks int
	// At is when its last piece was stored, Unix nanoseconds.
	At     int64
	Pieces [16]byte
}

// BlobSweep is the result of a sweep of blobs.
type BlobSweep struct {
	// Blobs and Uploads are the numbers removed, Bytes their size.
	Blobs, Uploads int
	Bytes          int64
}
