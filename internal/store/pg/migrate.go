package pg

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// SchemaError means that a newer program made the tables, and this program cannot use them.
type SchemaError struct {
	Schema string
	// Found is the newest migration, Oldest the one that a program has to know, Want the newest that
	// this one knows.
	Found, Oldest, Want int64
}

// Error names the versions.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("schema %q has version %d, which works with programs that know version %d, and this one knows %d: it was made by a newer one",
		e.Schema, e.Found, e.Oldest, e.Want)
}

// works says whether a program works with tables that have newer migrations than it knows.
func works(schema string, known, found, oldest int64) error {
	if found > known && oldest > known {
		return &SchemaError{Schema: schema, Found: found, Oldest: oldest, Want: known}
	}
	return nil
}

// LivingError means that a migration would break older programs, and sidecars are alive that
// may be older.
type LivingError struct {
	Schema string
	// Version of the migration; Address is where one of them is.
	Version int64
	Address string
}

// Error names one of them.
func (e *LivingError) Error() string {
	return fmt.Sprintf("migration %d of schema %q works with no older program, and the sidecar at %s lives: stop all of them first", e.Version, e.Schema, e.Address)
}

// Time limits for the creation of a schema: for all of it, and for the wait for a live sidecar,
// whose lease may be that of a killed process.
const (
	migrating = time.Minute
	dying     = 5 * time.Second
)

// errElsewhere: another node was quicker.
var errElsewhere = errors.New("another node has migrated meanwhile")

// migrate brings the schema to this program's version. Several programs may call it at once. No
// lock outlives its transaction, and none is an advisory lock.
func migrate(ctx context.Context, cfg *pgx.ConnConfig, files fs.FS, schema string) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, migrating)
	defer cancel()
	cfg = cfg.Copy()
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	for {
		err := migrateOnce(ctx, db, files, schema)
		_, living := errors.AsType[*LivingError](err)
		if err == nil || ctx.Err() != nil || !raced(err) && (!living || time.Since(began) > dying) {
			return err
		}
		wait := firstPause
		if codeOf(err) == noLock {
			wait = lockPause
		}
		if !pause(ctx, wait) {
			return errors.Join(err, ctx.Err())
		}
	}
}

// pause is false when the context ends before it is over.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A migration waits no longer than this for a table, because later statements queue behind it:
// a commit of an owner would wait behind a long read. After the limit the migration retries
// later.
const (
	firstPause = 50 * time.Millisecond
	lockPause  = time.Second
	lockShort  = "300ms"
	noLock     = "55P03"
)

// raced: what two nodes get that make the same thing at once.
func raced(err error) bool {
	switch codeOf(err) {
	case "23505", "42P06", "42P07", "40001", "40P01", noLock:
		return true
	}
	return errors.Is(err, errElsewhere)
}

func migrateOnce(ctx context.Context, db *sql.DB, files fs.FS, schema string) error {
	var there bool
	err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1)", schema).Scan(&there)
	if err == nil && !there {
		_, err = db.ExecContext(ctx, "CREATE SCHEMA "+schema)
	}
	if err != nil {
		return err
	}
	steps, err := stepsOf(files, schema)
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, nil,
		goose.WithTableName(versionsOf(schema)), goose.WithGoMigrations(steps...), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	found, want, err := provider.GetVersions(ctx)
	if err != nil {
		return err
	}
	if found < want {
		_, err = provider.Up(ctx)
		return err
	}
	if found == want {
		return nil
	}
	oldest := int64(0)
	if err := db.QueryRowContext(ctx, inSchema(oldestText, schema)).Scan(&oldest); err != nil {
		return err
	}
	return works(schema, want, found, oldest)
}

func versionsOf(schema string) string { return schema + ".schema_version" }

// stepsOf are the migrations in the order of their numbers, which their names begin with.
func stepsOf(files fs.FS, schema string) ([]*goose.Migration, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var steps []*goose.Migration
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		m := migration{schema: schema, text: strings.ReplaceAll(string(text), "{schema}", schema)}
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		if m.version, err = strconv.ParseInt(number, 10, 64); err != nil {
			return nil, err
		}
		if _, err := fmt.Sscanf(m.text, "-- oldest: %d\n", &m.oldest); err != nil {
			return nil, fmt.Errorf("%s does not begin with the oldest program that works with it: %w", name, err)
		}
		steps = append(steps, goose.NewGoMigration(m.version, &goose.GoFunc{RunTx: m.run}, nil))
	}
	return steps, nil
}

// migration is one of them.
type migration struct {
	schema, text string
	// version is its number, oldest that of the newest migration which a program has to know that
	// works with what this one leaves: its own number, unless it only adds.
	version, oldest int64
}

// remembered is the migration from which on the database has the oldest program that works with it.
const remembered = 3

// run has the table of versions to itself, and looks into it before it changes anything.
func (m migration) run(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = '"+lockShort+"'"); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "LOCK TABLE "+versionsOf(m.schema)+" IN EXCLUSIVE MODE"); err != nil {
		return err
	}
	var done bool
	err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+versionsOf(m.schema)+" WHERE version_id = $1)", m.version).Scan(&done)
	if err != nil {
		return err
	}
	if done {
		return errElsewhere
	}
	if err := m.outdates(ctx, tx); err != nil {
		return err
	}
	if _, err = tx.ExecContext(ctx, m.text); err != nil || m.version <= remembered {
		return err
	}
	_, err = tx.ExecContext(ctx, inSchema(raiseOldestText, m.schema), m.oldest)
	return err
}

const raiseOldestText = `UPDATE {s}.schema_oldest SET version = greatest(version, $1)`

// A lease that is longer than the maximum was written before the clock was set back. A live
// owner corrects it within a second.
const livingText = `SELECT coalesce(max(address), '') FROM (
	SELECT address, lease_until FROM {s}.node UNION ALL SELECT address, lease_until FROM {s}.part) AS living
	WHERE lease_until > clock_timestamp() AND lease_until < clock_timestamp() + interval '1 minute'
	AND (SELECT max(version) FROM {s}.schema_oldest) < $1`

// outdates refuses to take the tables away from sidecars that live.
func (m migration) outdates(ctx context.Context, tx *sql.Tx) error {
	if m.version <= remembered {
		return nil
	}
	address := ""
	err := tx.QueryRowContext(ctx, inSchema(livingText, m.schema), m.oldest).Scan(&address)
	if err == nil && address != "" {
		err = &LivingError{Schema: m.schema, Version: m.version, Address: address}
	}
	return err
}
