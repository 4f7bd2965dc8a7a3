package keyringtest

import (
	"errors"
	"io"
)

// Memory is a medium that lasts as long as the process. Closed, it may be opened by another
// ring.
type Memory struct {
	bytes []byte
	// Fail, if set, is called before each write, and its error becomes that of the write.
	Fail func(what string) error
}

// Holding is one that has bytes already.
func Holding(bytes []byte) *Memory { return &Memory{bytes: bytes} }

// ReadAt is that of a file.
func (m *Memory) ReadAt(b []byte, at int64) (int, error) {
	if at >= int64(len(m.bytes)) {
		return 0, io.EOF
	}
	n := copy(b, m.bytes[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Size is what was written.
func (m *Memory) Size() (int64, bool, error) { return int64(len(m.bytes)), m.bytes != nil, nil }

// Create takes the header.
func (m *Memory) Create(header []byte) error {
	if m.bytes != nil {
		return errors.New("it was created before")
	}
	return m.Write("header", header, 0)
}

// Write writes over what is there, or at its end.
func (m *Memory) Write(what string, b []byte, at int64) error {
	if m.Fail != nil {
		if err := m.Fail(what); err != nil {
			return err
		}
	}
	if end := at + int64(len(b)); end > int64(len(m.bytes)) {
		m.bytes = append(m.bytes, make([]byte, end-int64(len(m.bytes)))...)
	}
	copy(m.bytes[at:], b)
	return nil
}

// Close leaves the bytes.
func (m *Memory) Close() error { return nil }
