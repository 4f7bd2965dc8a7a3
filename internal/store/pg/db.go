package pg

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/store/fencing"
	"github.com/pawl-dev/pawl/internal/store/kv"
)

// DB is one partition of a database, owned. Safe for concurrent use.
type DB struct {
	at    *Pool
	cfg   Config
	text  statements
	owner *fencing.Owner[*group]
	// format is that of the partition, for as long as it is owned.
	format uint32
}

var _ kv.KV = (*DB)(nil)

// bounds of a group. A key is in an index, of which PostgreSQL takes 2 704 bytes.
var bounds = kv.Bounds{Keys: 13_000, Key: 2600, Bytes: 8 << 20}

// Open creates or migrates the schema if necessary, and acquires the partition. It waits until
// the lease of another owner has ended, unless other code manages leases. Errors:
// *[SchemaError], *[FormatError], *[fencing.HeldError], *[fencing.AwayError], and those of the
// database.
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

// closePool closes a pool that only this database uses.
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

// seed makes the row of the partition, in tables that are still this program's.
func (d *DB) seed() error {
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.Timeouts.Read)
	defer cancel()
	if err := d.at.current(ctx, d.text); err != nil {
		return err
	}
	_, err := d.at.pool.Exec(ctx, d.at.SeedText(), []int32{d.cfg.Part}, int32(d.cfg.Formats.Oldest))
	return err
}

func (d *DB) logEvent(what string, err error) {
	d.cfg.Logger.Warn(what, "database", d.cfg.URL.String(), "error", err)
}

// Format is the one that the partition is kept in for as long as it is owned.
func (d *DB) Format() uint32 { return d.format }

// Last is the number of the newest group.
func (d *DB) Last() uint64 { return d.owner.Last() }

// Bounds do not depend on the database.
func (d *DB) Bounds() kv.Bounds { return bounds }

// Release does no work: PostgreSQL itself tracks open transactions.
func (d *DB) Release(uint64) {}

// Owner is the protocol's side of it.
func (d *DB) Owner() Owner { return d.owner }

// Owner says how the partition is.
type Owner interface {
	// Away is why the database cannot be reached, nil: it can.
	Away() error
	// Failed is closed when no more groups are stored; Err returns the reason.
	Failed() <-chan struct{}
	Err() error
	// BeginClose has it give up sooner what it cannot find out.
	BeginClose()
}

// Sizes are the bytes on the database's disk of all partitions: rows and indexes.
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
