package kv

import (
	"bytes"
	"errors"
)

// View reads one moment of a storage engine. After its first failed read it returns no more data, its
// iterators become invalid, and the code that opened the view must return [View.Err]. Therefore no loop
// can mistake an interrupted scan for a complete one.
type View struct {
	snap Snapshot
	err  error
}

// ReadError means that a read of the storage engine failed, so that the contents are unknown.
type ReadError struct{ Err error }

// Error returns a text with the storage engine's error.
func (e *ReadError) Error() string { return "read the store: " + e.Err.Error() }

// Unwrap returns the storage engine's error.
func (e *ReadError) Unwrap() error { return e.Err }

// On returns a view of a snapshot. Closing the view closes the snapshot.
func On(snap Snapshot) View { return View{snap: snap} }

// Group returns the newest commit group that the view shows.
func (v *View) Group() uint64 { return v.snap.Group() }

// Err returns the first failed read as a *[ReadError], or nil if no read failed.
func (v *View) Err() error {
	if v.err == nil {
		return nil
	}
	return &ReadError{v.err}
}

// Close closes the view.
func (v *View) Close() { v.snap.Close() }

// Get returns the value of a key. It returns nil if the key does not exist. The caller may change the
// value. Errors: [ErrLost].
func (v *View) Get(key []byte) ([]byte, error) {
	if v.err != nil {
		return nil, v.err
	}
	value, err := v.snap.Get(key)
	return value, v.read(err)
}

// Has reports whether a key exists. It does not read the value.
func (v *View) Has(key []byte) (bool, error) {
	if v.err != nil {
		return false, v.err
	}
	there, err := v.snap.Has(key)
	return there, v.read(err)
}

// Counts reports whether the storage engine is a [Counter].
func (v *View) Counts() bool {
	_, ok := v.snap.(Counter)
	return ok
}

// Count calls [Counter.Count]. The storage engine must be a [Counter].
func (v *View) Count(prefix, behind []byte, most int) (n int, last []byte, err error) {
	if v.err != nil {
		return 0, nil, v.err
	}
	n, last, err = v.snap.(Counter).Count(prefix, behind, most)
	return n, last, v.read(err)
}

// read records the first failed read of the view. A value that is lost ([ErrLost]) does not count as a
// failed read.
func (v *View) read(err error) error {
	if err != nil && v.err == nil && !errors.Is(err, ErrLost) {
		v.err = err
	}
	return err
}

// Scan returns an iterator without a position. The caller must close it.
func (v *View) Scan(r Range) *Iterator {
	return &Iterator{view: v, cursor: v.snap.Scan(r), reverse: r.Reverse}
}

// Iterator visits the keys of a range. It is small, so that the compiler can inline [View.Scan].
type Iterator struct {
	view   *View
	cursor Cursor
	// reverse reports whether the range is reverse. [Iterator.Rewind] must then not be called.
	reverse bool
	// buf is reused from key to key.
	buf []byte
}

// Rewind moves to the first key of the range, which must not be a reverse range.
func (it *Iterator) Rewind() {
	if it.reverse {
		it.moved(errReverse)
		return
	}
	it.moved(it.cursor.Seek(nil))
}

// errReverse is the error of Rewind for a reverse range, in which storage engines would find different
// first keys.
var errReverse = errors.New("a reverse range is gone through from a key that is sought")

// Seek moves to the first key at or after the given key, see [Cursor].
func (it *Iterator) Seek(key []byte) { it.moved(it.cursor.Seek(key)) }

// Next moves to the next key.
func (it *Iterator) Next() { it.moved(it.cursor.Next()) }

func (it *Iterator) moved(err error) {
	if err != nil && it.view.err == nil {
		it.view.err = err
	}
}

// Valid reports whether the iterator is at a key and no read of its view has failed.
func (it *Iterator) Valid() bool { return it.view.err == nil && it.cursor.Valid() }

// Key returns the current key. It is valid until the next move.
func (it *Iterator) Key() []byte { return it.cursor.Key() }

// KeyCopy returns a copy of the present key.
func (it *Iterator) KeyCopy() []byte { return bytes.Clone(it.cursor.Key()) }

// Value returns the current value. It is valid until the next move or the next call of Value. Errors:
// [ErrLost].
func (it *Iterator) Value() ([]byte, error) {
	value, buf, err := it.cursor.Value(it.buf)
	it.buf = buf
	return value, it.view.read(err)
}

// ValueCopy returns a copy of the current value. Errors: [ErrLost].
func (it *Iterator) ValueCopy() ([]byte, error) {
	value, err := it.cursor.ValueCopy()
	return value, it.view.read(err)
}

// Size returns the approximate size of the value in bytes.
func (it *Iterator) Size() int64 { return it.cursor.Size() }

// StoredSize returns the approximate disk space of the pair in bytes.
func (it *Iterator) StoredSize() int64 { return it.cursor.StoredSize() }

// Group returns the number of the commit group that set the pair.
func (it *Iterator) Group() uint64 { return it.cursor.Group() }

// Close closes the iterator.
func (it *Iterator) Close() { it.cursor.Close() }
