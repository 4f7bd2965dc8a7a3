package pg

import (
	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/kv"
)

var _ kv.Counter = (*snapshot)(nil)

// Count counts keys in the database, without fetching them: the round trips for pages of keys would
// take most of the time. It first searches for the key at the position most, and counts the keys only
// if there are fewer.
func (s *snapshot) Count(prefix, behind []byte, most int) (n int, last []byte, err error) {
	begin, from := "k >= $2", prefix
	if behind != nil {
		begin, from = "k > $2", behind
	}
	where := " FROM " + s.db.cfg.Schema + "." + tableNames[s.db.side(prefix)] + " WHERE part = $1 AND " + begin + " AND k < $3"
	args := []any{s.db.cfg.Part, from, prefixEnd(prefix)}
	err = s.query(func(rows pgx.Rows) error { return rows.Scan(&last) }, "SELECT k"+where+" ORDER BY k OFFSET $4 LIMIT 1", append(args, most-1)...)
	if err != nil || last != nil {
		return most, last, err
	}
	err = s.query(func(rows pgx.Rows) error { return rows.Scan(&n) }, "SELECT count(*)"+where, args...)
	return n, nil, err
}
