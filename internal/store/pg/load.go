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
	// emptyText selects the row of a partition if the partition has no owner and no commit.
	emptyText = `SELECT epoch FROM {s}.part WHERE id = $1 AND commit_no = 0 AND lease_until <= clock_timestamp()`
)

// loadedText completes the load of a partition: it sets the number of the last commit group. It changes
// no row if the partition was taken over in the meantime. It increases the epoch, which fences commits
// of an earlier owner.
const loadedText = `UPDATE {s}.part SET commit_no = $3, epoch = epoch + 1, owner = '', address = '', lease_until = '-infinity'
	WHERE id = $1 AND epoch = $2 AND commit_no = 0 AND lease_until <= now()`

func inSchema(text, schema string) string { return strings.ReplaceAll(text, "{s}", schema) }

// ErrNotEmpty means that the partition already contains a store, so no other store can be loaded into
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

// Load stores all pairs of another storage engine in an empty partition, in one transaction. Each pair
// keeps the number of its commit group, and the last group of the partition is then that of the other
// engine. The function keys writes the run keys. No other code may write to the other engine. If Load
// is interrupted, nothing is stored. Load always releases the partition and closes d. Errors:
// [ErrNotEmpty], *[KeyError].
func (d *DB) Load(ctx context.Context, from kv.KV, keys func(into *LoadedKeys) error) (err error) {
	l, err := d.NewLoader(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := l.Fill(d.cfg.Part, from, keys); err != nil {
		return err
	}
	return l.Commit(nil)
}

// Loader fills the empty partitions of a store in one transaction.
type Loader struct {
	*longTxn
	filled []filledPartition
}

// filledPartition describes a partition whose keys and values were written, with the epoch that the partition
// had before.
type filledPartition struct {
	part  int32
	epoch int64
	last  uint64
}

// NewLoader begins to fill partitions in one transaction. The partition of d must be owned and empty. It
// stays owned until [Loader.Commit], so that no node serves the store. The end of the Loader closes
// d. Errors: [ErrNotEmpty].
func (d *DB) NewLoader(ctx context.Context) (*Loader, error) {
	if d.LastKey() != 0 {
		return nil, errors.Join(ErrNotEmpty, d.Close())
	}
	l, err := d.beginLongTxn(ctx)
	if err != nil {
		return nil, err
	}
	return &Loader{longTxn: l}, nil
}

// Fill writes the contents of a partition, except the number of its last commit group, which
// [Loader.Commit] writes.
func (l *Loader) Fill(part int32, from kv.KV, keys func(into *LoadedKeys) error) error {
	at, d := filledPartition{part: part, last: from.LastKey()}, l.db
	if part != d.cfg.Part {
		var err error
		if at.epoch, err = l.emptyEpoch(part); err != nil {
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
			// If reading the source failed, its error is returned. The server only reports that the
			// copy was interrupted.
			err = source.err
		}
		if err != nil {
			return err
		}
	}
	return keys(&LoadedKeys{schema: d.cfg.Schema, part: part, conn: l.session.conn})
}

// emptyEpoch returns the epoch of a partition that has no data and no owner, and creates the row of the
// partition if necessary. If the partition has data or an owner, the error is [ErrNotEmpty].
func (l *Loader) emptyEpoch(part int32) (epoch int64, err error) {
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

// Commit completes the load. It releases the partition of d and commits the transaction, if each filled
// partition is still free and unchanged. places maps namespaces to partitions.
func (l *Loader) Commit(places map[string]int32) error {
	err := l.end(func(epoch int64) error {
		for _, f := range l.filled {
			if f.part == l.db.cfg.Part {
				f.epoch = epoch
			}
			if err := l.execOne(loadedText, f.part, f.epoch, int64(f.last)); err != nil {
				return err
			}
		}
		return l.storePlacements(places)
	})
	if err != nil {
		return fmt.Errorf("the last step of the move: %w", err)
	}
	return nil
}

// pairs iterates over the pairs of one table, as the source of a COPY statement.
type pairs struct {
	// ended returns the error of the context that was passed to Load, or nil while this context has not
	// ended.
	ended    func() error
	db       *DB
	part     int32
	view     *kv.View
	side     int
	iterator *kv.Iterator
	kind     int
	// value is the value of the current pair.
	value []byte
	err   error
}

// Next moves to the next pair of the table. The pairs are in the order of the kinds of their keys.
func (p *pairs) Next() bool {
	if p.iterator != nil {
		p.iterator.Next()
	}
	for p.err == nil && (p.iterator == nil || !p.iterator.Valid()) {
		if !p.nextKind() {
			return false
		}
	}
	if p.err == nil {
		p.err = p.ended()
	}
	if p.err == nil {
		p.value, p.err = p.iterator.ValueCopy()
	}
	if p.err == nil && len(p.iterator.Key()) > bounds.Key {
		p.err = &KeyError{Key: p.iterator.KeyCopy(), Limit: bounds.Key}
	}
	return p.err == nil
}

// nextKind moves to the first pair of the next kind of keys that is stored in the same table.
func (p *pairs) nextKind() bool {
	if p.iterator != nil {
		p.iterator.Close()
		p.iterator = nil
	}
	for ; p.kind < 256; p.kind++ {
		if p.db.side([]byte{byte(p.kind)}) == p.side {
			p.iterator = p.view.Scan(kv.Range{Prefix: []byte{byte(p.kind)}})
			p.iterator.Rewind()
			p.kind++
			return true
		}
	}
	return false
}

// Values returns the columns of the current pair's row.
func (p *pairs) Values() ([]any, error) {
	return []any{p.part, p.iterator.KeyCopy(), p.value, int64(p.iterator.Group())}, nil
}

// Err returns the error that ended the iteration early.
func (p *pairs) Err() error { return p.err }

func (p *pairs) end() {
	if p.iterator != nil {
		p.iterator.Close()
	}
	if p.err == nil {
		p.err = p.view.Err()
	}
}

// LoadedKeys is the medium for run keys during a load. It writes in the transaction of the load.
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

// Write appends whole pages of run keys after the existing ones.
func (k *LoadedKeys) Write(_ string, b []byte, at int64) error {
	if at != k.size || at%keysPage != 0 {
		return fmt.Errorf("keys at %d behind %d: %w", at, k.size, errors.ErrUnsupported)
	}
	numbers, pages := paged(b, at)
	k.size = at + int64(len(b))
	_, err := k.conn.Exec(context.Background(), inSchema(keysLoadText, k.schema), pgx.QueryExecModeExec, k.part, numbers, pages)
	return err
}

// Close does nothing, because the transaction continues.
func (k *LoadedKeys) Close() error { return nil }

func paged(b []byte, at int64) (numbers []int64, pages [][]byte) {
	for page := at / keysPage; len(b) > 0; page++ {
		n := min(keysPage, len(b))
		numbers, pages, b = append(numbers, page), append(pages, b[:n]), b[n:]
	}
	return numbers, pages
}
