package badgerkv

import (
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/store/kv"
)

// snapshot and cursor are Badger's own types under other names, so that a read does not allocate an
// object.
type (
	snapshot badger.Txn
	cursor   badger.Iterator
)

func (s *snapshot) txn() *badger.Txn { return (*badger.Txn)(s) }

func (s *snapshot) Group() uint64 { return s.txn().ReadTs() }

func (s *snapshot) Close() { s.txn().Discard() }

func (s *snapshot) Get(key []byte) ([]byte, error) {
	item, err := s.txn().Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if inTree(item) {
		// The item and its memory are used only by this reader.
		value, err := shown(item)
		if value == nil && err == nil {
			value = []byte{}
		}
		return value, err
	}
	return copied(item, nil)
}

func (s *snapshot) Has(key []byte) (bool, error) {
	_, err := s.txn().Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Scan returns a cursor. It fetches a value only when the caller requests it.
func (s *snapshot) Scan(r kv.Range) kv.Cursor {
	return (*cursor)(s.txn().NewIterator(badger.IteratorOptions{Prefix: r.Prefix, Reverse: r.Reverse, SinceTs: r.Since}))
}

// inTree reports whether a value is stored in the tree next to its key, and not in the value log. If it
// is in the tree, the value that Badger returns is memory of the item. Otherwise the value is a part of
// a file and is valid only during the call.
func inTree(item *badger.Item) bool { return item.EstimatedSize() == item.KeySize()+item.ValueSize() }

// shown returns a value that is stored in the tree. It is valid as long as its item.
func shown(item *badger.Item) (value []byte, err error) {
	err = item.Value(func(v []byte) error {
		value = v
		return nil
	})
	return value, err
}

// copied copies a value into dst, or into new memory if dst is nil. If a value is missing from the
// value log or its checksum is wrong, Badger only logs this and returns no bytes and no error.
// copied then returns [kv.ErrLost].
func copied(item *badger.Item, dst []byte) ([]byte, error) {
	size := max(item.ValueSize(), 0)
	if dst == nil {
		dst = make([]byte, 0, size)
	}
	value, err := item.ValueCopy(dst)
	if err != nil {
		return nil, err
	}
	if len(value) == 0 && size > 0 {
		return nil, kv.ErrLost
	}
	return value, nil
}

func (c *cursor) it() *badger.Iterator { return (*badger.Iterator)(c) }

func (c *cursor) Seek(key []byte) error {
	c.it().Seek(key)
	return nil
}

func (c *cursor) Next() error {
	c.it().Next()
	return nil
}

func (c *cursor) Valid() bool { return c.it().Valid() }

func (c *cursor) Key() []byte { return c.it().Item().Key() }

func (c *cursor) Value(buf []byte) (value, grown []byte, err error) {
	item := c.it().Item()
	if inTree(item) {
		value, err = shown(item)
		return value, buf, err
	}
	if value, err = copied(item, buf); err != nil {
		return nil, buf, err
	}
	return value, value, nil
}

func (c *cursor) ValueCopy() ([]byte, error) { return copied(c.it().Item(), nil) }

func (c *cursor) Size() int64 { return c.it().Item().ValueSize() }

func (c *cursor) StoredSize() int64 { return c.it().Item().EstimatedSize() }

func (c *cursor) Group() uint64 { return c.it().Item().Version() }

func (c *cursor) Close() { c.it().Close() }
