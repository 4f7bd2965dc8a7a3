package pgkv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/kv"
)

// finishing bounds the end of a load: standbys take all of it in.
const finishing = 10 * time.Minute

// loadedPage is how many bytes of the keys of runs a row has.
const loadedPage = 512

const keysLoadText = `INSERT INTO {s}.run_keys (part, page, bytes) SELECT $1, u.page, u.bytes FROM unnest($2::bigint[], $3::bytea[]) AS u (page, bytes)`

const oursText = `SELECT epoch FROM {s}.part WHERE id = $1 AND owner = $2`

const loadedText = `UPDATE {s}.part SET commit_no = $3 WHERE id = $1 AND epoch = $2 AND owner = '' AND commit_no = 0
	RETURNING pg_catalog.set_config('client_min_messages', 'warning', true)`

func inSchema(text, schema string) string { return strings.ReplaceAll(text, "{s}", schema) }

// ErrNotEmpty: a store is to be loaded where there is one.
var ErrNotEmpty = errors.New("there is a store already")

// KeyError: a key is longer than an index of PostgreSQL takes.
type KeyError struct {
	Key   []byte
	Limit int
}

// Error has the length, and how the key begins.
func (e *KeyError) Error() string {
	return fmt.Sprintf("a key has %d bytes, a database takes %d: %q...", len(e.Key), e.Limit, e.Key[:40])
}

// Load stores all pairs of another engine, to which nobody writes, each with its group, and the
// keys of runs that keys writes, in one transaction: broken off at any moment there is nothing.
// Its last group is then that of the other engine. The partition is owned and has nothing; it is
// given back by this, whatever becomes of it, and d is closed. Errors: [ErrNotEmpty], *[KeyError].
func (d *DB) Load(ctx context.Context, from kv.KV, keys func(into *LoadedKeys) error) (err error) {
	released := false
	defer func() {
		if !released {
			err = errors.Join(err, d.Close())
		}
	}()
	last := from.Last()
	if d.Last() != 0 {
		return ErrNotEmpty
	}
	l, err := lineTo(d.at.conn, false)
	if err != nil {
		return err
	}
	defer l.cut()
	stop := context.AfterFunc(ctx, l.cut)
	defer stop()
	if err := d.fill(ctx, l.conn, from, keys); err != nil {
		return err
	}
	// From here on the fence is in the last statement: whoever takes the partition meanwhile
	// has another epoch.
	epoch, err := d.epoch(ctx)
	if err != nil {
		return err
	}
	released = true
	if err := d.Close(); err != nil || !stop() {
		return errors.Join(err, ctx.Err())
	}
	return d.finish(l, epoch, last)
}

// fill writes everything but the number of the last group.
func (d *DB) fill(ctx context.Context, conn *pgx.Conn, from kv.KV, keys func(into *LoadedKeys) error) error {
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	view := kv.On(from.View(from.Last()))
	defer view.Close()
	for side, table := range tableNames {
		source := &pairs{ended: ctx.Err, db: d, view: &view, side: side}
		_, err := conn.CopyFrom(ctx, pgx.Identifier{d.cfg.Schema, table}, []string{"part", "k", "v", "g"}, source)
		if source.end(); source.err != nil {
			// The server tells it as its own.
			err = source.err
		}
		if err != nil {
			return err
		}
	}
	return keys(&LoadedKeys{db: d, conn: conn})
}

// epoch is that of the row as it is, which is ours.
func (d *DB) epoch(ctx context.Context) (epoch int64, err error) {
	err = d.at.pool.QueryRow(ctx, inSchema(oursText, d.cfg.Schema), d.cfg.Part, d.cfg.Owner).Scan(&epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		err = errForeign
	}
	return epoch, err
}

// finish commits what was filled in, if the partition is nobody's and as it was left. Where its
// answer is lost the row says what became of it.
func (d *DB) finish(l *line, epoch int64, last uint64) error {
	rows := int64(0)
	err := l.do(d.cfg.Waits.Statement, func() error {
		done, err := l.conn.Exec(context.Background(), inSchema(loadedText, d.cfg.Schema), pgx.QueryExecModeExec, d.cfg.Part, epoch, int64(last))
		rows = done.RowsAffected()
		return err
	})
	if err == nil && rows != 1 {
		err = errForeign
	}
	if err == nil {
		// All that was loaded is made durable by it, on standbys as well.
		err = l.do(finishing, func() error {
			_, err := l.conn.Exec(context.Background(), "COMMIT", pgx.QueryExecModeExec)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("the last step of the move: %w", err)
	}
	return nil
}

// pairs are those of one table, as COPY takes them.
type pairs struct {
	// ended says that its caller has gone.
	ended func() error
	db    *DB
	view  *kv.View
	side  int
	it    *kv.Iterator
	kind  int
	// value is that of the pair at which it stands.
	value []byte
	err   error
}

// Next goes to the next pair of the table: kind by kind.
func (p *pairs) Next() bool {
	if p.it != nil {
		p.it.Next()
	}
	for p.err == nil && (p.it == nil || !p.it.Valid()) {
		if !p.nextKind() {
			return false
		}
	}
	if p.err == nil {
		p.err = p.ended()
	}
	if p.err == nil {
		p.value, p.err = p.it.ValueCopy()
	}
	if p.err == nil && len(p.it.Key()) > bounds.Key {
		p.err = &KeyError{Key: p.it.KeyCopy(), Limit: bounds.Key}
	}
	return p.err == nil
}

// nextKind stands at the first pair of the next kind that is in the table.
func (p *pairs) nextKind() bool {
	if p.it != nil {
		p.it.Close()
		p.it = nil
	}
	for ; p.kind < 256; p.kind++ {
		if p.db.side([]byte{byte(p.kind)}) == p.side {
			p.it = p.view.Scan(kv.Range{Prefix: []byte{byte(p.kind)}})
			p.it.Rewind()
			p.kind++
			return true
		}
	}
	return false
}

// Values are those of a row.
func (p *pairs) Values() ([]any, error) {
	return []any{p.db.cfg.Part, p.it.KeyCopy(), p.value, int64(p.it.Group())}, nil
}

// Err is why it ended before its end.
func (p *pairs) Err() error { return p.err }

func (p *pairs) end() {
	if p.it != nil {
		p.it.Close()
	}
	if p.err == nil {
		p.err = p.view.Err()
	}
}

// LoadedKeys are the pages of keys in the transaction of a load.
type LoadedKeys struct {
	db   *DB
	conn *pgx.Conn
	size int64
}

// ReadAt is not asked of what is only written.
func (k *LoadedKeys) ReadAt([]byte, int64) (int, error) { return 0, errors.ErrUnsupported }

// Size is what was written.
func (k *LoadedKeys) Size() (int64, bool, error) { return k.size, k.size > 0, nil }

// Create writes the first page.
func (k *LoadedKeys) Create(header []byte) error { return k.Write("header", header, 0) }

// Write writes whole pages behind those that are there.
func (k *LoadedKeys) Write(_ string, b []byte, at int64) error {
	if at != k.size || at%loadedPage != 0 {
		return fmt.Errorf("keys at %d behind %d: %w", at, k.size, errors.ErrUnsupported)
	}
	numbers, pages := paged(b, at)
	k.size = at + int64(len(b))
	_, err := k.conn.Exec(context.Background(), inSchema(keysLoadText, k.db.cfg.Schema), pgx.QueryExecModeExec, k.db.cfg.Part, numbers, pages)
	return err
}

// Close leaves the transaction.
func (k *LoadedKeys) Close() error { return nil }

func paged(b []byte, at int64) (numbers []int64, pages [][]byte) {
	for page := at / loadedPage; len(b) > 0; page++ {
		n := min(loadedPage, len(b))
		numbers, pages, b = append(numbers, page), append(pages, b[:n]), b[n:]
	}
	return numbers, pages
}
