package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrCorrupt is wrapped by every decoding error: the bytes are not what this
// version writes.
var ErrCorrupt = errors.New("stored bytes are corrupt")

// scan walks the fields of one message. The encoding is frozen, so whatever the
// encoder would not have written is an error: unknown fields, other wire types,
// numbers out of range.
//
//	for s := newScan("part", b); s.next(); { switch s.num { ... default: s.unknown() } }
type scan struct {
	what string
	b    []byte
	num  protowire.Number
	typ  protowire.Type
	// word holds a varint or fixed64, body the bytes of the current field.
	word uint64
	body []byte
	err  error
}

func newScan(what string, b []byte) *scan { return &scan{what: what, b: b} }

// next reads one field; false at the end or at the first error, kept in s.err.
func (s *scan) next() bool {
	if s.err != nil || len(s.b) == 0 {
		return false
	}
	num, typ, n := protowire.ConsumeTag(s.b)
	if n < 0 {
		s.fail("bad tag")
		return false
	}
	s.num, s.typ, s.b = num, typ, s.b[n:]
	switch typ {
	case protowire.VarintType:
		s.word, n = protowire.ConsumeVarint(s.b)
	case protowire.Fixed64Type:
		s.word, n = protowire.ConsumeFixed64(s.b)
	case protowire.BytesType:
		s.body, n = protowire.ConsumeBytes(s.b)
	default:
		n = -1
	}
	if n < 0 {
		s.fail("bad value")
		return false
	}
	s.b = s.b[n:]
	return true
}

func (s *scan) fail(why string) {
	if s.err == nil {
		s.err = fmt.Errorf("%w: %s, field %d: %s", ErrCorrupt, s.what, s.num, why)
	}
}

func (s *scan) unknown() { s.fail("unknown field") }

// keep records the error of a nested message.
func (s *scan) keep(err error) {
	if s.err == nil && err != nil {
		s.err = fmt.Errorf("%s: %w", s.what, err)
	}
}

func (s *scan) want(typ protowire.Type) bool {
	if s.typ != typ {
		s.fail("unexpected wire type")
		return false
	}
	return true
}

func (s *scan) uint() uint64 {
	if !s.want(protowire.VarintType) {
		return 0
	}
	return s.word
}

func (s *scan) uint32() uint32 {
	v := s.uint()
	if v > math.MaxUint32 {
		s.fail("out of range")
	}
	return uint32(v)
}

// enum reads a number of a closed set 0..last.
func (s *scan) enum(last uint8) uint8 {
	v := s.uint()
	if v > uint64(last) {
		s.fail("out of range")
		return 0
	}
	return uint8(v)
}

func (s *scan) int64() int64 { return int64(s.uint()) }
func (s *scan) int() int     { return int(s.uint()) }
func (s *scan) sint() int64  { return protowire.DecodeZigZag(s.uint()) }

func (s *scan) bool() bool {
	v := s.uint()
	if v > 1 {
		s.fail("not a boolean")
	}
	return v == 1
}

func (s *scan) time() int64 {
	if !s.want(protowire.Fixed64Type) {
		return 0
	}
	return int64(s.word)
}

func (s *scan) message() []byte {
	if !s.want(protowire.BytesType) {
		return nil
	}
	return s.body
}

// bytes is a part of the scanned buffer, nil when empty.
func (s *scan) bytes() []byte {
	v := s.message()
	if len(v) == 0 {
		return nil
	}
	return slices.Clip(v)
}

func (s *scan) string() string {
	return string(s.message())
}

func (s *scan) hash(to *[32]byte) {
	if v := s.message(); len(v) == len(to) {
		copy(to[:], v)
		return
	}
	s.fail("not a hash")
}

// packed reads a packed repeated field.
func packed[T uint32 | uint64](s *scan) []T {
	v := s.message()
	var out []T
	for len(v) > 0 {
		n, size := binary.Uvarint(v)
		if size <= 0 || uint64(T(n)) != n {
			s.fail("bad packed numbers")
			return nil
		}
		out, v = append(out, T(n)), v[size:]
	}
	return out
}
