package codec

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// The appenders leave out zero values, as proto3 does without presence.

// appendTag writes a field's number and wire type; the first fifteen take one byte.
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

// appendInt writes an int64 field: negative numbers take ten bytes.
func appendInt(b []byte, num protowire.Number, v int64) []byte {
	return appendUint(b, num, uint64(v))
}

// appendSint writes a zigzag field.
func appendSint(b []byte, num protowire.Number, v int64) []byte {
	return appendUint(b, num, protowire.EncodeZigZag(v))
}

func appendBool(b []byte, num protowire.Number, v bool) []byte {
	if !v {
		return b
	}
	return appendUint(b, num, 1)
}

// appendTime writes a fixed64 field: Unix nanoseconds need nine bytes as varint.
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

// appendPresent writes a text even when it is empty, for fields whose presence has a meaning.
func appendPresent(b []byte, num protowire.Number, v string) []byte {
	b = appendTag(b, num, protowire.BytesType)
	return protowire.AppendString(b, v)
}

// appendStrings keeps empty texts: their place in the list counts.
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

// appendHash writes a hash, and omits the hash of empty data like a zero value.
func appendHash(b []byte, num protowire.Number, v *[32]byte) []byte {
	if *v == ([32]byte{}) {
		return b
	}
	return appendBytes(b, num, v[:])
}

// appendPacked writes a packed repeated field.
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

// open starts a nested message with one byte kept for its length; shut ends it.
func open(b []byte, num protowire.Number) (out []byte, mark int) {
	b = appendTag(b, num, protowire.BytesType)
	b = append(b, 0)
	return b, len(b)
}

// shut writes the length of the message that began at mark, moving its bytes
// up when the length needs more than the one byte kept.
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
