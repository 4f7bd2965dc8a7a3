package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
	"github.com/pawl-dev/pawl/test/testkit/realstore"
)

func TestMain(m *testing.M) { realstore.Main(m) }

// TestMoveIsCalledAgain: a process that dies at any step of a move, into a database or into a
// directory, leaves nothing that opens or all of it, and the next one ends it. The store is the
// golden one, and the same each time.
func TestMoveIsCalledAgain(t *testing.T) {
	t.Parallel()
	if to := os.Getenv("PAWL_MOVE_TO"); to != "" {
		dieMoving(os.Getenv("PAWL_MOVE_FROM"), to, os.Getenv("PAWL_MOVE_DIES"))
	}
	url, ctx := pgserver.Database(t), context.Background()
	dir := copyGolden(t, store.FormatVersion)
	inOrder(t, dir)
	for _, step := range []string{"checked", "filled", "loaded", "compared"} {
		t.Run("database "+step, func(t *testing.T) {
			from, to := MoveLocations(dir, url, Data{Database: Database{Schema: "at_" + step}})
			diesAt(t, dir, url, step)
			_, err := Check(ctx, to)
			complete := step == "loaded" || step == "compared"
			if e, ok := errors.AsType[*DatabaseError](err); complete != (err == nil) || !complete && (!ok || e.Reason != "SCHEMA_EMPTY") {
				t.Errorf("what it left: %v", err)
			}
			done, err := Move(ctx, from, to, func(string) {})
			if err != nil || done.Before != complete || done.Report.Runs != 7 {
				t.Fatalf("called again: %+v, %v", done, err)
			}
			back, _ := MoveLocations(filepath.Join(t.TempDir(), "back"), "", Data{})
			if _, err := Move(ctx, to, back, func(string) {}); err != nil {
				t.Fatal(err)
			}
			samePlaces(t, dir, back.Dir)
			inOrder(t, back.Dir)
		})
	}
	database, _ := MoveLocations(url, "", Data{Database: Database{Schema: "at_checked"}})
	for _, step := range []string{"checked", "cleared", "copied", "proven", "complete", "placed"} {
		t.Run("directory "+step, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "back")
			diesAt(t, url, to, step)
			for _, left := range []string{to, to + ".migrating"} {
				if report, err := Check(ctx, Data{Dir: left}); !errors.Is(err, ErrUnusable) {
					t.Errorf("%s opens: %+v, %v", left, report, err)
				}
			}
			if _, err := Move(ctx, database, Data{Dir: to}, func(string) {}); err != nil {
				t.Fatal(err)
			}
			samePlaces(t, dir, to)
			inOrder(t, to)
		})
	}
}

// diesAt runs a move in a process that dies at a step.
func diesAt(t *testing.T, from, to, step string) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run", "^TestMoveIsCalledAgain$")
	child.Env = append(os.Environ(), "PAWL_MOVE_FROM="+from, "PAWL_MOVE_TO="+to, "PAWL_MOVE_DIES="+step)
	var exit *exec.ExitError
	if out, err := child.CombinedOutput(); !errors.As(err, &exit) || exit.ExitCode() != crashStatus {
		t.Fatalf("%v: %s", err, out)
	}
}

// dieMoving ends the process at a step.
func dieMoving(from, to, at string) {
	schema := "at_" + at
	if dsn.IsURL(from) {
		schema = "at_checked"
	}
	source, target := MoveLocations(from, to, Data{Database: Database{Schema: schema}})
	_, err := moved(context.Background(), source, target, func(string) {}, func(step string) {
		if step == at {
			os.Exit(crashStatus)
		}
	})
	fmt.Println(err)
	os.Exit(1)
}

// samePlaces compares two directories pair by pair.
func samePlaces(t *testing.T, one, other string) {
	t.Helper()
	err := store.MoveOut(store.Options{Dir: one}, func(a engine.Engine) error {
		return store.MoveOut(store.Options{Dir: other}, func(b engine.Engine) error {
			return store.SamePairs(context.Background(), a, b)
		})
	})
	if err != nil {
		t.Error(err)
	}
}
