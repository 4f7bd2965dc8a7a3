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

// Pool is a pool of connections to a database whose schema this program supports. Views use its
// connections. A node opens it before it takes over a partition. Safe for concurrent use.
type Pool struct {
	url    dsn.URL
	schema string
	conn   *pgx.ConnConfig
	pooled bool
	pool   *pgxpool.Pool
	// wait limits the time of a read that concerns all partitions.
	wait time.Duration
}

// Connect connects to a database and creates or migrates the schema. If the database is starting,
// Connect waits for it. It acquires no partition. It uses only the fields of cfg that are the same for
// all partitions: URL, Schema, Readers and Timeouts. Errors: *[SchemaError], *[LivingError], the errors
// of the database, and the error of ctx.
func Connect(ctx context.Context, cfg Config) (*Pool, error) {
	cfg = cfg.withDefaults()
	if err := cfg.checkAddress(); err != nil {
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

// awaitServer returns the configuration of connections to a database, see connection, which connects once to
// examine the server. If the database is starting or unavailable, it retries for up to Timeouts.Statement.
func awaitServer(ctx context.Context, cfg Config) (conn *pgx.ConnConfig, pooled bool, err error) {
	until := time.Now().Add(cfg.Timeouts.Statement)
	for {
		conn, pooled, err = connection(cfg)
		code := codeOf(err)
		if err == nil || code != "" && !isUnavailable(code) || time.Now().After(until) {
			return conn, pooled, err
		}
		if !pause(ctx, firstPause) {
			return nil, false, errors.Join(err, ctx.Err())
		}
	}
}

// readers returns the connection pool for views.
func (r *Pool) readers(cfg Config) (*pgxpool.Pool, error) {
	pool, err := pgxpool.ParseConfig(cfg.URL.Secret())
	if err != nil {
		return nil, err
	}
	pool.ConnConfig = r.conn.Copy()
	pool.MaxConns, pool.MinIdleConns = cfg.Readers, 1
	return pgxpool.NewWithConfig(context.Background(), pool)
}

// URL returns the URL of the database. When it is printed, the password is hidden.
func (r *Pool) URL() dsn.URL { return r.url }

// Schema returns the name of the schema that contains the tables.
func (r *Pool) Schema() string { return r.schema }

// Close closes the connections.
func (r *Pool) Close() { r.pool.Close() }

// checkSchemaUsable returns an error if a newer program has migrated the schema in such a way that this program
// cannot use it.
func (r *Pool) checkSchemaUsable(ctx context.Context, text statements) error {
	steps, err := stepsOf(migrations, r.schema)
	if err != nil {
		return err
	}
	known, found := steps[len(steps)-1].version, int64(0)
	if err := r.pool.QueryRow(ctx, text.version).Scan(&found); err != nil || found <= known {
		return err
	}
	oldest := int64(0)
	if err := r.pool.QueryRow(ctx, text.oldest).Scan(&oldest); err != nil {
		return err
	}
	return checkUsable(r.schema, known, found, oldest)
}

// SerialConn is one connection for occasional statements, which then never wait for a view. Safe for
// concurrent use: calls run one after the other.
type SerialConn struct {
	conn   *pgx.ConnConfig
	pooled bool

	mu sync.Mutex
	// session is opened when it is first needed. An error of a call closes it.
	session *session
}

// SerialConn returns a connection that is opened when it is first used.
func (r *Pool) SerialConn() *SerialConn { return &SerialConn{conn: r.conn, pooled: r.pooled} }

// Do calls speak with the connection. If the connection is broken, Do first opens a new one. wait
// limits the time to open the connection and to get the answers. An answer with a notice is an error.
// Do never cancels a statement.
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

// DoRetry calls Do, for statements that may run twice. If the error is not an answer of the server, for example
// because the connection was unused for a long time, it calls Do once more.
func (t *SerialConn) DoRetry(wait time.Duration, speak func(conn *pgx.Conn) error) error {
	err := t.Do(wait, speak)
	if err != nil && codeOf(err) == "" {
		err = t.Do(wait, speak)
	}
	return err
}

// Close closes the connection.
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
