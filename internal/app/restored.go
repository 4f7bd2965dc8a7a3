package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// restoreInto makes the store in a directory that goes again, where it is proven, and moves it into
// a schema that has none. Broken off at any moment there is none in the schema, or all of it. step
// is called, for tests, after "restored", and after those of a move.
func restoreInto(ctx context.Context, from RestoreFrom, chain backups, to Data, step func(string)) (report CheckReport, err error) {
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
	made := Data{Dir: filepath.Join(scratch, "store")}
	if _, err := chain.restore(ctx, from, made); err != nil {
		return report, err
	}
	step("restored")
	done, err := moved(ctx, made, to, func(string) {}, step)
	return done.Report, err
}

// vacant refuses a schema that has a store, before there is anything to do. Errors: [ErrUnusable].
func (d Database) vacant(ctx context.Context) error {
	url, err := d.reachable()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	e, err := d.make(ctx, url)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if e.Last() != 0 {
		err = fmt.Errorf("%w: %s has a store already: name another schema with --store-schema", ErrUnusable, d)
	}
	return errors.Join(err, e.Close())
}
