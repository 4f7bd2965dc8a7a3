package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// The append functions below omit zero values, as proto3 does for fields without presence.

// appendTag appends the tag of a field: its number and wire type. The tags of fields 1 to 15 take
// one byte.
func appendTag(b []byte, num protowire.Number, typ protowire.Type) []byte {
	if num < 16 {
		return append(b, byte(num)<<3|byte(typ))
	}
	return protowire.AppendTag(b, num, typ)
}

func appendUint(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	b = appendTag(b, num, protowire.VarintType)
	return protowire.AppendVarint(b, v)
}

// appendInt appends an int64 field. Negative numbers take ten bytes.
func appendInt(b []byte, num protowire.Number, v int64) []byte {
	return appendUint(b, num, uint64(v))
}

// appendSint appends a field in zigzag encoding.
func appendSint(b []byte, num protowire.Number, v int64) []byte {
	return appendUint(b, num, protowire.EncodeZigZag(v))
}

func appendBool(b []byte, num protowire.Number, v bool) []byte {
	if !v {
		return b
	}
	return appendUint(b, num, 1)
}

// appendTime appends a time in Unix nanoseconds as fixed64, because it would take nine bytes as a
// varint.
func appendTime(b []byte, num protowire.Number, v int64) []byte {
	if v == 0 {
		return b
	}
	b = appendTag(b, num, protowire.Fixed64Type)
	return binary.LittleEndian.AppendUint64(b, uint64(v))
}

func appendString(b []byte, num protowire.Number, v string) []byte {
	if v == "" {
		return b
	}
	b = appendTag(b, num, protowire.BytesType)
	return protowire.AppendString(b, v)
}

// appendPresent appends a text even if it is empty. It is used for fields for which an empty text
// differs from an absent field.
func appendPresent(b []byte, num protowire.Number, v string) []byte {
	b = appendTag(b, num, protowire.BytesType)
	return protowire.AppendString(b, v)
}

// appendStrings appends all texts of a list. It also appends empty texts, so that every text keeps its
// position in the list.
func appendStrings(b []byte, num protowire.Number, list []string) []byte {
	for _, s := range list {
		b = appendPresent(b, num, s)
	}
	return b
}

func appendBytes(b []byte, num protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	b = appendTag(b, num, protowire.BytesType)
	return protowire.AppendBytes(b, v)
}

// appendHash appends a hash. It omits the zero value, which means that there is no hash.
func appendHash(b []byte, num protowire.Number, v *[32]byte) []byte {
	if *v == ([32]byte{}) {
		return b
	}
	return appendBytes(b, num, v[:])
}

// appendPacked appends a packed repeated field.
func appendPacked[T storedNumber](b []byte, num protowire.Number, vs []T) []byte {
	if len(vs) == 0 {
		return b
	}
	b, mark := open(b, num)
	for _, v := range vs {
		b = protowire.AppendVarint(b, uint64(v))
	}
	return shut(b, mark)
}

// open begins a nested message and reserves one byte for its length. mark is the position after this
// byte. The caller must later pass it to shut.
func open(b []byte, num protowire.Number) (out []byte, mark int) {
	b = appendTag(b, num, protowire.BytesType)
	b = append(b, 0)
	return b, len(b)
}

// shut writes the length of a nested message, which begins at the position mark. If the length needs
// more than the one reserved byte, shut moves the message back in the buffer.
func shut(b []byte, mark int) []byte {
	n := len(b) - mark
	if n < 0x80 {
		b[mark-1] = byte(n)
		return b
	}
	size := protowire.SizeVarint(uint64(n))
	for range size - 1 {
		b = append(b, 0)
	}
	copy(b[mark+size-1:], b[mark:mark+n])
	binary.PutUvarint(b[mark-1:], uint64(n))
	return b
}

// ErrCorrupt means that stored bytes differ from anything that this version of the program writes.
// Every decoding error wraps it.
var ErrCorrupt = errors.New("stored bytes are corrupt")

// scan iterates over the fields of one message. The encoding is frozen, so everything that the encoder
// would not have written is an error: unknown fields, other wire types, numbers out of range.
//
//	for s := newScan("part", b); s.next(); { switch s.num { ... default: s.unknown() } }
type scan struct {
	what string
	b    []byte
	num  protowire.Number
	typ  protowire.Type
	// word is the value of the current field if the field is a varint or a fixed64. For any other
	// field, body contains its bytes.
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

// ofInput reads a flag which means that the record has the same value as its input. has reports whether
// the input has this value. If it does not, a set flag is an error.
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

// queued reads a reference to a queued input in the run that a fork copies. It returns the parts of
// that input.
func (s *scan) queued(of *bodies) []machine.Part {
	ref := s.uint()
	if ref == 0 || ref > uint64(len(of.queued)) {
		s.fail("reference to an input that the fork does not have")
		return nil
	}
	return of.queued[ref-1].Parts
}

// storedNumber lists the types of fields that [fit] and [packed] decode. No stored number is negative.
type storedNumber interface {
	~int | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// converted returns v as a T, and false if v is out of the range of T.
func converted[T storedNumber](v uint64) (T, bool) {
	n := T(v)
	return n, n >= 0 && uint64(n) == v
}

// fit reads a number. If the number is out of the range of the type T, the scan fails.
func fit[T storedNumber](s *scan) T {
	n, ok := converted[T](s.uint())
	if !ok {
		s.fail("out of range")
		return 0
	}
	return n
}

// packed reads a packed repeated field.
func packed[T storedNumber](s *scan) []T {
	v := s.message()
	var out []T
	for len(v) > 0 {
		u, size := binary.Uvarint(v)
		n, ok := converted[T](u)
		if size <= 0 || !ok {
			s.fail("bad packed numbers")
			return nil
		}
		out, v = append(out, n), v[size:]
	}
	return out
}
