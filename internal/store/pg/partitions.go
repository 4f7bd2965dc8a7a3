package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Partitions is the maximum number of partitions of a database. They are numbered from 0.
const Partitions = 64

// seedText creates the rows of partitions. It does not touch an existing row, because it would have to
// wait for the lock of that row. A new partition gets the format of partition 0, or this program's
// oldest format if partition 0 does not exist.
const seedText = `INSERT INTO {s}.part (id, format)
	SELECT u.id, coalesce((SELECT format FROM {s}.part WHERE part.id = 0), $2::integer) FROM unnest($1::integer[]) AS u (id)
	WHERE NOT EXISTS (SELECT 1 FROM {s}.part WHERE part.id = u.id) ON CONFLICT DO NOTHING`

// SeedText returns the statement that creates the rows of partitions. Its parameters are the numbers of
// the partitions, and the format that they get if partition 0 does not exist.
func (r *Pool) SeedText() string { return inSchema(seedText, r.schema) }

const (
	// settledText waits until all running transactions that place namespaces in partitions have ended.
	settledText = `LOCK TABLE {s}.namespace IN SHARE MODE`
	sharedText  = `SELECT part FROM {s}.namespace WHERE part <> 0 UNION SELECT id FROM {s}.part WHERE id <> 0 AND commit_no > 0 ORDER BY 1`
	placedText  = `SELECT name, part FROM {s}.namespace`
	partsText   = `SELECT id FROM {s}.part WHERE commit_no > 0 ORDER BY id`
)

// SharedPartitions returns the numbers of the partitions other than 0 that have a namespace or a commit, in
// ascending order. A sidecar without a cluster, which owns partition 0, calls SharedPartitions after it has
// stored its namespaces there. So a later placement of namespaces finds them in partition 0.
func (r *Pool) SharedPartitions(ctx context.Context) (parts []int32, err error) {
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
	return parts, r.addDatabaseName(err)
}

// SharedPartitions returns the same as [Pool.SharedPartitions], for a caller that owns a partition and has no pool.
func (d *DB) SharedPartitions(ctx context.Context) ([]int32, error) {
	return d.at.SharedPartitions(ctx)
}

// Placements returns the partition of each namespace.
func (r *Pool) Placements(ctx context.Context) (map[string]int32, error) {
	ctx, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	placed := map[string]int32{}
	rows, err := r.pool.Query(ctx, inSchema(placedText, r.schema))
	if err == nil {
		var name string
		var part int32
		_, err = pgx.ForEachRow(rows, []any{&name, &part}, func() error { placed[name] = part; return nil })
	}
	return placed, r.addDatabaseName(err)
}

// Parts returns the numbers of the partitions that have a commit, in ascending order.
func (r *Pool) Parts(ctx context.Context) ([]int32, error) {
	ctx, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	parts, err := numbers(r.pool.Query(ctx, inSchema(partsText, r.schema)))
	return parts, r.addDatabaseName(err)
}

func numbers(rows pgx.Rows, err error) ([]int32, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int32])
}

// addDatabaseName adds the name of the database to an error.
func (r *Pool) addDatabaseName(err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", r.url, err)
	}
	return err
}
