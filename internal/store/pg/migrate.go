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

// SchemaError means that a newer program has migrated the tables, and this program cannot use them.
type SchemaError struct {
	Schema string
	// Found is the newest migration of the schema. Oldest is the migration that a program must at least
	// know in order to use the schema. Want is the newest migration that this program knows.
	Found, Oldest, Want int64
}

// Error returns a text with the versions.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("schema %q has version %d, which works with programs that know version %d, and this one knows %d: it was made by a newer one",
		e.Schema, e.Found, e.Oldest, e.Want)
}

// checkUsable returns a *[SchemaError] if a program cannot use the tables. known is the newest migration that
// the program knows, and found is the newest migration of the tables. oldest is the migration that a
// program must at least know to use them.
func checkUsable(schema string, known, found, oldest int64) error {
	if found > known && oldest > known {
		return &SchemaError{Schema: schema, Found: found, Oldest: oldest, Want: known}
	}
	return nil
}

// LivingError means that an upgrade of the tables was refused because a sidecar of an older version is running, which
// perhaps could not use the upgraded tables. No migration was made.
type LivingError struct {
	Schema string
	// Version is the migration that a program must at least know after the upgrade. Address is the address of one of
	// the running sidecars.
	Version int64
	Address string
}

// Error returns a text with the address of a running sidecar.
func (e *LivingError) Error() string {
	return fmt.Sprintf("migration %d of schema %q works with no older program, and the sidecar at %s lives: stop all of them first; nothing was migrated", e.Version, e.Schema, e.Address)
}

// migrating limits the time of the creation or migration of a schema. dying limits the wait for a
// running sidecar to disappear. If its process was killed, it counts as running until its lease has
// ended.
const (
	migrating = time.Minute
	dying     = 5 * time.Second
)

// errElsewhere means that another node has made the same migration first, so that this node has nothing
// to do.
var errElsewhere = errors.New("another node has migrated meanwhile")

// migrate migrates the schema to this program's version. If a newer program has migrated the schema, it only
// checks that this program can use it. Several programs may call it at the same time. It takes no advisory
// locks, and every lock ends with its transaction.
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
		if err == nil || ctx.Err() != nil || !isRace(err) && (!living || time.Since(began) > dying) {
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

// pause waits for the duration d. It returns false if ctx ends before that.
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

// lockShort limits how long a migration waits for the lock of a table, because other statements, for
// example commits, then wait behind it. When the time has passed, the migration stops waiting and
// retries later.
const (
	firstPause = 50 * time.Millisecond
	lockPause  = time.Second
	lockShort  = "300ms"
	noLock     = "55P03"
)

// isRace reports whether the migration failed because another node used or migrated the schema at the
// same time. It is then retried.
func isRace(err error) bool {
	switch codeOf(err) {
	case "23505", "42P06", "42P07", "40001", "40P01", noLock:
		return true
	}
	return errors.Is(err, errElsewhere)
}

// migrateOnce creates the schema if it does not exist, and applies the migrations that it lacks.
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
	provider, err := providerOf(db, schema, steps)
	if err != nil {
		return err
	}
	found, want, err := provider.GetVersions(ctx)
	if err != nil {
		return err
	}
	if found < want {
		return upgrade(ctx, db, schema, steps, found)
	}
	if found == want {
		return nil
	}
	oldest := int64(0)
	if err := db.QueryRowContext(ctx, inSchema(oldestText, schema)).Scan(&oldest); err != nil {
		return err
	}
	return checkUsable(schema, want, found, oldest)
}

// upgrade makes all migrations after found, the number of the newest migration that was made. Before the first one it
// makes the checks that all of them require. So an upgrade that is refused has made no migration. If some were made,
// the running programs could perhaps not start again.
func upgrade(ctx context.Context, db *sql.DB, schema string, steps []*migration, found int64) error {
	for _, m := range steps {
		m.needs = 0
		for _, other := range steps {
			if other.version > found {
				m.needs = max(m.needs, other.oldest)
			}
		}
	}
	provider, err := providerOf(db, schema, steps)
	if err == nil {
		_, err = provider.Up(ctx)
	}
	return err
}

func providerOf(db *sql.DB, schema string, steps []*migration) (*goose.Provider, error) {
	var all []*goose.Migration
	for _, m := range steps {
		all = append(all, goose.NewGoMigration(m.version, &goose.GoFunc{RunTx: m.run}, nil))
	}
	return goose.NewProvider(goose.DialectPostgres, db, nil,
		goose.WithTableName(versionsOf(schema)), goose.WithGoMigrations(all...), goose.WithDisableGlobalRegistry(true))
}

func versionsOf(schema string) string { return schema + ".schema_version" }

// stepsOf returns the migrations in the order of their numbers. The name of each file begins with the
// number of its migration.
func stepsOf(files fs.FS, schema string) ([]*migration, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var steps []*migration
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		m := &migration{schema: schema, text: strings.ReplaceAll(string(text), "{schema}", schema)}
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		if m.version, err = strconv.ParseInt(number, 10, 64); err != nil {
			return nil, err
		}
		if _, err := fmt.Sscanf(m.text, "-- oldest: %d\n", &m.oldest); err != nil {
			return nil, fmt.Errorf("%s does not begin with the oldest program that works with it: %w", name, err)
		}
		steps = append(steps, m)
	}
	return steps, nil
}

// migration is one migration of the schema.
type migration struct {
	schema, text string
	// version is the number of the migration. oldest is the migration that a program must at least know
	// in order to use the tables after this one. It is lower than version if the migration only adds
	// something.
	version, oldest int64
	// needs is the largest value of oldest in all migrations of the upgrade.
	needs int64
}

// programsMigration is the number of the migration that created the table in which the database records which programs
// can use its schema. Migration 2 created the table of nodes, and migration 1 all other tables.
const programsMigration = 3

// run executes the migration. It first locks the table of versions and checks that the migration is
// still missing.
func (m *migration) run(ctx context.Context, tx *sql.Tx) error {
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
	if err := m.checkLivePrograms(ctx, tx); err != nil {
		return err
	}
	if _, err = tx.ExecContext(ctx, m.text); err != nil || m.version <= programsMigration {
		return err
	}
	_, err = tx.ExecContext(ctx, inSchema(raiseOldestText, m.schema), m.oldest)
	return err
}

const raiseOldestText = `UPDATE {s}.schema_oldest SET version = greatest(version, $1)`

// livingText returns the text of a query for the address of a running sidecar that may not know the migration $1. It
// ignores a lease that is longer than the maximum. Such a lease was written before the clock was set back, and a
// running owner corrects it within a second. Before one of the first three migrations, a table that the query needs
// does not exist yet. Then every running program is older than the migration.
func (m *migration) livingText() string {
	leases, known := "SELECT address, lease_until FROM {s}.part", "$1::bigint - 1"
	if m.version >= programsMigration {
		leases += " UNION ALL SELECT address, lease_until FROM {s}.node"
	}
	if m.version > programsMigration {
		known = "(SELECT max(version) FROM {s}.schema_oldest)"
	}
	return inSchema(`SELECT coalesce(max(address), '') FROM (`+leases+`) AS living
	WHERE lease_until > clock_timestamp() AND lease_until < clock_timestamp() + interval '1 minute' AND `+known+` < $1::bigint`, m.schema)
}

// checkLivePrograms returns a *[LivingError] if a sidecar is running that could perhaps not use the schema after
// the upgrade.
func (m *migration) checkLivePrograms(ctx context.Context, tx *sql.Tx) error {
	if m.version == 1 {
		return nil
	}
	address := ""
	err := tx.QueryRowContext(ctx, m.livingText(), m.needs).Scan(&address)
	if err == nil && address != "" {
		err = &LivingError{Schema: m.schema, Version: m.needs, Address: address}
	}
	return err
}
