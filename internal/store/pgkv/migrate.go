package pgkv

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

// SchemaError: the tables were made by a newer program.
type SchemaError struct {
	Schema      string
	Found, Want int64
}

// Error names both versions.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("schema %q has version %d, this program knows %d: it was made by a newer one", e.Schema, e.Found, e.Want)
}

// migrating bounds the making of a schema.
const migrating = time.Minute

// errElsewhere: another node was quicker.
var errElsewhere = errors.New("another node has migrated meanwhile")

// migrate makes the schema what this program wants, whoever else does so at once. No lock
// outlives its transaction, and none is an advisory one.
func migrate(cfg *pgx.ConnConfig, schema string) error {
	ctx, cancel := context.WithTimeout(context.Background(), migrating)
	defer cancel()
	cfg = cfg.Copy()
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	for {
		err := migrateOnce(ctx, db, schema)
		if err == nil || !raced(err) || ctx.Err() != nil {
			return err
		}
		time.Sleep(firstPause)
	}
}

const firstPause = 50 * time.Millisecond

// raced: what two nodes get that make the same thing at once.
func raced(err error) bool {
	switch codeOf(err) {
	case "23505", "42P06", "42P07", "40001", "40P01":
		return true
	}
	return errors.Is(err, errElsewhere)
}

func migrateOnce(ctx context.Context, db *sql.DB, schema string) error {
	var there bool
	err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1)", schema).Scan(&there)
	if err == nil && !there {
		_, err = db.ExecContext(ctx, "CREATE SCHEMA "+schema)
	}
	if err != nil {
		return err
	}
	steps, err := stepsOf(schema)
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
	if found > want {
		return &SchemaError{Schema: schema, Found: found, Want: want}
	}
	if found == want {
		return nil
	}
	_, err = provider.Up(ctx)
	return err
}

func versionsOf(schema string) string { return schema + ".schema_version" }

// stepsOf are the migrations in the order of their numbers, which their names begin with.
func stepsOf(schema string) ([]*goose.Migration, error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var steps []*goose.Migration
	for _, name := range files {
		text, err := migrations.ReadFile(name)
		if err != nil {
			return nil, err
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, err
		}
		run := step(schema, version, strings.ReplaceAll(string(text), "{schema}", schema))
		steps = append(steps, goose.NewGoMigration(version, &goose.GoFunc{RunTx: run}, nil))
	}
	return steps, nil
}

// step is one migration: it has the table of versions to itself, and looks into it before it
// changes anything.
func step(schema string, version int64, text string) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "LOCK TABLE "+versionsOf(schema)+" IN EXCLUSIVE MODE"); err != nil {
			return err
		}
		var done bool
		err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+versionsOf(schema)+" WHERE version_id = $1)", version).Scan(&done)
		if err != nil {
			return err
		}
		if done {
			return errElsewhere
		}
		_, err = tx.ExecContext(ctx, text)
		return err
	}
}
