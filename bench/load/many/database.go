package many

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/internal/store/pg/preflight"
)

// Database is the one that is measured.
type Database struct {
	url    dsn.URL
	server preflight.Server
}

// Inspect asks a database what it is. Errors: those of the address, *[preflight.Error].
func Inspect(ctx context.Context, url dsn.URL) (*Database, error) {
	if fault := url.Fault(); fault != "" {
		return nil, errors.New("--store " + fault)
	}
	server, err := preflight.Inspect(ctx, url.Secret(), url.String(), prefix)
	if err != nil {
		return nil, err
	}
	if server.Hidden {
		return nil, fmt.Errorf("%s: whether a standby is synchronous is hidden from this user: GRANT pg_monitor to it", url)
	}
	return &Database{url: url, server: server}, nil
}

// prefix of the schemas that are made.
const prefix = "pawl_bench_"

// Fresh returns a new, unused place, and a function that drops its schema.
func (d *Database) Fresh() (*Location, func()) {
	p := &Location{URL: d.url.Secret(), Schema: prefix + strings.ToLower(rand.Text())}
	return p, func() { d.drop(p.Schema) }
}

// dropping limits the removal of a schema, which waits until no session reads it.
const dropping = time.Minute

func (d *Database) drop(schema string) {
	ctx, cancel := context.WithTimeout(context.Background(), dropping)
	defer cancel()
	conn, err := pgx.Connect(ctx, d.url.Secret())
	if err != nil {
		return // It says so itself when it is asked for the next schema.
	}
	defer conn.Close(ctx)
	_, _ = conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
}

// Synced: what is acknowledged is on a synchronous standby, too.
func (d *Database) Synced() bool { return d.server.Following > 0 && d.server.Standbys != "" }

// Sync says by name how the database makes commits durable, and what shares the machine.
func (d *Database) Sync() string {
	s := d.server
	standby := "no synchronous standby (synchronous_standby_names is empty)"
	switch {
	case s.Standbys != "" && s.Following > 0:
		standby = fmt.Sprintf("synchronous standby (synchronous_standby_names %q, %d streaming)", s.Standbys, s.Following)
	case s.Standbys != "":
		standby = fmt.Sprintf("synchronous_standby_names %q, which does not stream", s.Standbys)
	}
	where := "on this machine, whose cores servers, load and database share"
	if !d.isLocal() {
		where = "on another machine: " + d.url.String()
	}
	return fmt.Sprintf("PostgreSQL %d, fsync %s, full_page_writes %s, synchronous_commit %s, %s; %s",
		s.Version/10000, s.Fsync, s.FullPages, s.Commit, standby, where)
}

// isLocal: the database is at an address of this machine alone.
func (d *Database) isLocal() bool {
	cfg, err := pgx.ParseConfig(d.url.Secret())
	return err == nil && (cfg.Host == "localhost" || strings.HasPrefix(cfg.Host, "/") || strings.HasPrefix(cfg.Host, "127.") || cfg.Host == "::1")
}

// RoundTrips are the times of n statements that do nothing, one after the other on one
// connection that has prepared it.
func (d *Database) RoundTrips(ctx context.Context, n int) ([]time.Duration, error) {
	conn, err := pgx.Connect(ctx, d.url.Secret())
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	took := make([]time.Duration, 0, n)
	for range n {
		var one int
		begin := time.Now()
		if err := conn.QueryRow(ctx, "SELECT 1").Scan(&one); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin))
	}
	return took, nil
}
