package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// pairSum is a checksum of all pairs of an engine. It does not depend on the order in which the pairs
// are read.
type pairSum struct {
	Rows  int64
	Bytes int64
	// Group is the newest group that set one of the pairs.
	Group uint64
	// Digest is the sum of the SHA-256 digests of all pairs. The digest of a pair includes the
	// number of the group that set it.
	Digest [4]uint64
}

// Add adds a pair to the checksum.
func (s *pairSum) Add(key, value []byte, group uint64) {
	h := sha256.New()
	var head [16]byte
	binary.BigEndian.PutUint64(head[:], group)
	binary.BigEndian.PutUint64(head[8:], uint64(len(key)))
	h.Write(head[:])
	h.Write(key)
	h.Write(value)
	digest := h.Sum(nil)
	for i := range s.Digest {
		s.Digest[i] += binary.BigEndian.Uint64(digest[8*i:])
	}
	s.Rows, s.Bytes, s.Group = s.Rows+1, s.Bytes+int64(len(key)+len(value)), max(s.Group, group)
}

// sumOf returns the checksum of an engine. The engine must have no writers.
func sumOf(ctx context.Context, e kv.KV) (s pairSum, err error) {
	err = eachPair(ctx, e, func(key, value []byte, group uint64) error {
		s.Add(key, value, group)
		return nil
	})
	return s, err
}

// eachPair calls do for every pair of an engine, in the order of the keys. The engine must have no
// writers. key and value are valid only until do returns.
func eachPair(ctx context.Context, e kv.KV, do func(key, value []byte, group uint64) error) error {
	view := kv.On(e.View(e.Last()))
	defer view.Close()
	it := view.Scan(kv.Range{})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		value, err := layout.CopyOf(it)
		if err == nil {
			err = do(it.Key(), value, it.Group())
		}
		if err != nil {
			return err
		}
	}
	return view.Err()
}

// PairsDifferError means that the copy that a move made differs from the original.
type PairsDifferError struct{ From, To pairSum }

// Error returns a text with the counts of the original and of the copy.
func (e *PairsDifferError) Error() string {
	return fmt.Sprintf("the copy is not what was copied: %d pairs of %d bytes up to group %d, of %d pairs of %d bytes up to group %d",
		e.To.Rows, e.To.Bytes, e.To.Group, e.From.Rows, e.From.Bytes, e.From.Group)
}
