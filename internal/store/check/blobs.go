package check

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// blobs checks that each blob has all of its pieces and the hash under which it is stored, that each upload has
// all of its pieces, and that every piece belongs to a blob or an upload, or is being removed.
func (c *Checker) blobs() error {
	owned := make(map[string]bool)
	err := c.Each([]byte{layout.KindBlob}, func(key, value []byte) error {
		if len(key) != 5+sha256.Size {
			return &Fault{Row: "blob", Detail: fmt.Sprintf("malformed key %x", key)}
		}
		ns := binary.BigEndian.Uint32(key[1:])
		blob, err := codec.DecodeBlob(value)
		if err != nil {
			return &Fault{Namespace: ns, Row: "blob", Detail: err.Error()}
		}
		sum, err := c.pieces("blob", ns, machine.Upload{Size: blob.Size, Chunks: blob.Chunks, Pieces: blob.Pieces}, owned)
		if err == nil && sum != [32]byte(key[5:]) {
			err = &Fault{Namespace: ns, Row: "blob", Detail: fmt.Sprintf("%x has the hash %x", key[5:], sum)}
		}
		return err
	})
	if err != nil {
		return err
	}
	err = c.Each([]byte{layout.KindUpload}, func(key, value []byte) error {
		ns := binary.BigEndian.Uint32(key[1:])
		up, err := codec.DecodeUpload(value)
		if err != nil {
			return &Fault{Namespace: ns, Row: "upload", Detail: err.Error()}
		}
		_, err = c.pieces("upload", ns, up, owned)
		return err
	})
	if err != nil {
		return err
	}
	return c.Each([]byte{layout.KindBlobPiece}, func(key, _ []byte) error {
		if owned[string(key)] {
			return nil
		}
		going, err := c.isBeingRemoved(key[:min(len(key), 5+16)])
		if err == nil && !going {
			err = &Fault{Row: "piece of a blob", Detail: fmt.Sprintf("%x belongs to no blob and no upload", key)}
		}
		return err
	})
}

// pieces hashes the pieces of a blob or an upload, and compares their total size with the one in its row. It
// adds the keys of the pieces to owned. A piece that is missing or already in owned is a fault.
func (c *Checker) pieces(row string, ns uint32, of machine.Upload, owned map[string]bool) (sum [32]byte, err error) {
	hash, size := sha256.New(), int64(0)
	for n := range of.Chunks {
		key := layout.PieceKey(ns, of.Pieces, n)
		piece, err := layout.Get(c.Txn, key)
		if err != nil {
			return sum, err
		}
		if piece == nil || owned[string(key)] {
			return sum, &Fault{Namespace: ns, Row: row, Detail: fmt.Sprintf("piece %d of %x is missing, or belongs to another blob", n, of.Pieces)}
		}
		owned[string(key)] = true
		hash.Write(piece)
		size += int64(len(piece))
	}
	if size != of.Size {
		return sum, &Fault{Namespace: ns, Row: row, Detail: fmt.Sprintf("has %d bytes, its row says %d", size, of.Size)}
	}
	return [32]byte(hash.Sum(nil)), nil
}
