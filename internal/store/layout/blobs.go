package layout

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

// BlobKey returns the key of a blob, which contains the blob's hash.
func BlobKey(ns uint32, sum [32]byte) []byte { return append(Prefix(nil, KindBlob, ns), sum[:]...) }

// PiecesPrefix returns the prefix of the keys of all pieces of a blob or an upload.
func PiecesPrefix(ns uint32, pieces [16]byte) []byte {
	return append(Prefix(nil, KindBlobPiece, ns), pieces[:]...)
}

// PieceKey returns the key of piece n, counted from 0.
func PieceKey(ns uint32, pieces [16]byte, n int) []byte {
	return binary.BigEndian.AppendUint32(PiecesPrefix(ns, pieces), uint32(n))
}

// UploadKey returns the key of an upload in progress.
func UploadKey(ns uint32, key machine.UploadKey) []byte {
	return AppendName(AppendName(Prefix(nil, KindUpload, ns), key.Principal), key.ID)
}

// blobRef is the beginning of every reference to a blob in the bytes of an entry.
var blobRef = []byte("blob:sha256:")

// BlobRefsOf returns the prefix of the keys of all references to a blob.
func BlobRefsOf(ns uint32, sum [32]byte) []byte {
	return append(Prefix(nil, KindBlobRef, ns), sum[:]...)
}

func blobRefKey(ns uint32, sum [32]byte, run string) []byte {
	return AppendName(BlobRefsOf(ns, sum), run)
}

// RefsIn returns the hashes of the blobs that stored bytes refer to, without duplicates.
func RefsIn(value []byte) [][32]byte {
	var refs [][32]byte
	var seen map[[32]byte]bool
	for {
		i := bytes.Index(value, blobRef)
		if i < 0 {
			return refs
		}
		value = value[i+len(blobRef):]
		var sum [32]byte
		if len(value) < 2*len(sum) {
			return refs
		}
		if _, err := hex.Decode(sum[:], value[:2*len(sum)]); err != nil || seen[sum] {
			continue
		}
		if seen == nil {
			seen = make(map[[32]byte]bool)
		}
		seen[sum] = true
		refs = append(refs, sum)
	}
}

// refers adds a row for each blob that the entry refers to. The rows are stored in the same commit as
// the entry. Otherwise a sweep could remove a blob between two commits.
func (w *Made) refers(run string, entry []byte) {
	for _, sum := range RefsIn(entry) {
		w.Ops = append(w.Ops, Op{Key: blobRefKey(w.Ns, sum, run), Value: codec.Mark})
	}
}
