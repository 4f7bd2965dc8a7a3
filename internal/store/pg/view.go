package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl/internal/store/fencing"
	"github.com/pawl-dev/pawl/internal/store/kv"
)

// View returns a snapshot whose transaction begins with the first read.
func (d *DB) View(group uint64) kv.Snapshot { return &snapshot{db: d, minGroup: group} }

// snapshot is a read transaction on a connection of the pool. It shows the store at one moment.
type snapshot struct {
	db *DB
	// minGroup is the oldest commit group that the view may show.
	minGroup uint64
	// imported is the name under which another transaction has exported its snapshot. This transaction
	// then shows the same snapshot. If imported is empty, it shows the current state.
	imported string

	conn  *pgxpool.Conn
	group uint64
	// err is the error that ended the view.
	err error
}

const begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

// Group begins the transaction and returns the number of the newest commit group in it. If the
// transaction cannot begin, Group returns minGroup, and every read of the view fails.
func (s *snapshot) Group() uint64 {
	if s.conn == nil && s.err == nil {
		_ = s.query(nil, "")
	}
	return max(s.group, s.minGroup)
}

// query reads rows. The first query also begins the transaction, in the same round trip. If text is empty,
// query only begins the transaction. An error ends the view. Config.Unread converts an error that is no answer
// of the database, or says that it is unavailable.
func (s *snapshot) query(read func(pgx.Rows) error, text string, args ...any) error {
	if s.err != nil {
		return s.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.db.cfg.Timeouts.Read)
	defer cancel()
	if s.conn == nil {
		s.err = s.begin(ctx, read, text, args)
	} else {
		rows, err := s.conn.Query(ctx, text, args...)
		s.err = readAll(rows, err, read)
	}
	if s.err != nil && (codeOf(s.err) == "" || isUnavailable(codeOf(s.err))) {
		s.err = s.db.cfg.Unread(s.err)
	}
	return s.err
}

func readAll(rows pgx.Rows, err error, read func(pgx.Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// begin tries connections of the pool until one of them answers, because some may have been opened
// before the last restart of the server.
func (s *snapshot) begin(ctx context.Context, read func(pgx.Rows) error, text string, args []any) error {
	for {
		conn, err := s.db.at.pool.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("no connection for reading: %w", err)
		}
		if err = s.beginAndQuery(ctx, conn, read, text, args); err == nil {
			s.conn = conn
			return nil
		}
		dead := conn.Conn().IsClosed()
		s.db.releaseConn(conn)
		if !dead || errors.Is(err, errForeign) || ctx.Err() != nil {
			return err
		}
	}
}

// errForeign means that the partition belongs to another owner. A retry has the same result.
var errForeign = errors.New("the partition is not this owner's any more")

// IsForeign reports whether an error means that another owner has or had the partition.
func IsForeign(err error) bool { return errors.Is(err, errForeign) }

// beginAndQuery begins the transaction of the view and runs the first query in it. It first checks that the
// partition still belongs to this owner.
func (s *snapshot) beginAndQuery(ctx context.Context, conn *pgxpool.Conn, read func(pgx.Rows) error, text string, args []any) error {
	batch := &pgx.Batch{}
	batch.Queue(begin)
	if s.imported != "" {
		batch.Queue("SET TRANSACTION SNAPSHOT '" + s.imported + "'")
	}
	batch.Queue(s.db.text.readOwner, s.db.cfg.Part)
	if text != "" {
		batch.Queue(text, args...)
	}
	results := conn.SendBatch(ctx, batch)
	err := s.readPreamble(ctx, results)
	if err == nil && text != "" {
		rows, failed := results.Query()
		err = readAll(rows, failed, read)
	}
	return errors.Join(err, results.Close())
}

// readPreamble reads the answers of the statements before the first query. They contain the owner of the
// partition and its newest commit group, which readPreamble checks. It then waits until it is certain that this
// group is stored.
func (s *snapshot) readPreamble(ctx context.Context, results pgx.BatchResults) error {
	_, err := results.Exec()
	if err == nil && s.imported != "" {
		_, err = results.Exec()
	}
	if err != nil {
		return err
	}
	var owner string
	if err = results.QueryRow().Scan(&owner, &s.group); err != nil {
		return err
	}
	if owner != s.db.cfg.Owner {
		return fmt.Errorf("%w: it has %q", errForeign, owner)
	}
	if s.group < s.minGroup {
		return fmt.Errorf("%w: %w", errForeign, &fencing.DataLossError{Acked: s.minGroup, Found: s.group})
	}
	return s.db.owner.WaitStored(ctx, s.group)
}

// Close ends the transaction in the background.
func (s *snapshot) Close() {
	if s.conn != nil {
		go s.db.releaseConn(s.conn)
		s.conn = nil
	}
	s.err = errClosed
}

var errClosed = errors.New("the view is closed")

// ending limits the time for ending a view's transaction, which writes no rows.
const ending = 5 * time.Second

// releaseConn ends the transaction of a view and returns its connection to the pool.
func (d *DB) releaseConn(conn *pgxpool.Conn) {
	if conn.Conn().PgConn().TxStatus() != 'I' && !conn.Conn().IsClosed() {
		ctx, cancel := context.WithTimeout(context.Background(), ending)
		defer cancel()
		// If this fails, Release closes the connection, because its transaction has not ended.
		_, _ = conn.Exec(ctx, "ROLLBACK")
	}
	conn.Release()
}

// Get returns the value of a key. It returns nil if the key does not exist.
func (s *snapshot) Get(key []byte) (value []byte, err error) {
	err = s.query(func(rows pgx.Rows) error {
		if err := rows.Scan(&value); err != nil {
			return err
		}
		if value == nil {
			value = []byte{}
		}
		return nil
	}, s.db.text.get[s.db.side(key)], s.db.cfg.Part, key)
	return value, err
}

// Has reports whether a key exists.
func (s *snapshot) Has(key []byte) (there bool, err error) {
	err = s.query(func(pgx.Rows) error {
		there = true
		return nil
	}, s.db.text.has[s.db.side(key)], s.db.cfg.Part, key)
	return there, err
}

// side returns the table that contains a key: 0 is the hot table, whose rows are often rewritten, and 1
// is the cold table.
func (d *DB) side(key []byte) int {
	if d.cfg.Hot(key[0]) {
		return 0
	}
	return 1
}
