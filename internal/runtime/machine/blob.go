package machine

import "errors"

// ErrNoBlob: there is no blob of that hash in the namespace.
var ErrNoBlob = errors.New("no such blob")

// ErrUploadChanged: the upload was changed by somebody else. Nothing was stored.
var ErrUploadChanged = errors.New("the upload was changed meanwhile")

// Blob is what is known of a stored blob, addressed by its hash.
type Blob struct {
	SHA256 [32]byte
	// Size in bytes, in Chunks pieces.
	Size   int64
	Chunks int
	// MediaType is what its first writer said; "" = nothing.
	MediaType string
	// At is when it was stored last, Unix nanoseconds.
	At int64
	// Pieces names where its pieces are kept.
	Pieces [16]byte
}

// UploadKey names an upload that is under way.
type UploadKey struct{ Principal, ID string }

// Upload is what is stored of an upload; the zero value is one that has not
// begun.
type Upload struct {
	Size   int64
	Chunks int
	// At is when its last piece was stored, Unix nanoseconds.
	At     int64
	Pieces [16]byte
}

// BlobSweep is what a sweep of blobs did.
type BlobSweep struct {
	// Blobs and Uploads were removed, Bytes with them.
	Blobs, Uploads int
	Bytes          int64
}
