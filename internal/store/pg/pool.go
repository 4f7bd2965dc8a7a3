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

// Pool is a reachable database, whose schema this program supports, with connections for views.
// A node opens it before it takes over a partition. Safe for concurrent use.
type Pool struct {
	url    dsn.URL
	schema string
	conn   *pgx.ConnConfig
	pooled bool
	pool   *pgxpool.Pool
	// wait bounds what is read of all partitions.
	wait time.Duration
}

// Connect waits for a database that is about to start, and makes or migrates the schema; it takes
// no partition. Of the configuration it uses what is the same for all: URL, schema, readers,
// waits. Errors: *[SchemaError], *[LivingError], what the database answers, and of a context that ends.
func Connect(ctx context.Context, cfg Config) (*Pool, error) {
	cfg = cfg.withDefaults()
	if err := cfg.reachable(); err != nil {
		return nil, err
	}
	r := &Pool{url: cfg.URL, schema: cfg.Schema, wait: cfg.Timeouts.Read}
	var err error
	if r.conn, r.pooled, err = awaitServer(ctx, cfg); err != nil {
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

// awaitServer waits for a database that is about to start.
func awaitServer(ctx context.Context, cfg Config) (conn *pgx.ConnConfig, pooled bool, err error) {
	until := time.Now().Add(cfg.Timeouts.Statement)
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
func (r *Pool) readers(cfg Config) (*pgxpool.Pool, error) {
	pool, err := pgxpool.ParseConfig(cfg.URL.Secret())
	if err != nil {
		return nil, err
	}
	pool.ConnConfig = r.conn.Copy()
	pool.MaxConns, pool.MinIdleConns = cfg.Readers, 1
	return pgxpool.NewWithConfig(context.Background(), pool)
}

// URL names the database; Schema has the tables.
func (r *Pool) URL() dsn.URL { return r.url }

// Schema has the tables.
func (r *Pool) Schema() string { return r.schema }

// Close ends the connections.
func (r *Pool) Close() { r.pool.Close() }

// current looks whether this program still works with the schema: a newer one may have changed it.
func (r *Pool) current(ctx context.Context, text statements) error {
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

// SerialConn is one connection for occasional statements, which never wait for a view. Safe for
// concurrent use: calls run one after the other.
type SerialConn struct {
	conn   *pgx.ConnConfig
	pooled bool

	mu sync.Mutex
	// session is made when it is needed; a wrong answer ends it.
	session *session
}

// SerialConn is made without a word to the database.
func (r *Pool) SerialConn() *SerialConn { return &SerialConn{conn: r.conn, pooled: r.pooled} }

// Do runs speak on the connection, or on a new one if the old one is dead. wait limits the wait
// for the connection and for the answers. A notice is no success; no statement is cancelled.
func (t *SerialConn) Do(wait time.Duration, speak func(conn *pgx.Conn) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.session != nil && t.session.conn.IsClosed() {
		t.session = nil
	}
	if t.session == nil {
		var err error
		conn := t.conn.Copy()
		conn.ConnectTimeout = min(conn.ConnectTimeout, wait)
		if t.session, err = openSession(conn, !t.pooled); err != nil {
			return err
		}
	}
	err := t.session.do(wait, func() error { return speak(t.session.conn) })
	if err != nil {
		t.close()
	}
	return err
}

// DoRetry is Do for what may be said twice: once more where there was no answer, as by a
// connection that was not used for long.
func (t *SerialConn) DoRetry(wait time.Duration, speak func(conn *pgx.Conn) error) error {
	err := t.Do(wait, speak)
	if err != nil && codeOf(err) == "" {
		err = t.Do(wait, speak)
	}
	return err
}

// Close lets the connection go.
func (t *SerialConn) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.close()
}

func (t *SerialConn) close() {
	if t.session != nil {
		t.session.close()
		t.session = nil
	}
}
