package kvtest

import (
	"errors"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/store/kv"
)

// ErrRead is the error of a read that [Faults] makes fail.
var ErrRead = errors.New("the connection is gone")

// Faults makes reads of a storage engine fail. It is safe for concurrent use.
type Faults struct {
	reads, fail atomic.Int64
}

// FailAfter makes the n-th read after this call fail, counted from 1, and every later read. If n is 0, no
// read fails.
func (f *Faults) FailAfter(n int64) {
	f.reads.Store(0)
	f.fail.Store(n)
}

// Reads returns the number of reads since the last call of FailAfter.
func (f *Faults) Reads() int64 { return f.reads.Load() }

func (f *Faults) read() error {
	n, fail := f.reads.Add(1), f.fail.Load()
	if fail > 0 && n >= fail {
		return ErrRead
	}
	return nil
}

// On returns a snapshot whose reads fail as [Faults.FailAfter] requests.
func (f *Faults) On(snap kv.Snapshot) kv.Snapshot { return &faultyView{Snapshot: snap, faults: f} }

type faultyView struct {
	kv.Snapshot
	faults *Faults
}

func (s *faultyView) Get(key []byte) ([]byte, error) {
	if err := s.faults.read(); err != nil {
		return nil, err
	}
	return s.Snapshot.Get(key)
}

func (s *faultyView) Has(key []byte) (bool, error) {
	if err := s.faults.read(); err != nil {
		return false, err
	}
	return s.Snapshot.Has(key)
}

func (s *faultyView) Scan(r kv.Range) kv.Cursor {
	return &faultyCursor{Cursor: s.Snapshot.Scan(r), faults: s.faults}
}

// faultyCursor is a cursor whose moves and reads of values can fail. After a failed move it has no position.
type faultyCursor struct {
	kv.Cursor
	faults *Faults
	failed bool
}

func (c *faultyCursor) Seek(key []byte) error {
	err := c.faults.read()
	if c.failed = err != nil; c.failed {
		return err
	}
	return c.Cursor.Seek(key)
}

func (c *faultyCursor) Next() error {
	err := c.faults.read()
	if c.failed = err != nil; c.failed {
		return err
	}
	return c.Cursor.Next()
}

func (c *faultyCursor) Valid() bool { return !c.failed && c.Cursor.Valid() }

func (c *faultyCursor) Value(buf []byte) (value, grown []byte, err error) {
	if err := c.faults.read(); err != nil {
		return nil, buf, err
	}
	return c.Cursor.Value(buf)
}

func (c *faultyCursor) ValueCopy() ([]byte, error) {
	if err := c.faults.read(); err != nil {
		return nil, err
	}
	return c.Cursor.ValueCopy()
}
