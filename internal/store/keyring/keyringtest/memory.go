package keyringtest

import (
	"errors"
	"io"
)

// Memory is a medium in memory. After Close, another ring may open the same bytes.
type Memory struct {
	bytes []byte
	// Fail is called before each write if it is not nil. If it returns an error, the write fails with
	// this error.
	Fail func(what string) error
}

// NewMemoryWith returns a Memory that already contains bytes.
func NewMemoryWith(bytes []byte) *Memory { return &Memory{bytes: bytes} }

// ReadAt reads like a file.
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

// Size returns the number of bytes that were written.
func (m *Memory) Size() (int64, bool, error) { return int64(len(m.bytes)), m.bytes != nil, nil }

// Create writes the header.
func (m *Memory) Create(header []byte) error {
	if m.bytes != nil {
		return errors.New("it was created before")
	}
	return m.Write("header", header, 0)
}

// Write overwrites existing bytes or appends at the end.
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

// Close does not delete the bytes, so that another ring can open them.
func (m *Memory) Close() error { return nil }
