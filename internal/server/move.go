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

// MoveResult is the result of moving a store from a directory to a database or back.
type MoveResult struct {
	// From and To are the names of both locations. The store at From is unchanged.
	From, To string
	// Report contains the counts of the check of the new store. They are equal to the counts of the old
	// store.
	Report CheckReport
	// Before means that the whole store was already at To, because an earlier move was interrupted
	// after it had stored everything.
	Before bool
}

// Move copies a store from a directory to a database, or from a database to a directory. For a
// directory, it may copy one partition of a database. It checks both stores and compares their
// key-value pairs. No other process may have either of them open. If Move is interrupted, the target is
// empty or complete. The callback is called with the name of each step when the step starts. Errors:
// [ErrUnusable], a *[CheckFault].
func Move(ctx context.Context, from, to Data, told func(what string)) (done MoveResult, err error) {
	return moved(ctx, from, to, told, func(string) {})
}

// moved does the work of [Move]. Tests use step, which is called after each step. The steps are
// "checked", and then "filled", "loaded" and "compared" for a database, or those of [store.MoveIn] for
// a directory.
func moved(ctx context.Context, from, to Data, report, step func(string)) (done MoveResult, err error) {
	done.From, done.To = from.Location(), to.Location()
	if (from.Dir == "") == (to.Dir == "") {
		return done, fmt.Errorf("%w: a move goes from a directory into a database, or from a database into a directory", ErrUnusable)
	}
	if err := checkMovable(ctx, from, to); err != nil {
		return done, err
	}
	report("check " + done.From)
	before, err := Check(ctx, from)
	if err != nil {
		return done, err
	}
	step("checked")
	report("copy into " + done.To)
	if to.Dir == "" {
		return done, done.createInDatabase(ctx, []source{{Data: from}}, to, before, report, step)
	}
	err = source{Data: from}.opened(func(e engine.Engine) error { return done.intoDirectory(ctx, e, to, step) })
	return done, done.compareCounts(before, err)
}

// checkMovable returns an error if the database from or to which a store is moved has a store with several
// partitions. It is called before the copy starts.
func checkMovable(ctx context.Context, from, to Data) error {
	if to.Dir == "" {
		return to.Database.checkUndivided(ctx, preflight.Requirements{Make: true}, "name another schema with --store-schema")
	}
	if from.Database.Only {
		return nil
	}
	return from.Database.checkUndivided(ctx, preflight.Requirements{},
		"a directory is one. Name one of them with --partition, runs go by 'pawl runs export' and 'import', all of it is kept by 'pawl backup' and by the database's own backups")
}

// compareCounts returns an error if the check of the new store has not found the same counts as the check of
// the old store. err is an earlier error of the move.
func (m *MoveResult) compareCounts(before CheckReport, err error) error {
	err = marked(err)
	if err == nil && m.Report != before {
		err = fmt.Errorf("%s is not what %s is: %+v, and %+v", m.To, m.From, m.Report, before)
	}
	return err
}

// source is a store that is copied into a database. part is the number of the partition that it becomes
// there.
type source struct {
	Data
	part int32
}

// opened opens the storage engine of the source and calls do with it.
func (s source) opened(do func(e engine.Engine) error) error {
	opts, err := s.options()
	if err != nil {
		return err
	}
	return store.MoveOut(opts, do)
}

// intoDirectory copies the source into a new directory and verifies the result.
func (m *MoveResult) intoDirectory(ctx context.Context, source engine.Engine, to Data, step func(string)) error {
	opts, err := to.options()
	if err != nil {
		return err
	}
	final, err := emptyAt(to.Dir)
	if store.UnfinishedMove(to.Dir) { // the directory need not be empty, because the move goes on
		final, err = filepath.EvalSymlinks(to.Dir)
	}
	if err != nil {
		return err
	}
	opts.Dir, opts.Hooks.Migrating = final, step
	m.Report, err = store.MoveIn(ctx, opts, source, func(s *store.Store) check.Graphs { return graphsOf(ctx, s) })
	return err
}

// createInDatabase creates the store in a database and checks it. before are the counts of the sources, which the
// new store must also have.
func (m *MoveResult) createInDatabase(ctx context.Context, from []source, to Data, before CheckReport, told, step func(string)) error {
	err := m.intoDatabase(ctx, from, to.Database, step)
	if err == nil {
		told("check " + m.To)
		m.Report, err = Check(ctx, to)
	}
	return m.compareCounts(before, err)
}

// intoDatabase stores all sources in one transaction and then compares them with the database. If an
// earlier move was interrupted after this transaction, it only compares.
func (m *MoveResult) intoDatabase(ctx context.Context, from []source, to Database, step func(string)) error {
	url, err := to.reachable()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	d, err := to.make(ctx, url)
	if err != nil {
		return err
	}
	if m.Before = d.LastKey() != 0; m.Before {
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

// load stores all sources in one transaction. It also stores the partition of each namespace.
func (d Database) load(ctx context.Context, from []source, into *pgengine.Database, step func(string)) (err error) {
	defer func() { err = errors.Join(err, into.Keys().Close()) }()
	l, err := into.NewLoader(ctx)
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

// fill stores the rows of one partition, and adds the namespaces in it to places, which maps namespaces
// to partitions.
func (d Database) fill(l *pg.Loader, part int32, from engine.Engine, places map[string]int32) error {
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
	err = l.Fill(part, from, func(keys *pg.LoadedKeys) error { return from.Keys().CopyToMedium(keys, nil) })
	if err != nil {
		err = d.userError(err)
	}
	return err
}

// compare compares the key-value pairs of a partition in the database with those of its source.
func (s source) compare(ctx context.Context, to Database, url dsn.URL) error {
	return s.opened(func(e engine.Engine) error {
		d, err := to.make(ctx, url)
		if err != nil {
			return err
		}
		return errors.Join(store.SamePairs(ctx, e, d), d.Close())
	})
}

// make opens the database as a storage engine in order to create a store in it.
func (d Database) make(ctx context.Context, url dsn.URL) (*pgengine.Database, error) {
	return d.open(ctx, url, preflight.Requirements{Make: true}, fmt.Sprintf("a migration, process %d", os.Getpid()), slog.New(slog.DiscardHandler))
}

// locationOf returns the location of a database if the text is a URL. Otherwise it returns the location
// of a directory.
func locationOf(text string, defaults Data) Data {
	if dsn.IsURL(text) {
		defaults.Dir, defaults.Database.URL = "", dsn.Parse(text)
		return defaults
	}
	defaults.Dir, defaults.Database = text, Database{}
	return defaults
}

// MoveLocations returns the two locations of a move. Each text is a directory or the URL of a database.
// with contains the other settings for opening them.
func MoveLocations(from, to string, with Data) (Data, Data) {
	return locationOf(from, with), locationOf(to, with)
}
