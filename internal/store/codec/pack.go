package codec

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// EncodePackBytes makes the value of a pack by digest.
func EncodePackBytes(r *machine.PackRow) []byte {
	b := make([]byte, 1, 16+len(r.Canonical)+len(r.Source))
	b[0] = Format
	b = appendBytes(b, 1, r.Canonical)
	return appendBytes(b, 2, r.Source)
}

// DecodePackBytes fills Canonical and Source.
func DecodePackBytes(r *machine.PackRow, value []byte) error {
	if err := checkFormat("pack", value, 1); err != nil {
		return err
	}
	s := newScan("pack", value[1:])
	for s.next() {
		switch s.num {
		case 1:
			r.Canonical = s.bytes()
		case 2:
			r.Source = s.bytes()
		default:
			s.unknown()
		}
	}
	return s.err
}

// EncodePackName makes the value of a pack's rows by name and by digest.
func EncodePackName(r *machine.PackRow) []byte {
	b := appendString(append(make([]byte, 0, 128), Format), 1, r.Digest)
	b = appendString(b, 2, r.ID)
	b = appendString(b, 3, r.Version)
	return appendTime(b, 4, r.RegisteredAt)
}

// DecodePackName is the inverse of [EncodePackName].
func DecodePackName(value []byte) (machine.PackRow, error) {
	var r machine.PackRow
	if err := checkFormat("pack name", value, 1); err != nil {
		return r, err
	}
	s := newScan("pack name", value[1:])
	for s.next() {
		switch s.num {
		case 1:
			r.Digest = s.string()
		case 2:
			r.ID = s.string()
		case 3:
			r.Version = s.string()
		case 4:
			r.RegisteredAt = s.time()
		default:
			s.unknown()
		}
	}
	return r, s.err
}
