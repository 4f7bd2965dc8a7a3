package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Server describes a database server, as far as its settings concern the safety of commits.
type Server struct {
	// Version is the version of PostgreSQL, for example 150004 for 15.4.
	Version int
	// Fsync, FullPages and Commit are the settings fsync, full_page_writes and synchronous_commit.
	// Standbys is the setting synchronous_standby_names.
	Fsync, FullPages, Commit, Standbys string
	// Following is the number of synchronous standbys that are currently streaming. Hidden means that
	// the database user may not see them.
	Following int
	Hidden    bool
	// Recovering means that the server is a read-only standby.
	Recovering bool
	// Ahead is how far the server's clock is ahead of this machine's clock. It is negative if the
	// server's clock is behind.
	Ahead time.Duration
	// Schema describes the schema that the caller named.
	Schema Schema
}

// Schema describes the contents of a schema.
type Schema struct {
	// Reserved means that the name of the schema is a reserved word of SQL, which statements cannot use
	// as a name.
	Reserved bool
	// Tables is the number of all tables and views in the schema.
	Tables int
	// Versions means that the table of versions exists, which is the first table of a store. Part means
	// that the table of partitions exists. It is created together with all other tables of a store.
	Versions, Part bool
}

// foreign reports whether the schema has tables that belong to another program. The tables of a store
// whose creation was interrupted are not foreign.
func (s Schema) foreign() bool {
	return s.Tables > 0 && !(s.Versions && (s.Part || s.Tables == 1))
}

// queryTimeout limits the time of all queries. waiting limits how long the queries are repeated, with the
// given pause, while the server is starting.
const (
	queryTimeout = 10 * time.Second
	waiting      = 10 * time.Second
	pause        = 100 * time.Millisecond
)

const questions = `SELECT current_setting('server_version_num')::int, current_setting('fsync'), current_setting('full_page_writes'),
	current_setting('synchronous_commit'), current_setting('synchronous_standby_names'), pg_catalog.pg_is_in_recovery(), pg_catalog.clock_timestamp(),
	(SELECT count(*) FILTER (WHERE sync_state IN ('sync', 'quorum') AND state = 'streaming') FROM pg_catalog.pg_stat_replication),
	(SELECT count(*) > 0 AND count(state) = 0 FROM pg_catalog.pg_stat_replication),
	(SELECT count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')),
	EXISTS (SELECT 1 FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = 'schema_version' AND a.attname = 'version_id'),
	EXISTS (SELECT 1 FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = 'part' AND a.attname = 'commit_no'),
	EXISTS (SELECT 1 FROM pg_catalog.pg_get_keywords() WHERE word = $1 AND catcode IN ('R', 'T'))`

// Inspect queries a server about its settings and the schema. url contains the password. where is the same
// address without the password, for errors. Errors: *[Error].
func Inspect(ctx context.Context, url, where, schema string) (Server, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		// The error of the parser may contain the URL, which may contain a password.
		return Server{}, &Error{Reason: SchemaOpened, Where: where, Message: "one of the parameters of the URL is wrong, or a file that it names cannot be read" + fileOf(err)}
	}
	// This mode of sending queries works with every connection pooler and proxy.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = queryTimeout
	}
	until := time.Now().Add(waiting)
	for {
		s, err := inspect(ctx, cfg, schema)
		if answer, ok := errors.AsType[*pgconn.PgError](err); ok && answer.Code == "57P03" && time.Now().Before(until) && ctx.Err() == nil {
			time.Sleep(pause)
			continue
		}
		return s, Classify(where, err)
	}
}

// fileOf returns a text with the file that an error is about, or "" if the error is not about a file.
func fileOf(err error) string {
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return ": " + file.Error()
	}
	return ""
}

// inspect connects to the database and reads the settings of the server and the state of the schema.
func inspect(ctx context.Context, cfg *pgx.ConnConfig, schema string) (s Server, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return s, err
	}
	defer conn.Close(ctx)
	began := time.Now()
	var now time.Time
	err = conn.QueryRow(ctx, questions, schema).Scan(&s.Version, &s.Fsync, &s.FullPages, &s.Commit, &s.Standbys, &s.Recovering, &now, &s.Following, &s.Hidden,
		&s.Schema.Tables, &s.Schema.Versions, &s.Schema.Part, &s.Schema.Reserved)
	// The server read its clock at an unknown moment between the query and its answer. So only a time
	// outside of this interval counts as a difference of the clocks.
	switch end := time.Now(); {
	case now.After(end):
		s.Ahead = now.Sub(end)
	case now.Before(began):
		s.Ahead = -began.Sub(now)
	}
	return s, err
}

// OldestVersion is the oldest major version of PostgreSQL that is supported.
const OldestVersion = 15

// MaxAhead is the difference between the two clocks above which Judge returns a warning.
const MaxAhead = 5 * time.Second

// Requirements describes what the caller requires of the database server.
type Requirements struct {
	// Lossy means that the database may lose commits in a failover. Sync means that a synchronous
	// standby must be connected, even with Lossy.
	Lossy, Sync bool
	// Served means that a sidecar will serve the store from the database, and not only read it. Make
	// means that a new store will be created in the database.
	Served, Make bool
}

// Judge returns the warnings about a server, or an error if the server cannot be used. It judges the settings
// that can lose commits only if want.Served is set. Errors: *[Error].
func Judge(s Server, where, schema string, want Requirements) (faults []string, err error) {
	refuse := func(reason Reason, format string, args ...any) ([]string, error) {
		return nil, &Error{Reason: reason, Where: where, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case s.Version/10000 < OldestVersion:
		return refuse(TooOld, "it is PostgreSQL %d, want %d or newer", s.Version/10000, OldestVersion)
	case s.Recovering:
		return refuse(ReadOnly, "it is a standby, which may only be read: %s", remedies[ReadOnly])
	case s.Schema.Reserved:
		return refuse(SchemaReserved, "the name %q of the schema is a reserved word of SQL: name another one with --store-schema", schema)
	case s.Schema.foreign():
		return refuse(SchemaOther, "the schema %q has %d tables that are no store's: name another one with --store-schema", schema, s.Schema.Tables)
	}
	if !s.Schema.Part && !want.Served && !want.Make {
		return refuse(SchemaNone, "the schema %q has no store", schema)
	}
	if s.Ahead > MaxAhead || s.Ahead < -MaxAhead {
		faults = append(faults, fmt.Sprintf("the clock of the database is %s that of this machine: runs are stamped with this machine's, leases go by the database's", formatDifference(s.Ahead)))
	}
	if !want.Served {
		return faults, nil
	}
	if want.Sync {
		if why := s.notSynced(); why != "" {
			return refuse(NotFollowed, "%s; --require-sync wants a synchronous standby that follows", why)
		}
	}
	losses := s.losses()
	if len(losses) > 0 && !want.Lossy {
		return refuse(Lossy, "%s; set that right, or accept it with --accept-loss-on-failover", strings.Join(losses, "; "))
	}
	for _, loss := range losses {
		faults = append(faults, "accepted by --accept-loss-on-failover: "+loss)
	}
	if s.Commit == "remote_write" {
		faults = append(faults, "synchronous_commit is remote_write: what was acknowledged is lost if primary and standby lose their power at once")
	}
	return faults, nil
}

func formatDifference(d time.Duration) string {
	if d > 0 {
		return d.Round(time.Second).String() + " before"
	}
	return (-d).Round(time.Second).String() + " behind"
}

// losses describes the settings because of which the server can lose acknowledged commits.
func (s *Server) losses() (lines []string) {
	if s.Fsync != "on" {
		lines = append(lines, "fsync is "+s.Fsync+": a crash of its machine loses or damages everything")
	}
	if s.FullPages != "on" {
		lines = append(lines, "full_page_writes is "+s.FullPages+": a crash of its machine may damage everything")
	}
	switch s.Commit {
	case "on", "remote_apply", "remote_write":
		if s.Standbys == "" {
			lines = append(lines, "synchronous_standby_names is empty: a failover to a standby loses what it had not received")
		}
	default:
		lines = append(lines, "synchronous_commit is "+s.Commit+": a crash or a failover loses what was acknowledged last")
	}
	return lines
}

// notSynced returns the reason why no synchronous standby has the acknowledged commits, or why this is unknown.
// It returns "" if a standby has them.
func (s *Server) notSynced() string {
	if losses := s.losses(); len(losses) > 0 {
		return strings.Join(losses, "; ")
	}
	switch {
	case s.Commit == "remote_write":
		return "synchronous_commit is remote_write: the standby has it in memory only"
	case s.Following > 0:
		return ""
	case s.Hidden:
		return "whether a standby follows is hidden from this user: GRANT pg_monitor to it"
	}
	return "no synchronous standby streams now"
}
