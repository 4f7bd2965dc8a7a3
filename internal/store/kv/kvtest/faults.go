package kvtest

import (
	"errors"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/store/kv"
)

// ErrRead is the error of a read that [Faults] makes fail.
var ErrRead = errors.New("the connection is gone")

// Faults makes reads of an engine fail. It is safe for concurrent use.
type Faults struct {
	reads, fail atomic.Int64
}

// After makes the n-th read after this call fail, counted from 1, and every later read. If n is 0, no
// read fails.
func (f *Faults) After(n int64) {
	f.reads.Store(0)
	f.fail.Store(n)
}

// Reads returns the number of reads since the last call of After.
func (f *Faults) Reads() int64 { return f.reads.Load() }

func (f *Faults) read() error {
	n, fail := f.reads.Add(1), f.fail.Load()
	if fail > 0 && n >= fail {
		return ErrRead
	}
	return nil
}

// On returns a snapshot whose reads fail as requested with After.
func (f *Faults) On(snap kv.Snapshot) kv.Snapshot { return &faulty{Snapshot: snap, faults: f} }

type faulty struct {
	kv.Snapshot
	faults *Faults
}

func (s *faulty) Get(key []byte) ([]byte, error) {
	if err := s.faults.read(); err != nil {
		return nil, err
	}
	return s.Snapshot.Get(key)
}

func (s *faulty) Has(key []byte) (bool, error) {
	if err := s.faults.read(); err != nil {
		return false, err
	}
	return s.Snapshot.Has(key)
}

func (s *faulty) Scan(r kv.Range) kv.Cursor {
	return &faultyCursor{Cursor: s.Snapshot.Scan(r), faults: s.faults}
}

// faultyCursor has no position after a move that failed.
type faultyCursor struct {
	kv.Cursor
	faults *Faults
	lost   bool
}

func (c *faultyCursor) Seek(key []byte) error {
	err := c.faults.read()
	if c.lost = err != nil; c.lost {
		return err
	}
	return c.Cursor.Seek(key)
}

func (c *faultyCursor) Next() error {
	err := c.faults.read()
	if c.lost = err != nil; c.lost {
		return err
	}
	return c.Cursor.Next()
}

func (c *faultyCursor) Valid() bool { return !c.lost && c.Cursor.Valid() }

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
