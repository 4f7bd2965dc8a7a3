package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/store/pg/preflight"
)

// restoreInto restores each partition into a temporary directory, verifies it there, and then moves all
// partitions into a schema that has no store. If it is interrupted, the schema has either no store or
// the complete store. step is called for tests, after "restored" and then after the steps of a move.
func restoreInto(ctx context.Context, chains []backups, to Data, step func(string)) (report CheckReport, err error) {
	if to.KeyFile != "" {
		return report, fmt.Errorf("%w: --encryption-key-file is of a directory: a database has everything in the clear", ErrUnusable)
	}
	if err := to.Database.vacant(ctx); err != nil {
		return report, err
	}
	scratch, err := os.MkdirTemp("", "pawl-restore-*")
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	made := make([]source, len(chains))
	for i, c := range chains {
		made[i] = source{Data: Data{Dir: filepath.Join(scratch, fmt.Sprint(c.part))}, part: c.part}
		one, err := c.restore(ctx, made[i].Data)
		if err != nil {
			return report, InPart(c.part, err)
		}
		report = added(report, one)
	}
	step("restored")
	done := Moved{From: chains[0].from.Dir, To: to.Where()}
	return report, done.into(ctx, made, to, report, func(string) {}, step)
}

// vacant returns an error if the schema has a store. It is called before the restore begins. Errors:
// [ErrUnusable].
func (d Database) vacant(ctx context.Context) error {
	parts, err := d.parts(ctx, preflight.Wanted{Make: true})
	if err == nil && len(parts) > 0 {
		err = fmt.Errorf("%w: %s has a store already: name another schema with --store-schema", ErrUnusable, d)
	}
	return err
}
