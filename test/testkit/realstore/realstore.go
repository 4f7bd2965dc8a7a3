package realstore

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/internal/store/pgengine"
	"github.com/pawl-dev/pawl/test/testkit"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// Main runs the tests of a package on the store that PAWL_TEST_STORE names.
func Main(m *testing.M) {
	switch wanted := os.Getenv("PAWL_TEST_STORE"); wanted {
	case "":
	case "badger":
		testkit.NewBackend = inDirectory
	case "postgres", "standby":
		testkit.NewBackend = inPostgres
	default:
		fmt.Fprintf(os.Stderr, "PAWL_TEST_STORE=%s is none of postgres, standby, badger\n", wanted)
		os.Exit(1)
	}
	pgserver.Main(m)
}

func inDirectory(tb testing.TB) testkit.Backend {
	tb.Helper()
	return open(tb, store.Options{Dir: tb.TempDir(), MemTableSize: 8 << 20, MinFree: 1})
}

// inPostgres is a schema of its own on the server of the test binary.
func inPostgres(tb testing.TB) testkit.Backend {
	tb.Helper()
	dir := tb.TempDir()
	conf := pgengine.Config{URL: dsn.Parse(pgserver.Shared(tb).URL("postgres")), Schema: pgserver.Schema(dir), Readers: 4}
	return open(tb, store.Options{Dir: dir, Engine: func(o store.Options) (engine.Engine, error) {
		conf.Logger = o.Logger
		d, err := pgengine.Open(conf)
		if err != nil {
			return nil, err
		}
		return d, nil
	}})
}

// rows are those of a real store.
type rows struct {
	*store.Store
	place *storage
}

// storage is where one store after another keeps its rows.
type storage struct {
	tb   testing.TB
	opts store.Options
	// now is the store that is open.
	now *store.Store
}

func open(tb testing.TB, opts store.Options) testkit.Backend {
	tb.Helper()
	opts.UsageLabels = []string{"team"} // a label of the tests; the store in memory keeps all
	p := &storage{tb: tb, opts: opts}
	opened := p.open()
	tb.Cleanup(p.close)
	return opened
}

func (p *storage) open() rows {
	p.tb.Helper()
	var err error
	if p.now, err = store.Open(p.opts); err != nil {
		p.tb.Fatal(err)
	}
	return rows{Store: p.now, place: p}
}

func (p *storage) close() {
	if err := p.now.Close(); err != nil {
		p.tb.Error(err)
	}
}

// Reopen implements [testkit.Backend].
func (r rows) Reopen() testkit.Backend {
	r.place.close()
	return r.place.open()
}

// Check implements [testkit.Backend].
func (r rows) Check() error {
	_, err := r.Store.Check(context.Background(), nil)
	return err
}

// Holders implements [testkit.Backend].
func (r rows) Holders() []machine.StepHolder {
	var all []machine.StepHolder
	for _, kind := range []machine.OutboxKind{machine.OutboxStep, machine.OutboxDelegation, machine.OutboxCancel} {
		out, err := r.Outbox(context.Background(), kind, math.MaxInt64, math.MaxInt32)
		if err != nil {
			r.place.tb.Error(err)
		}
		for _, row := range out {
			if holder, err := r.StepHolder(context.Background(), row); err == nil {
				all = append(all, holder)
			}
		}
	}
	return slices.Clip(all)
}
