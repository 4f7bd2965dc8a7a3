package pgkv

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl/internal/store/fenced"
	"github.com/pawl-dev/pawl/internal/store/kv"
)

// DB is one partition of a database, owned. Safe for concurrent use.
type DB struct {
	cfg    Config
	conn   *pgx.ConnConfig
	pooled bool
	text   statements
	pool   *pgxpool.Pool
	owner  *fenced.Owner[*group]
}

var _ kv.KV = (*DB)(nil)

// bounds of a group. A key is in an index, of which PostgreSQL takes 2 704 bytes.
var bounds = kv.Bounds{Keys: 13_000, Key: 2600, Bytes: 8 << 20}

// Open makes or migrates the schema and takes the partition; it waits until the lease of
// another owner has ended. Errors: *[SchemaError], *[fenced.HeldError], *[fenced.AwayError],
// and what the database answers.
func Open(cfg Config) (*DB, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	d := &DB{cfg: cfg, text: statementsOf(cfg.Schema)}
	var err error
	if d.conn, d.pooled, err = reached(cfg); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.URL, err)
	}
	if err = migrate(d.conn, cfg.Schema); err != nil {
		return nil, fmt.Errorf("%s: make its tables: %w", cfg.URL, err)
	}
	if err = d.open(); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.URL, err)
	}
	return d, nil
}

// reached waits for a database that is about to start.
func reached(cfg Config) (conn *pgx.ConnConfig, pooled bool, err error) {
	until := time.Now().Add(cfg.Waits.Statement)
	for {
		conn, pooled, err = connection(cfg)
		code := codeOf(err)
		if err == nil || code != "" && !away(code) || time.Now().After(until) {
			return conn, pooled, err
		}
		time.Sleep(firstPause)
	}
}

func (d *DB) open() (err error) {
	pool, err := pgxpool.ParseConfig(d.cfg.URL.Secret())
	if err != nil {
		return err
	}
	pool.ConnConfig = d.conn.Copy()
	pool.MaxConns, pool.MinIdleConns = d.cfg.Readers, 1
	if d.pool, err = pgxpool.NewWithConfig(context.Background(), pool); err != nil {
		return err
	}
	if err = d.seed(); err == nil {
		d.owner, err = fenced.Take(&server{cfg: d.cfg, conn: d.conn, pooled: d.pooled, text: d.text}, fenced.Config{
			Lease: d.cfg.Lease, Patience: d.cfg.Waits.Patience, Leave: d.cfg.Waits.Leave, Told: d.told,
		})
	}
	if err != nil {
		d.pool.Close()
	}
	return err
}

// seed makes the row of the partition.
func (d *DB) seed() error {
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.Waits.Read)
	defer cancel()
	_, err := d.pool.Exec(ctx, d.text.seed, d.cfg.Part)
	return err
}

func (d *DB) told(what string, err error) {
	d.cfg.Logger.Warn(what, "database", d.cfg.URL.String(), "partition", d.cfg.Part, "error", err)
}

// Last is the number of the newest group.
func (d *DB) Last() uint64 { return d.owner.Last() }

// Bounds do not depend on the database.
func (d *DB) Bounds() kv.Bounds { return bounds }

// Release has nothing to let go of: PostgreSQL knows which transactions are open.
func (d *DB) Release(uint64) {}

// Owner is the protocol's side of it.
func (d *DB) Owner() Owner { return d.owner }

// Owner says how the partition is.
type Owner interface {
	// Away is why the database cannot be reached, nil: it can.
	Away() error
	// Failed is closed when nothing is stored any more, Err says why.
	Failed() <-chan struct{}
	Err() error
	// Leave has it give up sooner what it cannot find out.
	Leave()
}

// Sizes are the bytes on the database's disk of all partitions: rows and indexes.
func (d *DB) Sizes() (bytes int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.Waits.Read)
	defer cancel()
	err = d.pool.QueryRow(ctx, "SELECT pg_catalog.pg_total_relation_size($1) + pg_catalog.pg_total_relation_size($2)",
		d.cfg.Schema+".hot", d.cfg.Schema+".cold").Scan(&bytes)
	return bytes, err
}

// Close gives the partition back.
func (d *DB) Close() error {
	err := d.owner.Close()
	d.pool.Close()
	return err
}
