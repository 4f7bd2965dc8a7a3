package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// ErrCorrupt means that stored bytes are not bytes that this version of the program writes. Every
// decoding error wraps it.
var ErrCorrupt = errors.New("stored bytes are corrupt")

// scan iterates over the fields of one message. The encoding is frozen, so that everything that the
// encoder would not have written is an error: unknown fields, other wire types, numbers out of
// range.
//
//	for s := newScan("part", b); s.next(); { switch s.num { ... default: s.unknown() } }
type scan struct {
	what string
	b    []byte
	num  protowire.Number
	typ  protowire.Type
	// word is the value of the current field if the field is a varint or a fixed64. body contains the
	// bytes of any other field.
	word uint64
	body []byte
	err  error
}

func newScan(what string, b []byte) *scan { return &scan{what: what, b: b} }

// next reads the next field. It returns false at the end and at the first error. It stores the error in
// s.err.
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

// enum reads a value of an enumeration, which must be between 0 and last.
func (s *scan) enum(last uint8) uint8 {
	v := s.uint()
	if v > uint64(last) {
		s.fail("out of range")
		return 0
	}
	return uint8(v)
}

func (s *scan) int64() int64 { return int64(s.uint()) }
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

// bytes returns a part of the scanned buffer, or nil if the field is empty.
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

// fixed reads a hash or an id. Its length must be equal to the length of to.
func (s *scan) fixed(to []byte) {
	if v := s.message(); len(v) == len(to) {
		copy(to, v)
		return
	}
	s.fail("not a value of its length")
}

// ofInput reads a flag that means "the same body as in the input". has reports whether the input has
// this body. If it does not have the body, a set flag is an error.
func (s *scan) ofInput(has bool) bool {
	on := s.bool()
	if on && !has {
		s.fail("reference to a body that the input does not have")
	}
	return on && has
}

// reference reads a reference and returns the value of the input that it refers to.
func (s *scan) reference(of *bodies) []byte {
	v, ok := of.value(s.uint())
	if !ok {
		s.fail("reference to a body that the input does not have")
	}
	return v
}

// queued reads a reference to a queued input of a fork and returns the parts of that input.
func (s *scan) queued(of *bodies) []machine.Part {
	ref := s.uint()
	if ref == 0 || ref > uint64(len(of.queued)) {
		s.fail("reference to an input that the fork does not have")
		return nil
	}
	return of.queued[ref-1].Parts
}

// unsigned lists the number types of fields that [fit] and [packed] decode.
type unsigned interface {
	~int | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// fit reads a number. If the number does not fit the type T, this is an error.
func fit[T unsigned](s *scan) T {
	v := s.uint()
	if n := T(v); n < 0 || uint64(n) != v {
		s.fail("out of range")
		return 0
	}
	return T(v)
}

// packed reads a packed repeated field.
func packed[T unsigned](s *scan) []T {
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
