package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/secretfile"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/fencing"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/internal/store/pg/preflight"
	"github.com/pawl-dev/pawl/internal/store/pgengine"
)

// Database is the location of a store in a PostgreSQL database.
type Database struct {
	URL dsn.URL
	// PasswordFile is the file with the password. If it is "", the URL or the environment of libpq
	// contains the password.
	PasswordFile string
	// Schema is the schema of the tables.
	Schema string
	// Part is the number of a partition. Only means that a command uses only this partition and not the
	// whole store.
	Part int32
	Only bool
}

// DatabaseError is the reason why a database cannot be used.
type DatabaseError = preflight.Error

// String returns the location without the password.
func (d Database) String() string {
	name := d.URL.String()
	if !d.URL.IsZero() && d.Schema != config.Default().StoreSchema {
		name += " (schema " + d.Schema + ")"
	}
	if d.Part != 0 || d.Only {
		name += fmt.Sprintf(" (partition %d)", d.Part)
	}
	return name
}

// part returns the location of another partition of the same store.
func (d Database) part(part int32) Database {
	d.Part = part
	return d
}

// reachable returns the URL of the database with its password, which it may read from the password
// file. It returns an error if the URL, the schema or the password file is invalid.
func (d Database) reachable() (dsn.URL, error) {
	if fault := d.URL.Fault(); fault != "" {
		return d.URL, fmt.Errorf("--store %s", fault)
	}
	if fault := config.SchemaFault(d.Schema); fault != "" {
		return d.URL, fmt.Errorf("--store-schema %q %s", d.Schema, fault)
	}
	if d.PasswordFile == "" {
		return d.URL, nil
	}
	password, err := secretfile.Read(d.PasswordFile)
	if err != nil {
		return d.URL, err
	}
	line := strings.TrimRight(string(password), "\r\n")
	if line == "" || strings.ContainsAny(line, "\r\n") {
		return d.URL, fmt.Errorf("%s has no password: want one line", d.PasswordFile)
	}
	return d.URL.WithPassword(line), nil
}

// options returns the options with which a command opens a store. Its errors wrap [ErrUnusable].
func (d Database) options() (store.Options, error) {
	url, err := d.reachable()
	if err != nil {
		return store.Options{}, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return store.Options{Dir: d.String(), Engine: d.engine(url, preflight.Requirements{}, addressOf(config.Config{})), MarkInterval: unmarked}, nil
}

// standaloneStore is a store in a database that a single sidecar serves.
type standaloneStore struct {
	location Database
	// opened is nil until the store is open.
	opened *pgengine.Database
}

// openStandalone returns the options of a store that only this sidecar serves, without a cluster.
func (d Database) openStandalone(c config.Config, log *slog.Logger) (store.Options, *standaloneStore, error) {
	url, err := d.secured(c, log)
	if err != nil {
		return store.Options{}, nil, err
	}
	a := &standaloneStore{location: d}
	return store.Options{Dir: d.String(), Logger: log, UsageLabels: c.UsageLabels, Engine: func(o store.Options) (_ engine.Engine, err error) {
		if a.opened, err = d.open(context.Background(), url, wantedOf(c), addressOf(c), o.Logger); err != nil {
			return nil, err
		}
		if err = a.checkUnpartitioned(context.Background()); err != nil {
			return nil, errors.Join(err, a.opened.Close())
		}
		return a.opened, nil
	}}, a, nil
}

// checkUnpartitioned returns an error if the store has partitions other than this one. It is called
// when the store is open, and again when all namespaces have their numbers. After the second call,
// nodes of a cluster that start later place these namespaces in this partition. For a nil receiver it
// does nothing.
func (a *standaloneStore) checkUnpartitioned(ctx context.Context) error {
	if a == nil {
		return nil
	}
	parts, err := a.opened.SharedPartitions(ctx)
	if err != nil {
		return a.location.userError(err)
	}
	if len(parts) > 0 {
		return &preflight.Error{Reason: preflight.SchemaShared, Where: a.location.URL.String(), Message: fmt.Sprintf(
			"the namespaces in the schema %q are in %d partitions, of which a sidecar alone serves one: serve it with --peer-listen", a.location.Schema, len(parts)+1)}
	}
	return nil
}

// wantedOf returns what a sidecar with this configuration requires of the database server.
func wantedOf(c config.Config) preflight.Requirements {
	return preflight.Requirements{Served: true, Lossy: c.AcceptLossOnFailover, Sync: c.RequireSync}
}

// secured returns the URL of the database with its password. It logs a warning if the connection may be
// unencrypted, or if spans may be lost because there is no data directory.
func (d Database) secured(c config.Config, log *slog.Logger) (dsn.URL, error) {
	url, err := d.reachable()
	if err != nil {
		return url, err
	}
	if hosts := url.Open(os.Getenv("PGSSLMODE")); len(hosts) > 0 {
		log.Warn("database connection not encrypted or not verified, set sslmode=verify-full in the URL", "hosts", hosts)
	}
	if c.OTLPEndpoint != "" {
		log.Warn("trace export position not kept without a data directory, spans of the last seconds before a crash may be lost")
	}
	return url, nil
}

// databaseOf returns the database of a configuration.
func databaseOf(c config.Config) Database {
	return Database{URL: c.Store, PasswordFile: c.StorePasswordFile, Schema: c.StoreSchema}
}

// addressOf returns a text that names this process. If a second sidecar finds the store in use, its
// error contains this text.
func addressOf(c config.Config) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	_, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		port = "0"
	}
	return fmt.Sprintf("%s (port %s, process %d)", host, port, os.Getpid())
}

// engine returns the function with which a store opens this database as its storage engine.
func (d Database) engine(url dsn.URL, want preflight.Requirements, address string) func(store.Options) (engine.Engine, error) {
	return func(o store.Options) (engine.Engine, error) {
		e, err := d.open(context.Background(), url, want, address, o.Logger)
		if err != nil {
			return nil, err
		}
		return e, nil
	}
}

// open checks the database server and opens the partition as the storage engine of a store. Errors:
// *[DatabaseError].
func (d Database) open(ctx context.Context, url dsn.URL, want preflight.Requirements, address string, log *slog.Logger) (*pgengine.Database, error) {
	if err := d.checkDurability(ctx, url, want, log); err != nil {
		return nil, err
	}
	where := d.URL.String()
	e, err := pgengine.Open(pgengine.Config{URL: url, Schema: d.Schema, Part: d.Part, Address: address, Raise: want.Served || want.Make, Logger: log.With("partition", d.Part)})
	if err != nil {
		return nil, d.explained(ctx, url, err)
	}
	if e.LastKey() == 0 && !want.Served && !want.Make {
		none := &preflight.Error{Reason: preflight.SchemaNone, Where: where, Message: fmt.Sprintf("the schema %q has no store", d.Schema)}
		return nil, errors.Join(none, e.Close())
	}
	return e, nil
}

// checkDurability checks whether the database server may lose committed data because of its settings. It logs
// warnings. Errors: *[DatabaseError].
func (d Database) checkDurability(ctx context.Context, url dsn.URL, want preflight.Requirements, log *slog.Logger) error {
	location := d.URL.String()
	server, err := preflight.Inspect(ctx, url.Secret(), location, d.Schema)
	if err != nil {
		return err
	}
	told, err := preflight.Judge(server, location, d.Schema, want)
	if err != nil {
		return err
	}
	for _, line := range told {
		log.Warn("database not safe", "warning", line, "database", location)
	}
	return nil
}

// explained does the same as userError. If the error is that the database did not answer in time, it looks for the
// reason in the database: a standby that is missing, or a session that holds a lock.
func (d Database) explained(ctx context.Context, url dsn.URL, err error) error {
	known := d.userError(err)
	if hindrance := d.hindrance(ctx, url, err, known); hindrance != nil {
		return hindrance
	}
	return known
}

// hindrance returns why the database does not answer in time, see [preflight.FindHindrance], or nil. err is the error of the
// database, and known is the same error as the result wraps it.
func (d Database) hindrance(ctx context.Context, url dsn.URL, err, known error) error {
	if !preflight.IsLate(err) {
		return nil
	}
	if found := preflight.FindHindrance(ctx, url.Secret(), d.URL.String(), d.Schema, known); found != nil {
		return found
	}
	return nil
}

// userError converts an error of the storage engine to an error with a reason and the next step for the
// operator.
func (d Database) userError(err error) error {
	location := d.URL.String()
	if held, ok := errors.AsType[*fencing.HeldError](err); ok {
		return &preflight.Error{Reason: preflight.SchemaOwned, Where: location, Err: err, Message: fmt.Sprintf(
			"the schema %q is served by the sidecar at %s, which renews its lease (until %s now): stop that one, or name another schema with --store-schema",
			d.Schema, held.Address, held.Until.UTC().Format(time.RFC3339))}
	}
	if newer, ok := errors.AsType[*pg.SchemaError](err); ok {
		return &preflight.Error{Reason: preflight.SchemaNewer, Where: location, Err: err, Message: newer.Error() + ": use that program"}
	}
	if living, ok := errors.AsType[*pg.LivingError](err); ok {
		return &preflight.Error{Reason: preflight.SchemaLiving, Where: location, Err: err, Message: living.Error()}
	}
	if format, ok := errors.AsType[*pg.FormatError](err); ok {
		reason := preflight.FormatNewer
		if format.Older() {
			reason = preflight.FormatOlder
		}
		return &preflight.Error{Reason: reason, Where: location, Err: err, Message: format.Error()}
	}
	return preflight.Classify(location, err)
}
