package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// ErrCorrupt is wrapped by every decoding error: the bytes are not what this
// version writes.
var ErrCorrupt = errors.New("stored bytes are corrupt")

// scan walks the fields of one message. The encoding is frozen, so anything that the encoder
// would not have written is an error: unknown fields, other wire types, numbers out of range.
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

// fixed reads bytes of a fixed number: a hash, an id.
func (s *scan) fixed(to []byte) {
	if v := s.message(); len(v) == len(to) {
		copy(to, v)
		return
	}
	s.fail("not a value of its length")
}

// ofInput reads the flag that stands for a body of the input; has = there is one.
func (s *scan) ofInput(has bool) bool {
	on := s.bool()
	if on && !has {
		s.fail("reference to a body that the input does not have")
	}
	return on && has
}

// reference reads a ref field and returns the body that it stands for.
func (s *scan) reference(of *bodies) []byte {
	v, ok := of.value(s.uint())
	if !ok {
		s.fail("reference to a body that the input does not have")
	}
	return v
}

// queued reads the place of parts among the inputs that a fork brings.
func (s *scan) queued(of *bodies) []machine.Part {
	ref := s.uint()
	if ref == 0 || ref > uint64(len(of.queued)) {
		s.fail("reference to an input that the fork does not have")
		return nil
	}
	return of.queued[ref-1].Parts
}

// unsigned are the number types whose range may still grow.
type unsigned interface {
	~int | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// fit reads a number that must fit its type.
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
