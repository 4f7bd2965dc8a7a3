package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Partitions is how many a database has at most; their numbers are below it.
const Partitions = 64

// seedText creates the rows of partitions, and does not touch an existing row, whose lock it
// would wait for. A partition starts in the format of partition 0, which every node that can
// own that one supports. Without partition 0 it starts in the oldest format of this program,
// which may be newer than that of other nodes.
const seedText = `INSERT INTO {s}.part (id, format)
	SELECT u.id, coalesce((SELECT format FROM {s}.part WHERE part.id = 0), $2::integer) FROM unnest($1::integer[]) AS u (id)
	WHERE NOT EXISTS (SELECT 1 FROM {s}.part WHERE part.id = u.id) ON CONFLICT DO NOTHING`

// SeedText is the statement that makes the rows of partitions: by their numbers, and the format of
// the first.
func (r *Pool) SeedText() string { return inSchema(seedText, r.schema) }

const (
	// settledText waits for transactions that place namespaces at this moment.
	settledText = `LOCK TABLE {s}.namespace IN SHARE MODE`
	sharedText  = `SELECT part FROM {s}.namespace WHERE part <> 0 UNION SELECT id FROM {s}.part WHERE id <> 0 AND commit_no > 0 ORDER BY 1`
	placedText  = `SELECT name, part FROM {s}.namespace`
	partsText   = `SELECT id FROM {s}.part WHERE commit_no > 0 ORDER BY id`
)

// Shared returns the partitions besides 0 that have a namespace or a commit, by number. A
// single sidecar owns partition 0, and calls it when its namespaces are stored there; a later
// placement then finds that ownership.
func (r *Pool) Shared(ctx context.Context) (parts []int32, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	reading := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, r.pool, reading, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, inSchema(settledText, r.schema)); err != nil {
			return err
		}
		parts, err = numbers(tx.Query(ctx, inSchema(sharedText, r.schema)))
		return err
	})
	return parts, r.named(err)
}

// Shared calls [Pool.Shared], for an owner of a partition.
func (d *DB) Shared(ctx context.Context) ([]int32, error) { return d.at.Shared(ctx) }

// Placed says in which partition each namespace is.
func (r *Pool) Placed(ctx context.Context) (map[string]int32, error) {
	ctx, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	placed := map[string]int32{}
	rows, err := r.pool.Query(ctx, inSchema(placedText, r.schema))
	if err == nil {
		var name string
		var part int32
		_, err = pgx.ForEachRow(rows, []any{&name, &part}, func() error { placed[name] = part; return nil })
	}
	return placed, r.named(err)
}

// Parts are the partitions that have a commit, by number.
func (r *Pool) Parts(ctx context.Context) ([]int32, error) {
	ctx, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	parts, err := numbers(r.pool.Query(ctx, inSchema(partsText, r.schema)))
	return parts, r.named(err)
}

func numbers(rows pgx.Rows, err error) ([]int32, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int32])
}

// named says which database an error is of.
func (r *Pool) named(err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", r.url, err)
	}
	return err
}
