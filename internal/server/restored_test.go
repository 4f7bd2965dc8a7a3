package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// epochOf is that of a store that nobody has open.
func epochOf(t *testing.T, data Data) [16]byte {
	t.Helper()
	opts, err := data.options()
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return s.Epoch()
}

// TestRestoreIntoADatabase: a process that dies at any step leaves a schema without a store, or with
// all of it; the next one makes it, or finds it there. It is another store than the one of the backup.
func TestRestoreIntoADatabase(t *testing.T) {
	t.Parallel()
	if at := os.Getenv("PAWL_RESTORE_DIES"); at != "" {
		dieRestoring(os.Getenv("PAWL_RESTORE_FROM"), os.Getenv("PAWL_RESTORE_TO"), at)
	}
	url, ctx := pgserver.Database(t), context.Background()
	dir := copyGolden(t, store.FormatVersion)
	kept := RestoreFrom{Dir: t.TempDir()}
	if err := Backup(ctx, Data{Dir: dir}, BackupTo{Dir: kept.Dir}, func(BackupDone) {}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"restored", "filled", "loaded", "compared"} {
		t.Run(step, func(t *testing.T) {
			to := Data{Database: Database{URL: dsn.Of(url), Schema: "at_" + step}}
			child := exec.Command(os.Args[0], "-test.run", "^TestRestoreIntoADatabase$")
			child.Env = append(os.Environ(), "PAWL_RESTORE_FROM="+kept.Dir, "PAWL_RESTORE_TO="+url, "PAWL_RESTORE_DIES="+step, "TMPDIR="+t.TempDir())
			var exit *exec.ExitError
			if out, err := child.CombinedOutput(); !errors.As(err, &exit) || exit.ExitCode() != died {
				t.Fatalf("%v: %s", err, out)
			}
			report, used, err := Restore(ctx, kept, to)
			if step == "loaded" || step == "compared" {
				if !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "has a store already") || len(used) > 0 {
					t.Errorf("where there is one: %v, %v", used, err)
				}
				report, err = Check(ctx, to)
			}
			if err != nil || report.Runs != 7 {
				t.Fatalf("%+v, %v", report, err)
			}
			if epochOf(t, to) == epochOf(t, Data{Dir: dir}) {
				t.Error("it is the same store as the one of the backup")
			}
		})
	}
}

// dieRestoring ends the process at a step.
func dieRestoring(from, to, at string) {
	data := Data{Database: Database{URL: dsn.Of(to), Schema: "at_" + at}}
	chains, err := chainsIn(RestoreFrom{Dir: from}, data, nil)
	if err == nil {
		_, err = restoreInto(context.Background(), chains, data, func(step string) {
			if step == at {
				os.Exit(died)
			}
		})
	}
	fmt.Println(err)
	os.Exit(1)
}
