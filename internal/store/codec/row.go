package codec

import (
	"encoding/binary"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Mark is the value of rows whose key says everything.
var Mark = []byte{Format}

// EncodeDedupe makes the value of an idempotency row.
func EncodeDedupe(d *machine.Dedupe) []byte {
	b := appendHash(make([]byte, 1, 64), 1, &d.BodyHash)
	b[0] = Format
	b = appendUint(b, 2, d.First)
	b = appendUint(b, 3, d.Last)
	if d.Scope == machine.PerPrincipal {
		b = appendString(b, 4, d.RunID)
	}
	return b
}

// DecodeDedupe completes key, which names the row, with the stored value.
func DecodeDedupe(key machine.Dedupe, value []byte) (machine.Dedupe, error) {
	if err := checkFormat("idempotency row", value, 1); err != nil {
		return key, err
	}
	key.BodyHash, key.First, key.Last = [32]byte{}, 0, 0
	s := newScan("idempotency row", value[1:])
	for s.next() {
		switch s.num {
		case 1:
			s.hash(&key.BodyHash)
		case 2:
			key.First = s.uint()
		case 3:
			key.Last = s.uint()
		case 4:
			key.RunID = s.string()
		default:
			s.unknown()
		}
	}
	return key, s.err
}

// EncodeVersion makes the value of an artifact row.
func EncodeVersion(v *machine.ArtifactVersion) []byte {
	b := appendUint(append(make([]byte, 0, 8), Format), 1, uint64(v.Mode))
	return appendInt(b, 2, v.Bytes)
}

// DecodeVersion reads an artifact row; name and seq are in its key.
func DecodeVersion(name string, seq uint64, value []byte) (machine.ArtifactVersion, error) {
	v := machine.ArtifactVersion{Name: name, Seq: seq}
	if err := checkFormat("artifact row", value, 1); err != nil {
		return v, err
	}
	s := newScan("artifact row", value[1:])
	for s.next() {
		switch s.num {
		case 1:
			v.Mode = machine.Mode(s.enum(uint8(machine.Append)))
		case 2:
			v.Bytes = s.int64()
		default:
			s.unknown()
		}
	}
	return v, s.err
}

// EncodeNumber makes the value of rows that hold one number: a seq, a turn, a
// watermark.
func EncodeNumber(n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 9), Format), n)
}

// DecodeNumber is the inverse of [EncodeNumber].
func DecodeNumber(value []byte) (uint64, error) {
	if err := checkFormat("number row", value, 9); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(value[1:]), nil
}

// EncodePlace makes the value of a cursor row: which entry stands there.
func EncodePlace(run string, first uint64) []byte {
	b := appendString(append(make([]byte, 0, 48), Format), 1, run)
	return appendUint(b, 2, first)
}

// DecodePlace is the inverse of [EncodePlace].
func DecodePlace(value []byte) (run string, first uint64, err error) {
	if err := checkFormat("cursor row", value, 1); err != nil {
		return "", 0, err
	}
	s := newScan("cursor row", value[1:])
	for s.next() {
		switch s.num {
		case 1:
			run = s.string()
		case 2:
			first = s.uint()
		default:
			s.unknown()
		}
	}
	return run, first, s.err
}
