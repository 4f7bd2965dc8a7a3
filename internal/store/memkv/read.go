package memkv

import (
	"errors"
	"strings"

	"github.com/tidwall/btree"

	"github.com/pawl-dev/pawl/internal/store/kv"
)

type snapshot struct {
	tree  *tree
	group uint64
}

func (s *snapshot) Group() uint64 { return s.group }

func (s *snapshot) Close() {}

func (s *snapshot) Get(key []byte) ([]byte, error) {
	p, there := s.tree.Get(string(key))
	if !there {
		return nil, nil
	}
	return append([]byte{}, p.value...), nil
}

func (s *snapshot) Has(key []byte) (bool, error) {
	_, there := s.tree.Get(string(key))
	return there, nil
}

func (s *snapshot) Scan(r kv.Range) kv.Cursor {
	return &cursor{tree: s.tree, r: r, prefix: string(r.Prefix)}
}

type cursor struct {
	tree     *tree
	r        kv.Range
	prefix   string
	iterator btree.MapIter[string, pair]
	// at reports whether the cursor is at a key.
	at  bool
	key []byte
	// lastValue is the last returned value. It is valid until the next move.
	lastValue []byte
}

func (c *cursor) Seek(key []byte) error {
	c.spoil()
	to := c.prefix
	if key != nil {
		to = string(key)
	}
	c.iterator = c.tree.Iter()
	c.at = c.iterator.Seek(to)
	switch {
	case c.r.Reverse && !c.at:
		c.at = c.iterator.Last()
	case c.r.Reverse && c.iterator.Key() > to:
		c.at = c.iterator.Prev()
	}
	c.settle()
	return nil
}

func (c *cursor) Next() error {
	c.spoil()
	c.step()
	c.settle()
	return nil
}

// spoil overwrites the last value that the cursor returned, so that a test fails if its caller keeps the value too
// long.
func (c *cursor) spoil() {
	for i := range c.lastValue {
		c.lastValue[i] = 0xEE
	}
	c.lastValue = nil
}

func (c *cursor) step() {
	if c.r.Reverse {
		c.at = c.iterator.Prev()
	} else {
		c.at = c.iterator.Next()
	}
}

// settle moves the cursor behind pairs that are too old for the range (Since), and stores the current
// key.
func (c *cursor) settle() {
	for c.Valid() && c.iterator.Value().group <= c.r.Since {
		c.step()
	}
	if c.Valid() {
		c.key = append(c.key[:0], c.iterator.Key()...)
	}
}

func (c *cursor) Valid() bool { return c.at && strings.HasPrefix(c.iterator.Key(), c.prefix) }

func (c *cursor) Key() []byte { return c.key }

func (c *cursor) Value(buf []byte) (value, grown []byte, err error) {
	if c.r.KeysOnly {
		return nil, buf, errKeysOnly
	}
	buf = append(buf[:0], c.iterator.Value().value...)
	c.lastValue = buf
	return buf, buf, nil
}

func (c *cursor) ValueCopy() ([]byte, error) {
	if c.r.KeysOnly {
		return nil, errKeysOnly
	}
	return append([]byte{}, c.iterator.Value().value...), nil
}

var errKeysOnly = errors.New("a value of a range of keys alone")

func (c *cursor) Size() int64 { return int64(len(c.iterator.Value().value)) }

func (c *cursor) StoredSize() int64 { return int64(len(c.key)) + c.Size() }

func (c *cursor) Group() uint64 { return c.iterator.Value().group }

func (c *cursor) Close() { c.spoil() }
