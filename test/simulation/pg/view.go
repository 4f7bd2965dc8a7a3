package pg

import (
	"errors"
	"strings"

	"github.com/tidwall/btree"

	"github.com/pawl-dev/pawl/internal/store/kv"
)

// snapshot begins with its first read.
type snapshot struct {
	db       *DB
	minGroup uint64
	pairs    *btree.Map[string, pair]
	group    uint64
	err      error
}

var errForeign = errors.New("the partition is not this owner's any more")

// IsForeign reports whether another owner has the partition.
func IsForeign(err error) bool { return errors.Is(err, errForeign) }

func (s *snapshot) begin() error {
	if s.pairs != nil || s.err != nil {
		return s.err
	}
	if s.err = s.look(); s.err == nil {
		s.err = s.db.waitStored(s.group)
	}
	if s.err != nil {
		s.err = s.db.cfg.Unread(s.err)
	}
	return s.err
}

func (s *snapshot) look() error {
	server := s.db.server
	server.stopped(s.db.cfg.Address)
	server.mu.Lock()
	defer server.mu.Unlock()
	if err := server.alive(s.db.life, s.db.cfg.Address); err != nil {
		return err
	}
	p := server.now.parts[s.db.cfg.Part]
	if p.owner != s.db.cfg.Owner || p.commit < s.minGroup {
		return errForeign
	}
	s.pairs, s.group = p.pairs.Copy(), p.commit
	return nil
}

func (s *snapshot) Group() uint64 {
	_ = s.begin() // every read fails then
	return max(s.group, s.minGroup)
}

func (s *snapshot) Close() {}

func (s *snapshot) Get(key []byte) ([]byte, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	p, there := s.pairs.Get(string(key))
	if !there {
		return nil, nil
	}
	return append([]byte{}, p.value...), nil
}

func (s *snapshot) Has(key []byte) (bool, error) {
	if err := s.begin(); err != nil {
		return false, err
	}
	_, there := s.pairs.Get(string(key))
	return there, nil
}

func (s *snapshot) Scan(r kv.Range) kv.Cursor {
	return &cursor{view: s, r: r, prefix: string(r.Prefix)}
}

// cursor goes through the pairs.
type cursor struct {
	view   *snapshot
	r      kv.Range
	prefix string
	it     btree.MapIter[string, pair]
	at     bool
}

func (c *cursor) Seek(key []byte) error {
	if err := c.view.begin(); err != nil {
		return err
	}
	to := c.prefix
	if key != nil {
		to = string(key)
	}
	c.it = c.view.pairs.Iter()
	c.at = c.it.Seek(to)
	switch {
	case c.r.Reverse && !c.at:
		c.at = c.it.Last()
	case c.r.Reverse && c.it.Key() > to:
		c.at = c.it.Prev()
	}
	c.settle()
	return nil
}

func (c *cursor) Next() error {
	c.step()
	c.settle()
	return nil
}

func (c *cursor) step() {
	if c.r.Reverse {
		c.at = c.it.Prev()
	} else {
		c.at = c.it.Next()
	}
}

func (c *cursor) settle() {
	for c.Valid() && c.it.Value().group <= c.r.Since {
		c.step()
	}
}

func (c *cursor) Valid() bool { return c.at && strings.HasPrefix(c.it.Key(), c.prefix) }

func (c *cursor) Key() []byte { return []byte(c.it.Key()) }

func (c *cursor) Value(buf []byte) (value, grown []byte, err error) {
	buf = append(buf[:0], c.it.Value().value...)
	return buf, buf, nil
}

func (c *cursor) ValueCopy() ([]byte, error) { return append([]byte{}, c.it.Value().value...), nil }

func (c *cursor) Size() int64 { return int64(len(c.it.Value().value)) }

func (c *cursor) StoredSize() int64 { return int64(len(c.it.Key())) + c.Size() }

func (c *cursor) Group() uint64 { return c.it.Value().group }

func (c *cursor) Close() {}
