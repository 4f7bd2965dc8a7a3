package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Partitions is the maximum number of partitions of a database. They are numbered from 0.
const Partitions = 64

// seedText creates the rows of partitions. It does not change an existing row, because it would have to
// wait for the lock of that row. A new partition gets the format of partition 0, which every node that
// can own partition 0 supports. If partition 0 does not exist, the new partition gets the oldest format
// of this program. Other nodes may not support that format.
const seedText = `INSERT INTO {s}.part (id, format)
	SELECT u.id, coalesce((SELECT format FROM {s}.part WHERE part.id = 0), $2::integer) FROM unnest($1::integer[]) AS u (id)
	WHERE NOT EXISTS (SELECT 1 FROM {s}.part WHERE part.id = u.id) ON CONFLICT DO NOTHING`

// SeedText returns the statement that creates the rows of partitions. Its parameters are the
// numbers of the partitions, and the format that they get if partition 0 does not exist.
func (r *Pool) SeedText() string { return inSchema(seedText, r.schema) }

const (
	// settledText waits for all transactions that are currently placing namespaces.
	settledText = `LOCK TABLE {s}.namespace IN SHARE MODE`
	sharedText  = `SELECT part FROM {s}.namespace WHERE part <> 0 UNION SELECT id FROM {s}.part WHERE id <> 0 AND commit_no > 0 ORDER BY 1`
	placedText  = `SELECT name, part FROM {s}.namespace`
	partsText   = `SELECT id FROM {s}.part WHERE commit_no > 0 ORDER BY id`
)

// Shared returns the numbers of the partitions other than 0 that have a namespace or a commit, in
// ascending order. A sidecar without a cluster owns partition 0. It calls Shared after its namespaces
// are stored there, so that a placement that begins later sees that they are in partition 0.
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

// Placed returns the partition of each namespace.
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

// Parts returns the numbers of the partitions that have a commit, in ascending order.
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

// named adds the name of the database to an error.
func (r *Pool) named(err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", r.url, err)
	}
	return err
}
