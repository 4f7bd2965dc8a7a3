package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/store/pg/preflight"
)

// restoreInto restores partitions into a schema that has no store. It first restores and verifies each
// partition in a temporary directory, and then moves all of them in one transaction. If it is
// interrupted, the schema has either no store or the complete store. Tests use step, which is called
// after "restored" and then after the steps of a move.
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
	sources, report, err := restoreEach(ctx, chains, Data{Dir: scratch})
	if err != nil {
		return report, err
	}
	step("restored")
	done := MoveResult{From: chains[0].from.Dir, To: to.Location()}
	return report, done.createInDatabase(ctx, sources, to, report, func(string) {}, step)
}

// restoreEach restores each partition into a directory of its own in below.Dir, and checks it.
func restoreEach(ctx context.Context, chains []backups, below Data) (sources []source, report CheckReport, err error) {
	for _, c := range chains {
		to := source{Data: below, part: c.part}
		to.Dir = filepath.Join(below.Dir, fmt.Sprint(c.part))
		one, err := c.restore(ctx, to.Data)
		if err != nil {
			return nil, report, InPart(c.part, err)
		}
		sources, report = append(sources, to), added(report, one)
	}
	return sources, report, nil
}

// vacant returns an error if the schema has a store. It is called before the restore begins. Errors:
// [ErrUnusable].
func (d Database) vacant(ctx context.Context) error {
	parts, err := d.parts(ctx, preflight.Requirements{Make: true})
	if err == nil && len(parts) > 0 {
		err = fmt.Errorf("%w: %s has a store already: name another schema with --store-schema", ErrUnusable, d)
	}
	return err
}
