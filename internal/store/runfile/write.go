package runfile

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"io"
)

// Writer writes one file.
type Writer struct {
	out io.Writer
	sum hash.Hash
}

// NewWriter begins a file with its header.
func NewWriter(out io.Writer, h Header) (*Writer, error) {
	w := &Writer{sum: sha256.New()}
	w.out = io.MultiWriter(out, w.sum)
	if _, err := w.out.Write(binary.BigEndian.AppendUint16([]byte(magic), Version)); err != nil {
		return nil, err
	}
	return w, w.JSON(KindHeader, h)
}

// JSON writes a frame of JSON.
func (w *Writer) JSON(kind Kind, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.Frame(kind, body)
}

// Frame writes one frame.
func (w *Writer) Frame(kind Kind, body []byte) error {
	if len(body) > MaxFrame {
		return fmt.Errorf("a frame of %d bytes; at most %d", len(body), MaxFrame)
	}
	head := binary.BigEndian.AppendUint32([]byte{byte(kind)}, uint32(len(body)))
	if _, err := w.out.Write(head); err != nil {
		return err
	}
	_, err := w.out.Write(body)
	return err
}

// Close writes the seal.
func (w *Writer) Close() error { return w.Frame(KindSeal, w.sum.Sum(nil)) }
