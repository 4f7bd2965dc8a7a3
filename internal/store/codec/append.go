package codec

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// The append functions omit zero values, as proto3 does for fields without presence.

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

// appendHash appends a hash. It omits the zero value, which represents the hash of empty data.
func appendHash(b []byte, num protowire.Number, v *[32]byte) []byte {
	if *v == ([32]byte{}) {
		return b
	}
	return appendBytes(b, num, v[:])
}

// appendPacked appends a packed repeated field.
func appendPacked[T unsigned](b []byte, num protowire.Number, vs []T) []byte {
	if len(vs) == 0 {
		return b
	}
	b, mark := open(b, num)
	for _, v := range vs {
		b = protowire.AppendVarint(b, uint64(v))
	}
	return shut(b, mark)
}

// open begins a nested message and reserves one byte for its length. The caller must later pass mark to
// shut.
func open(b []byte, num protowire.Number) (out []byte, mark int) {
	b = appendTag(b, num, protowire.BytesType)
	b = append(b, 0)
	return b, len(b)
}

// shut writes the length of the message that began at mark. If the length needs more than the
// reserved byte, shut moves the message up.
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
