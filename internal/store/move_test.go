package store

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/memkv"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/internal/store/pgengine"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// TestMoveIntoADirectory: the pairs of another engine, with their groups, and the keys of runs
// are in the directory as they were, whenever it is killed on the way; nothing opens before.
func TestMoveIntoADirectory(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := memkv.New()
	inMemory := Options{Dir: filepath.Join(t.TempDir(), "memory"), MarkInterval: time.Hour, Engine: func(o Options) (engine.Engine, error) {
		e, err := memkv.Open(db, o.Dir, nil)
		return e, err
	}}
	of, want := movedWorld(t, inMemory)
	graphs := func(*Store) check.Graphs { return of }
	for name, key := range map[string][]byte{"open": nil, "encrypted": bytes.Repeat([]byte{7}, 32)} {
		t.Run(name, func(t *testing.T) {
			to := Options{Dir: filepath.Join(t.TempDir(), "db"), MemTableSize: 8 << 20, MinFree: 1, EncryptionKey: key, MarkInterval: time.Hour}
			var report check.Report
			moving := func(step func(string)) error {
				opts := to
				opts.Hooks.Migrating = step
				return MoveOut(inMemory, func(from engine.Engine) (err error) {
					report, err = MoveIn(ctx, opts, from, graphs)
					return err
				})
			}
			var steps []string
			for _, at := range []string{"cleared", "copied", "proven", "complete", "placed"} {
				brokenOff(t, at, moving)
				neitherOpens(t, to)
			}
			if err := moving(func(step string) { steps = append(steps, step) }); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(steps, " "); got != "cleared copied proven complete placed" {
				t.Errorf("its steps are %s", got)
			}
			if report.Runs == 0 {
				t.Error("nothing was proven")
			}
			if _, err := os.Stat(to.Dir + ".migrating"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("there is something left: %v", err)
			}
			if err := moving(func(string) {}); err == nil || datadir.Progress(to.Dir) != "" {
				t.Errorf("into a directory that has a store: %v", err)
			}
			s, err := Open(to)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if got := pairsOf(t, s); !maps.Equal(got, want) {
				t.Errorf("%d pairs, want %d", len(got), len(want))
			}
			if again, err := s.Check(ctx, of); err != nil || again != report {
				t.Errorf("checked again: %+v, %v, was %+v", again, err, report)
			}
		})
	}
}

// TestMoveThroughADatabase: from an encrypted directory into PostgreSQL and from there into an
// open directory, everything that a store has, the erased and the erasable among it.
func TestMoveThroughADatabase(t *testing.T) {
	t.Parallel()
	ctx, url := context.Background(), pgserver.Database(t)
	options := func(key []byte) Options {
		return Options{Dir: filepath.Join(t.TempDir(), "db"), MemTableSize: 8 << 20, MinFree: 1, EncryptionKey: key, MarkInterval: time.Hour}
	}
	first, inDatabase, last := options(bytes.Repeat([]byte{7}, 32)), options(nil), options(nil)
	inDatabase.Engine = func(o Options) (engine.Engine, error) { return openPostgresAt(url, o) }
	of, want := movedWorld(t, first)
	err := MoveOut(first, func(from engine.Engine) error {
		to, err := openPostgresAt(url, inDatabase)
		if err != nil {
			return err
		}
		return to.(*pgengine.Database).Load(ctx, from, func(keys *pg.LoadedKeys) error { return from.Keys().CopyToMedium(keys, nil) })
	})
	if err != nil {
		t.Fatal(err)
	}
	err = MoveOut(inDatabase, func(from engine.Engine) error {
		_, err := MoveIn(ctx, last, from, func(*Store) check.Graphs { return of })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var reports []check.Report
	for name, opts := range map[string]Options{"first": first, "in the database": inDatabase, "last": last} {
		s, err := Open(opts)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := pairsOf(t, s); !maps.Equal(got, want) {
			t.Errorf("%s: %d pairs, want %d", name, len(got), len(want))
		}
		mustBeErased(t, s, runID(7))
		if head, err := s.Head(ctx, 0, runID(6)); err != nil || len(head.Artifacts) == 0 {
			t.Errorf("%s: the run that can be erased: %v", name, err)
		}
		report, err := s.Check(ctx, of)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if reports = append(reports, report); report != reports[0] {
			t.Errorf("%s: %+v, want %+v", name, report, reports[0])
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// movedWorld makes a store that has everything, closes it, and says what it has.
func movedWorld(t *testing.T, opts Options) (check.Graphs, map[string]string) {
	t.Helper()
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.ReplayWith(replayTest)
	w, _ := fullWorld(t, s)
	open := w.graph
	// Another pack, whose runs can be erased.
	pack, err := s.PutPack(context.Background(), 0, putOf("codegen", "2.0.0", true))
	if err != nil {
		t.Fatal(err)
	}
	graph := *open
	graph.Digest, graph.Erasable = pack.Digest, true
	w.graph = &graph
	w.secret(runID(6))
	w.secret(runID(7))
	w.end(runID(7))
	w.erase(runID(7))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// A start stores what it finds undone.
	if s, err = Open(opts); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	of := func(digest, entry, agent string, override bool) (*machine.Graph, error) {
		w := world{graph: open}
		if digest == graph.Digest {
			w.graph = &graph
		}
		return w.graphs(digest, entry, agent, override)
	}
	return of, pairsOf(t, s)
}

// brokenOff ends a move at one of its steps.
func brokenOff(t *testing.T, at string, moving func(func(string)) error) {
	t.Helper()
	defer func() {
		if p := recover(); p != at {
			t.Fatalf("%s: it was not reached: %v", at, p)
		}
	}()
	err := moving(func(step string) {
		if step == at {
			panic(at)
		}
	})
	t.Fatalf("%s: it went on: %v", at, err)
}

// neitherOpens: not what is made, and not what has its name.
func neitherOpens(t *testing.T, to Options) {
	t.Helper()
	for _, dir := range []string{to.Dir, to.Dir + ".migrating"} {
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			continue
		}
		opts := to
		opts.Dir = dir
		s, err := Open(opts)
		if !errors.Is(err, ErrFormat) {
			t.Errorf("%s opens: %v", dir, err)
		}
		if err == nil {
			_ = s.Close()
		}
	}
}
