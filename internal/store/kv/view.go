package kv

import (
	"bytes"
	"errors"
)

// View reads one moment of an engine. After its first failed read it returns no more data:
// iterators are invalid, and the code that opened the view returns [View.Err]. So no loop can
// take an interrupted scan for a complete one.
type View struct {
	snap Snapshot
	err  error
}

// ReadError is a failed read of the engine: the contents are unknown.
type ReadError struct{ Err error }

// Error says what failed.
func (e *ReadError) Error() string { return "read the store: " + e.Err.Error() }

// Unwrap gives the engine's error.
func (e *ReadError) Unwrap() error { return e.Err }

// On reads a snapshot, which the view closes.
func On(snap Snapshot) View { return View{snap: snap} }

// Group returns the newest group that the view shows.
func (v *View) Group() uint64 { return v.snap.Group() }

// Err is the read that failed first, a *[ReadError]; nil if none did.
func (v *View) Err() error {
	if v.err == nil {
		return nil
	}
	return &ReadError{v.err}
}

// Close ends it.
func (v *View) Close() { v.snap.Close() }

// Get reads a value, which then belongs to the caller; nil: the key does not exist. [ErrLost].
func (v *View) Get(key []byte) ([]byte, error) {
	if v.err != nil {
		return nil, v.err
	}
	value, err := v.snap.Get(key)
	return value, v.read(err)
}

// Has looks for a key without its value.
func (v *View) Has(key []byte) (bool, error) {
	if v.err != nil {
		return false, v.err
	}
	there, err := v.snap.Has(key)
	return there, v.read(err)
}

// Counts reports whether the engine is a [Counter].
func (v *View) Counts() bool {
	_, ok := v.snap.(Counter)
	return ok
}

// Count is that of a [Counter].
func (v *View) Count(prefix, behind []byte, most int) (n int, last []byte, err error) {
	if v.err != nil {
		return 0, nil, v.err
	}
	n, last, err = v.snap.(Counter).Count(prefix, behind, most)
	return n, last, v.read(err)
}

// read takes the outcome of a read.
func (v *View) read(err error) error {
	if err != nil && v.err == nil && !errors.Is(err, ErrLost) {
		v.err = err
	}
	return err
}

// Scan makes an iterator, to be closed, that stands nowhere yet.
func (v *View) Scan(r Range) *Iterator {
	return &Iterator{view: v, cursor: v.snap.Scan(r), reverse: r.Reverse}
}

// Iterator goes through the keys of a range. It is small and inlined: see [View.Scan].
type Iterator struct {
	view   *View
	cursor Cursor
	// reverse has no first key.
	reverse bool
	// buf is reused from key to key.
	buf []byte
}

// Rewind goes to the first key of a range that is not reverse.
func (it *Iterator) Rewind() {
	if it.reverse {
		it.moved(errReverse)
		return
	}
	it.moved(it.cursor.Seek(nil))
}

// errReverse: engines differ in what they would find.
var errReverse = errors.New("a reverse range is gone through from a key that is sought")

// Seek goes to the first key at or behind the given one, see [Cursor].
func (it *Iterator) Seek(key []byte) { it.moved(it.cursor.Seek(key)) }

// Next goes to the next key.
func (it *Iterator) Next() { it.moved(it.cursor.Next()) }

func (it *Iterator) moved(err error) {
	if err != nil && it.view.err == nil {
		it.view.err = err
	}
}

// Valid: it stands at a key, and no read of its view has failed.
func (it *Iterator) Valid() bool { return it.view.err == nil && it.cursor.Valid() }

// Key is good until the next move.
func (it *Iterator) Key() []byte { return it.cursor.Key() }

// KeyCopy is the caller's.
func (it *Iterator) KeyCopy() []byte { return bytes.Clone(it.cursor.Key()) }

// Value is good until the iterator moves, or is asked for another one. [ErrLost].
func (it *Iterator) Value() ([]byte, error) {
	value, buf, err := it.cursor.Value(it.buf)
	it.buf = buf
	return value, it.view.read(err)
}

// ValueCopy is the caller's. [ErrLost].
func (it *Iterator) ValueCopy() ([]byte, error) {
	value, err := it.cursor.ValueCopy()
	return value, it.view.read(err)
}

// Size returns the approximate size of the value, Room the storage that the pair takes.
func (it *Iterator) Size() int64 { return it.cursor.Size() }

// StoredSize is about how many bytes the pair takes where it lies.
func (it *Iterator) StoredSize() int64 { return it.cursor.StoredSize() }

// Group is the one that set the pair.
func (it *Iterator) Group() uint64 { return it.cursor.Group() }

// Close ends it.
func (it *Iterator) Close() { it.cursor.Close() }
