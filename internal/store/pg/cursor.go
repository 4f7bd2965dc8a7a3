package pg

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/kv"
)

// These constants define how the pages of rows that a cursor reads grow, and how large they may be. A
// value of more than apart bytes is fetched only when the caller requests it.
const (
	firstPage = 8
	lastPage  = 512
	growth    = 8
	pageBytes = 1 << 20
	apart     = 16 << 10
	// rowBytes is the approximate number of bytes that a pair takes on disk in addition to its key, its
	// value, and the copy of its key in the index: the headers of the row and of its index entry.
	rowBytes = 60
)

// Scan returns a cursor over a range of keys, which reads pages of rows.
func (s *snapshot) Scan(r kv.Range) kv.Cursor {
	r.Prefix = bytes.Clone(r.Prefix)
	return &cursor{view: s, r: r, limitKey: prefixEnd(r.Prefix), size: firstPage}
}

// prefixEnd returns the first key that is greater than all keys with the prefix. If there is none, it
// returns nil.
func prefixEnd(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xFF {
			past := bytes.Clone(prefix[:i+1])
			past[i]++
			return past
		}
	}
	return nil
}

// row is one row of a page.
type row struct {
	key, value []byte
	size       int64
	group      uint64
}

type cursor struct {
	view     *snapshot
	r        kv.Range
	limitKey []byte

	page []row
	at   int
	// size is the number of rows of the next page. last reports whether the current page is the last
	// one.
	size int
	last bool
}

// Seek moves to key within the current page of rows if the page covers the key. Otherwise it reads a
// page that begins there.
func (c *cursor) Seek(key []byte) error {
	if key == nil || !c.r.Reverse && bytes.Compare(key, c.r.Prefix) < 0 {
		key = c.r.Prefix
	}
	if c.seekInPage(key) {
		return nil
	}
	c.size = firstPage
	return c.fetch(key, true)
}

// seekInPage moves forward to key within the current page of rows, without a query. It returns false if the key is
// before the current position or after the end of the page, so that a page must be read.
func (c *cursor) seekInPage(key []byte) bool {
	if !c.Valid() || c.isAhead(c.page[c.at].key, key) || c.isAhead(key, c.page[len(c.page)-1].key) {
		return false
	}
	for c.isAhead(key, c.page[c.at].key) {
		c.at++
	}
	return true
}

// isAhead reports whether the key a comes after the key b in the direction of the cursor.
func (c *cursor) isAhead(a, b []byte) bool {
	n := bytes.Compare(a, b)
	if c.r.Reverse {
		return n < 0
	}
	return n > 0
}

// Next moves to the next row. At the end of the page it reads the next page.
func (c *cursor) Next() error {
	c.at++
	if c.at < len(c.page) || c.last {
		return nil
	}
	return c.fetch(c.page[len(c.page)-1].key, false)
}

// fetch reads the page that begins at the key from. If with is false, the page begins after from.
func (c *cursor) fetch(from []byte, with bool) error {
	text, args := c.text(from, with)
	page, total := make([]row, 0, c.size), int64(0)
	err := c.view.query(func(rows pgx.Rows) error {
		var r row
		fields := []any{&r.key, &r.size, &r.group}
		if !c.r.KeysOnly {
			fields = append(fields, &r.value)
		}
		if err := rows.Scan(fields...); err != nil {
			return err
		}
		total += int64(len(r.key)) + min(r.size, apart)
		page = append(page, r)
		return nil
	}, text, args...)
	c.page, c.at, c.last = page, 0, len(page) < c.size || err != nil
	if err != nil {
		c.page = nil
		return err
	}
	if !c.last {
		most := pageBytes / max(1, total/int64(len(page)))
		c.size = int(max(1, min(int64(c.size)*growth, lastPage, most)))
	}
	return nil
}

// text returns the SQL statement that reads a page, and its arguments.
func (c *cursor) text(from []byte, with bool) (string, []any) {
	args := []any{c.view.db.cfg.Part, c.size}
	var where strings.Builder
	add := func(condition string, arg any) {
		args = append(args, arg)
		fmt.Fprintf(&where, " AND "+condition, len(args))
	}
	to, order := ">", "k"
	if c.r.Reverse {
		to, order = "<", "k DESC"
	}
	if with {
		to += "="
	}
	if len(from) > 0 || c.r.Reverse {
		add("k "+to+" $%d", from)
	}
	switch {
	case c.r.Reverse && len(c.r.Prefix) > 0:
		add("k >= $%d", c.r.Prefix)
	case !c.r.Reverse && c.limitKey != nil:
		add("k < $%d", c.limitKey)
	}
	if c.r.Reverse && c.limitKey != nil {
		add("k < $%d", c.limitKey)
	}
	if c.r.Since > 0 {
		add("g > $%d", c.r.Since)
	}
	columns := "k, octet_length(v) AS n, g"
	if !c.r.KeysOnly {
		columns += fmt.Sprintf(", CASE WHEN octet_length(v) <= %d THEN v END AS v", apart)
	}
	return c.tables(columns, where.String(), order), args
}

// tables returns the query that reads the table of the range's prefix. If the range has no prefix, the
// query reads both tables.
func (c *cursor) tables(columns, where, order string) string {
	schema := c.view.db.cfg.Schema
	one := func(table string) string {
		return "SELECT " + columns + " FROM " + schema + "." + table + " WHERE part = $1" + where
	}
	end := " ORDER BY " + order + " LIMIT $2"
	if len(c.r.Prefix) > 0 {
		return one(tableNames[c.view.db.side(c.r.Prefix)]) + end
	}
	// The query sorts and limits each of the two tables separately, because PostgreSQL's planner does
	// not merge two sorted inputs.
	return "(" + one("hot") + end + ") UNION ALL (" + one("cold") + end + ")" + end
}

var tableNames = [2]string{"hot", "cold"}

// Valid reports whether the cursor is at a row.
func (c *cursor) Valid() bool { return c.at < len(c.page) }

// Key returns the current key. It is valid until the next page is read.
func (c *cursor) Key() []byte { return c.page[c.at].key }

// Value returns a copy of the current value. It does not use buf.
func (c *cursor) Value(buf []byte) (value, grown []byte, err error) {
	value, err = c.ValueCopy()
	return value, buf, err
}

// ValueCopy returns a copy of the current value. It fetches a large value from the database.
func (c *cursor) ValueCopy() ([]byte, error) {
	r := &c.page[c.at]
	switch {
	case c.r.KeysOnly:
		return nil, errKeysOnly
	case r.size <= apart:
		return append([]byte{}, r.value...), nil
	}
	value, err := c.view.Get(r.key)
	if err == nil && value == nil {
		err = kv.ErrLost
	}
	return value, err
}

var errKeysOnly = fmt.Errorf("a value of a range of keys alone")

// Size returns the size of the value in bytes.
func (c *cursor) Size() int64 { return c.page[c.at].size }

// StoredSize returns the approximate disk space of the row in bytes.
func (c *cursor) StoredSize() int64 { return c.Size() + int64(2*len(c.Key())) + rowBytes }

// Group returns the number of the commit group that set the pair.
func (c *cursor) Group() uint64 { return c.page[c.at].group }

// Close drops the page.
func (c *cursor) Close() { c.page = nil }
