package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/internal/store/pg/preflight"
	"github.com/pawl-dev/pawl/internal/store/pgengine"
)

// Moved is the result of moving a store from a directory to a database or back.
type Moved struct {
	// From and To are the names of both locations. The store at From is unchanged.
	From, To string
	// Report contains the counts of the check of the new store. They are equal to the counts of the old
	// store.
	Report CheckReport
	// Before reports whether the complete store was already at To.
	Before bool
}

// Move copies a store to another location: from a directory to a database, or from a database, or one
// partition of it, to a directory. It checks both stores and compares their key-value pairs. No other
// process may have either of them open. If Move is interrupted, the target is empty or complete. The
// callback is called at the start of each step with the name of the step. Errors: [ErrUnusable], a
// *[CheckFault].
func Move(ctx context.Context, from, to Data, told func(what string)) (done Moved, err error) {
	return moved(ctx, from, to, told, func(string) {})
}

// moved does the same as [Move], and calls step after each step, for tests. The steps are "checked",
// and then "filled", "loaded" and "compared" for a database, or the steps of [store.MoveIn] for a
// directory.
func moved(ctx context.Context, from, to Data, told, step func(string)) (done Moved, err error) {
	done.From, done.To = from.Where(), to.Where()
	if (from.Dir == "") == (to.Dir == "") {
		return done, fmt.Errorf("%w: a move goes from a directory into a database, or from a database into a directory", ErrUnusable)
	}
	if err := movable(ctx, from, to); err != nil {
		return done, err
	}
	told("check " + done.From)
	before, err := Check(ctx, from)
	if err != nil {
		return done, err
	}
	step("checked")
	told("copy into " + done.To)
	if to.Dir == "" {
		return done, done.into(ctx, []source{{Data: from}}, to, before, told, step)
	}
	err = source{Data: from}.opened(func(e engine.Engine) error { return done.intoDirectory(ctx, e, to, step) })
	return done, done.judged(before, err)
}

// movable returns an error for a database whose store has several partitions. It is called before the copy starts.
func movable(ctx context.Context, from, to Data) error {
	if to.Dir == "" {
		return to.Database.undivided(ctx, preflight.Wanted{Make: true}, "name another schema with --store-schema")
	}
	if from.Database.Only {
		return nil
	}
	return from.Database.undivided(ctx, preflight.Wanted{},
		"a directory is one. Name one of them with --partition, runs go by 'pawl runs export' and 'import', all of it is kept by 'pawl backup' and by the database's own backups")
}

// judged compares the report of the new store with the report of the old store.
func (m *Moved) judged(before CheckReport, err error) error {
	if unusable(err) {
		err = fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if err == nil && m.Report != before {
		err = fmt.Errorf("%s is not what %s is: %+v, and %+v", m.To, m.From, m.Report, before)
	}
	return err
}

// source is a store that is copied, and the number of the partition that the copy becomes.
type source struct {
	Data
	part int32
}

// opened opens the engine of the source and calls do with it.
func (s source) opened(do func(e engine.Engine) error) error {
	opts, err := s.options()
	if err != nil {
		return err
	}
	return store.MoveOut(opts, do)
}

// intoDirectory makes and verifies the directory.
func (m *Moved) intoDirectory(ctx context.Context, source engine.Engine, to Data, step func(string)) error {
	opts, err := to.options()
	if err != nil {
		return err
	}
	final, err := emptyAt(to.Dir)
	if store.UnfinishedMove(to.Dir) {
		final, err = filepath.EvalSymlinks(to.Dir)
	}
	if err != nil {
		return err
	}
	opts.Dir, opts.Hooks.Migrating = final, step
	m.Report, err = store.MoveIn(ctx, opts, source, func(s *store.Store) check.Graphs { return graphsOf(ctx, s) })
	return err
}

// into creates the store in a database, and checks that its report is equal to the report of the
// source.
func (m *Moved) into(ctx context.Context, from []source, to Data, before CheckReport, told, step func(string)) error {
	err := m.intoDatabase(ctx, from, to.Database, step)
	if err == nil {
		told("check " + m.To)
		m.Report, err = Check(ctx, to)
	}
	return m.judged(before, err)
}

// intoDatabase stores everything in one transaction and then compares it. If an earlier call was
// interrupted after it had stored everything, intoDatabase only compares.
func (m *Moved) intoDatabase(ctx context.Context, from []source, to Database, step func(string)) error {
	url, err := to.reachable()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	d, err := to.make(ctx, url)
	if err != nil {
		return err
	}
	if m.Before = d.Last() != 0; m.Before {
		err = d.Close()
	} else {
		err = to.load(ctx, from, d, step)
	}
	for i := 0; err == nil && i < len(from); i++ {
		err = InPart(from[i].part, from[i].compare(ctx, to.part(from[i].part), url))
	}
	if _, differs := errors.AsType[*store.PairsDifferError](err); differs && m.Before {
		err = fmt.Errorf("%w: %s has a store already, which is another one or went on: name another schema with --store-schema (%w)", ErrUnusable, to, err)
	}
	if err == nil {
		step("compared")
	}
	return err
}

// load stores everything in one transaction. This includes the partitions of namespaces.
func (d Database) load(ctx context.Context, from []source, into *pgengine.Database, step func(string)) (err error) {
	defer func() { err = errors.Join(err, into.Keys().Close()) }()
	l, err := into.Loading(ctx)
	if err != nil {
		return d.userError(err)
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	places := make(map[string]int32)
	for _, s := range from {
		if err := s.opened(func(e engine.Engine) error { return d.fill(l, s.part, e, places) }); err != nil {
			return InPart(s.part, err)
		}
	}
	step("filled")
	if err := l.Commit(places); err != nil {
		return d.userError(err)
	}
	step("loaded")
	return nil
}

// fill stores a partition, and adds its namespaces to places.
func (d Database) fill(l *pg.Loading, part int32, from engine.Engine, places map[string]int32) error {
	names, err := namespacesOf(from)
	if err != nil {
		return err
	}
	for name := range names {
		if other, twice := places[name]; twice {
			return fmt.Errorf("%w: the namespace %q is in the partitions %d and %d: the backups of these are of before and after it moved; take one of everything", ErrUnusable, name, other, part)
		}
		places[name] = part
	}
	err = l.Fill(part, from, func(keys *pg.LoadedKeys) error { return from.Keys().Into(keys, nil) })
	if err != nil {
		err = d.userError(err)
	}
	return err
}

// compare compares the key-value pairs of a partition with those of its source.
func (s source) compare(ctx context.Context, to Database, url dsn.URL) error {
	return s.opened(func(e engine.Engine) error {
		d, err := to.make(ctx, url)
		if err != nil {
			return err
		}
		return errors.Join(store.SamePairs(ctx, e, d), d.Close())
	})
}

// make opens the database in order to create a store in it.
func (d Database) make(ctx context.Context, url dsn.URL) (*pgengine.Database, error) {
	return d.open(ctx, url, preflight.Wanted{Make: true}, fmt.Sprintf("a migration, process %d", os.Getpid()), slog.New(slog.DiscardHandler))
}

// locationOf returns the location of a database if the text is a URL. Otherwise it returns the location
// of a directory.
func locationOf(text string, with Data) Data {
	if dsn.Is(text) {
		with.Dir, with.Database.URL = "", dsn.Of(text)
		return with
	}
	with.Dir, with.Database = text, Database{}
	return with
}

// MoveLocations returns the two locations of a move. Each is a directory or the URL of a database. with
// contains the settings with which they are opened.
func MoveLocations(from, to string, with Data) (Data, Data) {
	return locationOf(from, with), locationOf(to, with)
}
