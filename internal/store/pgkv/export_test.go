package pgkv

import (
	"time"

	"github.com/jackc/pgx/v5"
)

// Says connects as commits do, says a statement and cuts the connection where it takes longer.
func Says(cfg *pgx.ConnConfig, wait time.Duration, speak func(*pgx.Conn) error) error {
	l, err := lineTo(cfg, false)
	if err != nil {
		return err
	}
	defer l.cut()
	return l.do(wait, func() error { return speak(l.conn) })
}

// CommitTexts are the statements of a commit for a schema.
func CommitTexts(schema string) []string {
	texts := statementsOf(schema)
	return append(texts.commit[:], texts.over[:]...)
}
