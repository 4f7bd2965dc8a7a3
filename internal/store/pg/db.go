package pg

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/store/fencing"
	"github.com/pawl-dev/pawl/internal/store/kv"
)

// DB is one partition of a database, which this process owns. Safe for concurrent use.
type DB struct {
	at    *Pool
	cfg   Config
	text  statements
	owner *fencing.Owner[*group]
	// format is the storage format of the partition. It does not change while the partition is owned.
	format uint32
}

var _ kv.KV = (*DB)(nil)

// bounds are the limits of a commit group. A key is part of an index, in which PostgreSQL accepts at
// most 2704 bytes.
var bounds = kv.Bounds{Keys: 13_000, Key: 2600, Bytes: 8 << 20}

// Open acquires the partition. If the caller passes no pool, Open first connects, and creates or migrates the
// schema if necessary. It waits until the lease of another owner has ended. If other code renews the leases
// (Config.RenewedEpoch), Open does not wait and returns a *[fencing.HeldError]. Errors: *[SchemaError],
// *[FormatError], *[fencing.HeldError], *[fencing.AwayError], and the errors of the database.
func Open(cfg Config) (*DB, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	d := &DB{cfg: cfg, text: statementsOf(cfg.Schema), at: cfg.Pool}
	var err error
	if d.at == nil {
		if d.at, err = Connect(context.Background(), cfg); err != nil {
			return nil, err
		}
	}
	if err = d.open(); err != nil {
		d.closePool()
		return nil, fmt.Errorf("%s: %w", cfg.URL, err)
	}
	return d, nil
}

// closePool closes the connection pool, unless the caller of Open has passed the pool.
func (d *DB) closePool() {
	if d.cfg.Pool == nil {
		d.at.Close()
	}
}

func (d *DB) open() (err error) {
	if err = d.seed(); err == nil {
		s := &server{cfg: d.cfg, conn: d.at.conn, pooled: d.at.pooled, text: d.text}
		d.owner, err = fencing.Acquire(s, fencing.Config{
			Lease: d.cfg.Lease, GracePeriod: d.cfg.Timeouts.GracePeriod, CloseTimeout: d.cfg.Timeouts.CloseTimeout, RenewedEpoch: d.cfg.RenewedEpoch, OnEvent: d.logEvent,
		})
		d.format = s.format
	}
	return err
}

// seed creates the row of the partition in the table of partitions if it does not exist. It first
// checks that this program supports the schema, which a newer program may have migrated.
func (d *DB) seed() error {
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.Timeouts.Read)
	defer cancel()
	if err := d.at.checkSchemaUsable(ctx, d.text); err != nil {
		return err
	}
	_, err := d.at.pool.Exec(ctx, d.at.SeedText(), []int32{d.cfg.Part}, int32(d.cfg.Formats.Oldest))
	return err
}

func (d *DB) logEvent(what string, err error) {
	d.cfg.Logger.Warn(what, "database", d.cfg.URL.String(), "error", err)
}

// Format returns the storage format of the partition. It does not change while the partition is owned.
func (d *DB) Format() uint32 { return d.format }

// LastKey returns the number of the newest stored commit group.
func (d *DB) LastKey() uint64 { return d.owner.LastKey() }

// Bounds returns the limits of a commit group. They are the same for every database.
func (d *DB) Bounds() kv.Bounds { return bounds }

// Release does nothing, because PostgreSQL itself tracks open transactions.
func (d *DB) Release(uint64) {}

// Owner returns the owner that fences the commits of the partition.
func (d *DB) Owner() Owner { return d.owner }

// Owner reports the state of the partition.
type Owner interface {
	// Unavailable returns the reason why the database is unavailable. It returns nil if the database is
	// available.
	Unavailable() error
	// Failed returns a channel that is closed when no more commit groups can be stored. Err returns the
	// reason.
	Failed() <-chan struct{}
	Err() error
	// BeginClose tells the owner that it will be closed. After CloseTimeout the owner stops retrying a
	// commit, and stops finding out the outcome of a commit.
	BeginClose()
}

// Sizes returns the disk space of the rows and indexes of all partitions in bytes.
func (d *DB) Sizes() (bytes int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.Timeouts.Read)
	defer cancel()
	err = d.at.pool.QueryRow(ctx, "SELECT pg_catalog.pg_total_relation_size($1) + pg_catalog.pg_total_relation_size($2)",
		d.cfg.Schema+".hot", d.cfg.Schema+".cold").Scan(&bytes)
	return bytes, err
}

// Close gives the partition back.
func (d *DB) Close() error {
	err := d.owner.Close()
	d.closePool()
	return err
}
