package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// Reached is a database that answers, whose schema this program works with, with connections
// for views. Whoever may have to open a partition soon has it beforehand. Safe for concurrent use.
type Reached struct {
	url    dsn.URL
	schema string
	conn   *pgx.ConnConfig
	pooled bool
	pool   *pgxpool.Pool
	// wait bounds what is read of all partitions.
	wait time.Duration
}

// Reach waits for a database that is about to start, and makes or migrates the schema; it takes
// no partition. Of the configuration it uses what is the same for all: URL, schema, readers,
// waits. Errors: *[SchemaError], *[LivingError], what the database answers, and of a context that ends.
func Reach(ctx context.Context, cfg Config) (*Reached, error) {
	cfg = cfg.withDefaults()
	if err := cfg.reachable(); err != nil {
		return nil, err
	}
	r := &Reached{url: cfg.URL, schema: cfg.Schema, wait: cfg.Waits.Read}
	var err error
	if r.conn, r.pooled, err = reached(ctx, cfg); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.URL, err)
	}
	if err = migrate(ctx, r.conn, migrations, cfg.Schema); err != nil {
		return nil, fmt.Errorf("%s: make its tables: %w", cfg.URL, err)
	}
	if r.pool, err = r.readers(cfg); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.URL, err)
	}
	return r, nil
}

// reached waits for a database that is about to start.
func reached(ctx context.Context, cfg Config) (conn *pgx.ConnConfig, pooled bool, err error) {
	until := time.Now().Add(cfg.Waits.Statement)
	for {
		conn, pooled, err = connection(cfg)
		code := codeOf(err)
		if err == nil || code != "" && !away(code) || time.Now().After(until) {
			return conn, pooled, err
		}
		if !pause(ctx, firstPause) {
			return nil, false, errors.Join(err, ctx.Err())
		}
	}
}

// readers is the pool of views.
func (r *Reached) readers(cfg Config) (*pgxpool.Pool, error) {
	pool, err := pgxpool.ParseConfig(cfg.URL.Secret())
	if err != nil {
		return nil, err
	}
	pool.ConnConfig = r.conn.Copy()
	pool.MaxConns, pool.MinIdleConns = cfg.Readers, 1
	return pgxpool.NewWithConfig(context.Background(), pool)
}

// URL names the database; Schema has the tables.
func (r *Reached) URL() dsn.URL { return r.url }

// Schema has the tables.
func (r *Reached) Schema() string { return r.schema }

// Close ends the connections.
func (r *Reached) Close() { r.pool.Close() }

// current looks whether this program still works with the schema: a newer one may have changed it.
func (r *Reached) current(ctx context.Context, text statements) error {
	steps, err := stepsOf(migrations, r.schema)
	if err != nil {
		return err
	}
	known, found := steps[len(steps)-1].Version, int64(0)
	if err := r.pool.QueryRow(ctx, text.version).Scan(&found); err != nil || found <= known {
		return err
	}
	oldest := int64(0)
	if err := r.pool.QueryRow(ctx, text.oldest).Scan(&oldest); err != nil {
		return err
	}
	return works(r.schema, known, found, oldest)
}

// Talk is one connection, for whoever says something now and then and waits for no view.
// Safe for concurrent use: one speaks after the other.
type Talk struct {
	conn   *pgx.ConnConfig
	pooled bool

	mu sync.Mutex
	// line is made when it is needed; a wrong answer ends it.
	line *line
}

// Talk is made without a word to the database.
func (r *Reached) Talk() *Talk { return &Talk{conn: r.conn, pooled: r.pooled} }

// Do speaks to the database, to another connection if the one that there was is dead. It waits
// so long for that, and for the answers. A notice is no success; nothing is cancelled.
func (t *Talk) Do(wait time.Duration, speak func(conn *pgx.Conn) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.line != nil && t.line.conn.IsClosed() {
		t.line = nil
	}
	if t.line == nil {
		var err error
		conn := t.conn.Copy()
		conn.ConnectTimeout = min(conn.ConnectTimeout, wait)
		if t.line, err = lineTo(conn, !t.pooled); err != nil {
			return err
		}
	}
	err := t.line.do(wait, func() error { return speak(t.line.conn) })
	if err != nil {
		t.cut()
	}
	return err
}

// Again is Do for what may be said twice: once more where there was no answer, as by a
// connection that was not used for long.
func (t *Talk) Again(wait time.Duration, speak func(conn *pgx.Conn) error) error {
	err := t.Do(wait, speak)
	if err != nil && codeOf(err) == "" {
		err = t.Do(wait, speak)
	}
	return err
}

// Close lets the connection go.
func (t *Talk) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cut()
}

func (t *Talk) cut() {
	if t.line != nil {
		t.line.cut()
		t.line = nil
	}
}
