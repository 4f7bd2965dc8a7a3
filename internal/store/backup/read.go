package backup

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Read reads a backup and passes its rows to visit, page by page. If visit is nil, Read only verifies the
// backup. The rows are certain only after Read has returned without an error, because the digest is at the end
// of the backup. Errors: [ErrInvalid], and the errors of in and of visit.
func Read(in io.Reader, visit func(rows []layout.Op) error) (Header, error) {
	return readIf(in, func(Header) error { return nil }, visit)
}

// readIf is [Read], but reads no rows if accept returns an error for the header.
func readIf(in io.Reader, accept func(Header) error, visit func(rows []layout.Op) error) (Header, error) {
	r := &reader{in: in, sum: sha256.New(), visit: visit}
	h, err := r.header()
	if err == nil {
		err = accept(h)
	}
	if err != nil {
		return h, err
	}
	for {
		// The last frame contains the digest of everything before that frame.
		before := hex.EncodeToString(r.sum.Sum(nil))
		kind, payload, err := r.frame()
		if err != nil {
			return h, err
		}
		switch kind {
		case frameRows:
			err = r.unpack(payload)
		case frameEnd:
			return h, r.end(payload, before)
		default:
			err = fmt.Errorf("%w: a frame of kind %q", ErrInvalid, kind)
		}
		if err != nil {
			return h, err
		}
	}
}

type reader struct {
	in    io.Reader
	sum   hash.Hash
	visit func(rows []layout.Op) error
	rows  int64
	bytes int64
}

func (r *reader) header() (Header, error) {
	begin := make([]byte, len(magic))
	if err := r.read(begin); err != nil || string(begin) != magic {
		return Header{}, errors.Join(fmt.Errorf("%w: the file does not begin with the mark of a backup", ErrInvalid), err)
	}
	kind, payload, err := r.frame()
	if err != nil {
		return Header{}, err
	}
	if kind != frameHeader {
		return Header{}, fmt.Errorf("%w: it has no header", ErrInvalid)
	}
	return parseHeader(payload)
}

func (r *reader) read(into []byte) error {
	_, err := io.ReadFull(r.in, into)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the file is truncated", ErrInvalid)
	}
	r.sum.Write(into)
	return err
}

func (r *reader) frame() (kind byte, payload []byte, err error) {
	var head [5]byte
	if err := r.read(head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > mostFrame {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes, at most %d", ErrInvalid, size, mostFrame)
	}
	payload = make([]byte, size)
	return head[0], payload, r.read(payload)
}

// unpack decompresses and decodes the rows of one frame of the backup, and passes them to visit.
func (r *reader) unpack(payload []byte) error {
	page, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(payload)), mostFrame+1))
	if err != nil || len(page) > mostFrame {
		return errors.Join(fmt.Errorf("%w: a frame of rows does not unpack", ErrInvalid), err)
	}
	r.bytes += int64(len(page))
	var rows []layout.Op
	for len(page) > 0 {
		var op layout.Op
		if op.Key, page, err = field(page); err == nil {
			op.Value, page, err = field(page)
		}
		if err == nil && (len(op.Key) < 1 || len(op.Key) < minKey(op.Key[0]) || op.Key[0] != layout.KindPack && (len(op.Key) > layout.MaxKey || !carried(op.Key[0]))) {
			err = fmt.Errorf("%w: a row has an unknown kind: %x", ErrInvalid, op.Key)
		}
		if err != nil {
			return err
		}
		rows = append(rows, op)
	}
	r.rows += int64(len(rows))
	if r.visit == nil {
		return nil
	}
	return r.visit(rows)
}

// minKey returns the minimum length of a key of this kind, in bytes. A key begins with a kind and a namespace, except
// the key of a pack, which has no namespace. A backup with a shorter key is refused, because the store decodes the
// times of queues and the positions of cursors without checking the length.
func minKey(kind byte) int {
	switch kind {
	case layout.KindPack:
		return 1
	case layout.KindTimer, layout.KindCursor:
		return 1 + 4 + 8
	case layout.KindOutbox:
		return 1 + 4 + 1 + 8
	}
	return 1 + 4
}

func field(b []byte) (field, rest []byte, err error) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, fmt.Errorf("%w: a row is truncated", ErrInvalid)
	}
	return b[size : size+int(n)], b[size+int(n):], nil
}

// end compares the counts and the digest at the end of the backup with those of the bytes that were
// read. It also returns an error if more bytes follow the end.
func (r *reader) end(payload []byte, sum string) error {
	var says end
	if err := json.Unmarshal(payload, &says); err != nil {
		return fmt.Errorf("%w: its end: %w", ErrInvalid, err)
	}
	if says.SHA256 != sum || says.Rows != r.rows || says.Bytes != r.bytes {
		return fmt.Errorf("%w: the file was changed: it has %d rows with the digest %s, its end records %d with %s", ErrInvalid, r.rows, sum, says.Rows, says.SHA256)
	}
	var more [1]byte
	if n, err := r.in.Read(more[:]); n > 0 || err != nil && !errors.Is(err, io.EOF) {
		return errors.Join(fmt.Errorf("%w: there is data after its end", ErrInvalid), err)
	}
	return nil
}
