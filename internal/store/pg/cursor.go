package pg

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/kv"
)

// These constants define how the pages of a cursor grow, and how large they may be. A value of more
// than apart bytes is fetched only when the caller requests it.
const (
	firstPage = 8
	lastPage  = 512
	growth    = 8
	pageBytes = 1 << 20
	apart     = 16 << 10
	// rowBytes is the approximate number of bytes that a pair takes in addition to its key and value.
	// These bytes are the headers of the row and of its index entry. The index entry also contains the
	// key again.
	rowBytes = 60
)

// Scan returns a cursor, which reads pages of rows.
func (s *snapshot) Scan(r kv.Range) kv.Cursor {
	r.Prefix = bytes.Clone(r.Prefix)
	return &cursor{view: s, r: r, past: after(r.Prefix), size: firstPage}
}

// after returns the first key after all keys that begin with the prefix. It returns nil if there is no
// such key.
func after(prefix []byte) []byte {
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
	view *snapshot
	r    kv.Range
	past []byte

	page []row
	at   int
	// size is the number of rows of the next page. last reports whether no page follows the current
	// page.
	size int
	last bool
}

// Seek moves to key within the current page if the page contains that position. Otherwise it reads a
// page that begins there.
func (c *cursor) Seek(key []byte) error {
	if key == nil || !c.r.Reverse && bytes.Compare(key, c.r.Prefix) < 0 {
		key = c.r.Prefix
	}
	if c.within(key) {
		return nil
	}
	c.size = firstPage
	return c.fetch(key, true)
}

// within moves forward within the current page. It returns false if the key is before the current
// position or after the end of the page.
func (c *cursor) within(key []byte) bool {
	if !c.Valid() || c.ahead(c.page[c.at].key, key) || c.ahead(key, c.page[len(c.page)-1].key) {
		return false
	}
	for c.ahead(key, c.page[c.at].key) {
		c.at++
	}
	return true
}

// ahead reports whether a comes after b in the direction of the cursor.
func (c *cursor) ahead(a, b []byte) bool {
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

// fetch reads a page that begins at the key from. with reports whether the page includes that key.
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

// text returns the statement that reads a page, and its arguments.
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
	case !c.r.Reverse && c.past != nil:
		add("k < $%d", c.past)
	}
	if c.r.Reverse && c.past != nil {
		add("k < $%d", c.past)
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

// tables returns the query for one table. If the prefix does not determine the table, it returns the
// query for both tables.
func (c *cursor) tables(columns, where, order string) string {
	schema := c.view.db.cfg.Schema
	one := func(table string) string {
		return "SELECT " + columns + " FROM " + schema + "." + table + " WHERE part = $1" + where
	}
	end := " ORDER BY " + order + " LIMIT $2"
	if len(c.r.Prefix) > 0 {
		return one(tableNames[c.view.db.side(c.r.Prefix)]) + end
	}
	// Each table is sorted and limited separately, because the planner does not merge two sorted
	// inputs.
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

// Group returns the number of the group that set the pair.
func (c *cursor) Group() uint64 { return c.page[c.at].group }

// Close drops the page.
func (c *cursor) Close() { c.page = nil }
