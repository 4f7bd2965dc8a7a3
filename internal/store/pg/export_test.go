package pg

import (
	"context"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
)

// ExecOn connects as commits do, says a statement and cuts the connection where it takes longer.
func ExecOn(cfg *pgx.ConnConfig, wait time.Duration, speak func(*pgx.Conn) error) error {
	l, err := openSession(cfg, false)
	if err != nil {
		return err
	}
	defer l.close()
	return l.do(wait, func() error { return speak(l.conn) })
}

// CommitTexts are the statements of a commit for a schema.
func CommitTexts(schema string) []string {
	texts := statementsOf(schema)
	return append(texts.commit[:], texts.commitOverwrite[:]...)
}

// Migrations are those of this program.
var Migrations fs.FS = migrations

// MigrateWith makes or migrates a schema as a program does that has these migrations.
func MigrateWith(cfg Config, files fs.FS) error {
	cfg = cfg.withDefaults()
	conn, _, err := connection(cfg)
	if err != nil {
		return err
	}
	return migrate(context.Background(), conn, files, cfg.Schema)
}

// BlameText is the statement that ends the session which has a partition's row locked.
func BlameText(schema string) string { return statementsOf(schema).terminateBlocker }

// KeysWriteText is the statement that writes pages of run keys.
func KeysWriteText(schema string) string { return statementsOf(schema).keysWrite }
