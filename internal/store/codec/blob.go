package codec

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// EncodeBlob makes the value of a blob's row; its hash is in the key.
func EncodeBlob(b *machine.Blob) []byte {
	out := appendInt(append(make([]byte, 0, 64), Format), 1, b.Size)
	out = appendUint(out, 2, uint64(b.Chunks))
	out = appendString(out, 3, b.MediaType)
	out = appendTime(out, 4, b.At)
	return appendBytes(out, 5, b.Pieces[:])
}

// DecodeBlob is the inverse of [EncodeBlob].
func DecodeBlob(value []byte) (machine.Blob, error) {
	var b machine.Blob
	if err := checkFormat("blob", value, 1); err != nil {
		return b, err
	}
	s := newScan("blob", value[1:])
	for s.next() {
		switch s.num {
		case 1:
			b.Size = s.int64()
		case 2:
			b.Chunks = s.int()
		case 3:
			b.MediaType = s.string()
		case 4:
			b.At = s.time()
		case 5:
			s.pieces(&b.Pieces)
		default:
			s.unknown()
		}
	}
	return b, s.err
}

// EncodeUpload makes the value of an upload's row.
func EncodeUpload(u *machine.Upload) []byte {
	out := appendInt(append(make([]byte, 0, 48), Format), 1, u.Size)
	out = appendUint(out, 2, uint64(u.Chunks))
	out = appendTime(out, 3, u.At)
	return appendBytes(out, 4, u.Pieces[:])
}

// DecodeUpload is the inverse of [EncodeUpload].
func DecodeUpload(value []byte) (machine.Upload, error) {
	var u machine.Upload
	if err := checkFormat("upload", value, 1); err != nil {
		return u, err
	}
	s := newScan("upload", value[1:])
	for s.next() {
		switch s.num {
		case 1:
			u.Size = s.int64()
		case 2:
			u.Chunks = s.int()
		case 3:
			u.At = s.time()
		case 4:
			s.pieces(&u.Pieces)
		default:
			s.unknown()
		}
	}
	return u, s.err
}

func (s *scan) pieces(to *[16]byte) {
	if v := s.message(); len(v) == len(to) {
		copy(to[:], v)
		return
	}
	s.fail("not 16 bytes")
}
