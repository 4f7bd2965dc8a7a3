package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/kv"
)

const keysLoadText = `INSERT INTO {s}.run_keys (part, page, bytes) SELECT $1, u.page, u.bytes FROM unnest($2::bigint[], $3::bytea[]) AS u (page, bytes)`

const (
	oursText = `SELECT epoch FROM {s}.part WHERE id = $1 AND owner = $2`
	// emptyText selects the row of a partition that is free and empty.
	emptyText = `SELECT epoch FROM {s}.part WHERE id = $1 AND commit_no = 0 AND lease_until <= clock_timestamp()`
)

// loadedText completes the load of a partition. It also fences the earlier owner of the partition,
// because it succeeds only if the partition was not taken over in the meantime.
const loadedText = `UPDATE {s}.part SET commit_no = $3, epoch = epoch + 1, owner = '', address = '', lease_until = '-infinity'
	WHERE id = $1 AND epoch = $2 AND commit_no = 0 AND lease_until <= now()`

func inSchema(text, schema string) string { return strings.ReplaceAll(text, "{s}", schema) }

// ErrNotEmpty means that the partition already contains a store, so that no store can be loaded into
// it.
var ErrNotEmpty = errors.New("there is a store already")

// KeyError means that a key is longer than PostgreSQL accepts in an index.
type KeyError struct {
	Key   []byte
	Limit int
}

// Error returns a text with the length and the beginning of the key.
func (e *KeyError) Error() string {
	return fmt.Sprintf("a key has %d bytes, a database takes %d: %q...", len(e.Key), e.Limit, e.Key[:40])
}

// Load stores all pairs of another engine, each with its group, and the run keys that keys writes, in
// one transaction. No other code may write to the other engine. If Load is interrupted, nothing is
// stored. Afterwards the last group of the partition is the last group of the other engine. The
// partition must be owned and empty. Load always releases the partition and closes d. Errors:
// [ErrNotEmpty], *[KeyError].
func (d *DB) Load(ctx context.Context, from kv.KV, keys func(into *LoadedKeys) error) (err error) {
	l, err := d.Loading(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := l.Fill(d.cfg.Part, from, keys); err != nil {
		return err
	}
	return l.Commit(nil)
}

// Loading fills the empty partitions of a store in one transaction.
type Loading struct {
	*longTxn
	filled []filled
}

// filled describes a partition whose pairs were written. It contains the epoch that the partition had
// before.
type filled struct {
	part  int32
	epoch int64
	last  uint64
}

// Loading begins to fill partitions. The partition of d must be empty. It is owned until the last step.
// d is always closed in the end. Errors: [ErrNotEmpty].
func (d *DB) Loading(ctx context.Context) (*Loading, error) {
	if d.Last() != 0 {
		return nil, errors.Join(ErrNotEmpty, d.Close())
	}
	l, err := d.beginLongTxn(ctx)
	if err != nil {
		return nil, err
	}
	return &Loading{longTxn: l}, nil
}

// Fill writes the contents of a partition except the number of its last group. [Loading.Commit] writes
// this number.
func (l *Loading) Fill(part int32, from kv.KV, keys func(into *LoadedKeys) error) error {
	at, d := filled{part: part, last: from.Last()}, l.db
	if part != d.cfg.Part {
		var err error
		if at.epoch, err = l.empty(part); err != nil {
			return err
		}
	}
	l.filled = append(l.filled, at)
	view := kv.On(from.View(at.last))
	defer view.Close()
	for side, table := range tableNames {
		source := &pairs{ended: l.ctx.Err, db: d, part: part, view: &view, side: side}
		_, err := l.session.conn.CopyFrom(l.ctx, pgx.Identifier{d.cfg.Schema, table}, []string{"part", "k", "v", "g"}, source)
		if source.end(); source.err != nil {
			// The error of the source is more precise than that of the server.
			err = source.err
		}
		if err != nil {
			return err
		}
	}
	return keys(&LoadedKeys{schema: d.cfg.Schema, part: part, conn: l.session.conn})
}

// empty creates the row of a partition, and returns the partition's epoch. If the partition is not
// empty, the error is [ErrNotEmpty].
func (l *Loading) empty(part int32) (epoch int64, err error) {
	d := l.db
	if _, err := d.at.pool.Exec(l.ctx, d.at.SeedText(), []int32{part}, int32(d.cfg.Formats.Oldest)); err != nil {
		return 0, err
	}
	err = d.at.pool.QueryRow(l.ctx, inSchema(emptyText, d.cfg.Schema), part).Scan(&epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("partition %d: %w", part, ErrNotEmpty)
	}
	return epoch, err
}

// Commit releases the partition and then stores everything, if each partition is still free and
// unchanged. places maps namespaces to partitions. If the answer of the database is lost, Commit reads
// the rows to find out the outcome.
func (l *Loading) Commit(places map[string]int32) error {
	err := l.end(func(epoch int64) error {
		for _, f := range l.filled {
			if f.part == l.db.cfg.Part {
				f.epoch = epoch
			}
			if err := l.one(loadedText, f.part, f.epoch, int64(f.last)); err != nil {
				return err
			}
		}
		return l.place(places)
	})
	if err != nil {
		return fmt.Errorf("the last step of the move: %w", err)
	}
	return nil
}

// pairs iterates over the pairs of one table. It is the source of a COPY statement.
type pairs struct {
	// ended returns an error if the context of the caller has ended.
	ended func() error
	db    *DB
	part  int32
	view  *kv.View
	side  int
	it    *kv.Iterator
	kind  int
	// value is the value of the present pair.
	value []byte
	err   error
}

// Next moves to the next pair of the table. The pairs are in the order of their kinds.
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

// nextKind moves to the first pair of the next kind that belongs to the table.
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

// Values returns the columns of the present row.
func (p *pairs) Values() ([]any, error) {
	return []any{p.part, p.it.KeyCopy(), p.value, int64(p.it.Group())}, nil
}

// Err returns the error that ended the iteration early.
func (p *pairs) Err() error { return p.err }

func (p *pairs) end() {
	if p.it != nil {
		p.it.Close()
	}
	if p.err == nil {
		p.err = p.view.Err()
	}
}

// LoadedKeys is the medium for run keys during a load. It writes in the same transaction as the load.
type LoadedKeys struct {
	schema string
	part   int32
	conn   *pgx.Conn
	size   int64
}

// ReadAt returns an error, because a load only writes keys.
func (k *LoadedKeys) ReadAt([]byte, int64) (int, error) { return 0, errors.ErrUnsupported }

// Size returns the number of bytes that were written.
func (k *LoadedKeys) Size() (int64, bool, error) { return k.size, k.size > 0, nil }

// Create writes the first page.
func (k *LoadedKeys) Create(header []byte) error { return k.Write("header", header, 0) }

// Write appends whole pages after the existing ones.
func (k *LoadedKeys) Write(_ string, b []byte, at int64) error {
	if at != k.size || at%keysPage != 0 {
		return fmt.Errorf("keys at %d behind %d: %w", at, k.size, errors.ErrUnsupported)
	}
	numbers, pages := paged(b, at)
	k.size = at + int64(len(b))
	_, err := k.conn.Exec(context.Background(), inSchema(keysLoadText, k.schema), pgx.QueryExecModeExec, k.part, numbers, pages)
	return err
}

// Close does nothing; the transaction goes on.
func (k *LoadedKeys) Close() error { return nil }

func paged(b []byte, at int64) (numbers []int64, pages [][]byte) {
	for page := at / keysPage; len(b) > 0; page++ {
		n := min(keysPage, len(b))
		numbers, pages, b = append(numbers, page), append(pages, b[:n]), b[n:]
	}
	return numbers, pages
}
