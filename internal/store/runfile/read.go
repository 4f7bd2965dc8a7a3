package runfile

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
)

// Reader reads one file, frame by frame.
type Reader struct {
	in     *bufio.Reader
	sum    hash.Hash
	header Header
	sealed bool
}

// NewReader reads the beginning of a file up to its header. Errors: [ErrInvalid],
// [ErrTruncated], [ErrNewer].
func NewReader(in io.Reader) (*Reader, error) {
	r := &Reader{in: bufio.NewReader(in), sum: sha256.New()}
	head := make([]byte, len(magic)+2)
	if err := r.readFull(head); err != nil {
		return nil, err
	}
	if string(head[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: it does not begin with %q", ErrInvalid, magic[:len(magic)-1])
	}
	if version := binary.BigEndian.Uint16(head[len(magic):]); version != Version {
		if version > Version {
			return nil, fmt.Errorf("%w: it has version %d, this program reads %d", ErrNewer, version, Version)
		}
		return nil, fmt.Errorf("%w: version %d", ErrInvalid, version)
	}
	kind, body, err := r.Next()
	if err != nil {
		return nil, err
	}
	if kind != KindHeader {
		return nil, fmt.Errorf("%w: its first frame is of kind %d", ErrInvalid, kind)
	}
	return r, decode(body, &r.header)
}

// Header returns the header of the file.
func (r *Reader) Header() Header { return r.header }

// Next reads one frame. At the last frame, the seal, it verifies the checksum and returns io.EOF. The
// caller may change the returned bytes.
func (r *Reader) Next() (Kind, []byte, error) {
	if r.sealed {
		return 0, nil, io.EOF
	}
	before := r.sum.Sum(nil)
	var head [5]byte
	if err := r.readFull(head[:]); err != nil {
		return 0, nil, err
	}
	kind, size := Kind(head[0]), binary.BigEndian.Uint32(head[1:])
	if kind < KindHeader || kind > KindSeal || size > MaxFrame {
		return 0, nil, fmt.Errorf("%w: a frame of kind %d with %d bytes", ErrInvalid, kind, size)
	}
	body, err := r.body(int(size))
	if err != nil {
		return 0, nil, err
	}
	if kind == KindSeal {
		return kind, body, r.checkSeal(before, body)
	}
	return kind, body, nil
}

// body reads the size bytes of a frame. It does not allocate them in advance, because a faulty file may
// contain any size.
func (r *Reader) body(size int) ([]byte, error) {
	var body bytes.Buffer
	if _, err := io.CopyN(io.MultiWriter(&body, r.sum), r.in, int64(size)); err != nil {
		return nil, truncatedError(err)
	}
	return body.Bytes(), nil
}

// checkSeal compares the seal with the hash of the file, and checks that the file ends after it.
func (r *Reader) checkSeal(want, got []byte) error {
	r.sealed = true
	if !bytes.Equal(want, got) {
		return fmt.Errorf("%w: its bytes do not have the hash of its seal", ErrInvalid)
	}
	if _, err := r.in.ReadByte(); err == nil {
		return fmt.Errorf("%w: something follows its seal", ErrInvalid)
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return io.EOF
}

func (r *Reader) readFull(b []byte) error {
	if _, err := io.ReadFull(r.in, b); err != nil {
		return truncatedError(err)
	}
	r.sum.Write(b)
	return nil
}

func truncatedError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	return err
}

// ReadBlob decodes the body of a frame of [KindBlob].
func ReadBlob(body []byte) (Blob, error) {
	var b Blob
	return b, decode(body, &b)
}

func decode(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}
