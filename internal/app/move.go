package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/pgurl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/assure"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/database"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/move"
	"github.com/pawl-dev/pawl/internal/store/pgkv"
)

// Moved says what became of a store that went from a directory into a database or back.
type Moved struct {
	// From and To name both places. The first one is as it was.
	From, To string
	// Report is what was proven of the second one, and is what was proven of the first.
	Report CheckReport
	// Before: it was there already, as it is in the first place.
	Before bool
}

// Move makes the same store in another place: from a directory in a database, or from a
// database in a directory. Both are checked, and their pairs compared. Nobody has either open;
// broken off at any moment there is none in the second place, or all of it. told is called with
// what is begun. Errors: [ErrUnusable], a *[CheckFault].
func Move(ctx context.Context, from, to Data, told func(what string)) (done Moved, err error) {
	return moved(ctx, from, to, told, func(string) {})
}

// moved calls step, for tests, after each step: "checked", then "filled", "loaded" and "compared"
// of a database, those of [store.MoveIn] of a directory.
func moved(ctx context.Context, from, to Data, told, step func(string)) (done Moved, err error) {
	done.From, done.To = from.Where(), to.Where()
	if (from.Dir == "") == (to.Dir == "") {
		return done, fmt.Errorf("%w: a move goes from a directory into a database, or from a database into a directory", ErrUnusable)
	}
	told("check " + done.From)
	before, err := Check(ctx, from)
	if err != nil {
		return done, err
	}
	step("checked")
	opts, err := from.options()
	if err != nil {
		return done, err
	}
	told("copy into " + done.To)
	err = store.MoveOut(opts, func(source engine.Engine) error {
		if to.Dir == "" {
			return done.intoDatabase(ctx, source, to.Database, step)
		}
		return done.intoDirectory(ctx, source, to, step)
	})
	if unusable(err) {
		err = fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if err == nil && to.Dir == "" {
		told("check " + done.To)
		done.Report, err = Check(ctx, to)
	}
	if err == nil && done.Report != before {
		err = fmt.Errorf("%s is not what %s is: %+v, and %+v", done.To, done.From, done.Report, before)
	}
	return done, err
}

// intoDirectory makes and proves the directory.
func (m *Moved) intoDirectory(ctx context.Context, source engine.Engine, to Data, step func(string)) error {
	opts, err := to.options()
	if err != nil {
		return err
	}
	final, err := emptyAt(to.Dir)
	if move.Left(to.Dir) {
		final, err = filepath.EvalSymlinks(to.Dir)
	}
	if err != nil {
		return err
	}
	opts.Dir, opts.Hooks.Migrating = final, step
	m.Report, err = store.MoveIn(ctx, opts, source, func(s *store.Store) check.Graphs { return graphsOf(ctx, s) })
	return err
}

// intoDatabase stores everything in one transaction, and compares it; what a call has stored
// that was broken off behind that is compared alone.
func (m *Moved) intoDatabase(ctx context.Context, source engine.Engine, to Database, step func(string)) error {
	url, err := to.reachable()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	open := func() (*database.Database, error) {
		return to.make(ctx, url)
	}
	d, err := open()
	if err != nil {
		return err
	}
	if m.Before = d.Last() != 0; !m.Before {
		err := d.Load(ctx, source, func(keys *pgkv.LoadedKeys) error {
			defer step("filled")
			return source.Keys().Into(keys, nil)
		})
		if err != nil {
			return to.told(err)
		}
		step("loaded")
		if d, err = open(); err != nil {
			return err
		}
	}
	err = store.SamePairs(ctx, source, d)
	step("compared")
	if m.Before && err != nil {
		err = fmt.Errorf("%w: %s has a store already, which is another one or went on: name another schema with --store-schema (%w)", ErrUnusable, to, err)
	}
	return errors.Join(err, d.Close())
}

// make opens it for a store that is to be made there.
func (d Database) make(ctx context.Context, url pgurl.URL) (*database.Database, error) {
	return d.open(ctx, url, assure.Wanted{Make: true}, fmt.Sprintf("a migration, process %d", os.Getpid()), slog.New(slog.DiscardHandler))
}

// placeOf is a directory or, by its form, a database.
func placeOf(text string, with Data) Data {
	if pgurl.Is(text) {
		with.Dir, with.Database.URL = "", pgurl.Of(text)
		return with
	}
	with.Dir, with.Database.URL = text, pgurl.URL{}
	return with
}

// Places are the two of a move, each a directory or the URL of a database; with says how both
// are opened.
func Places(from, to string, with Data) (Data, Data) { return placeOf(from, with), placeOf(to, with) }
