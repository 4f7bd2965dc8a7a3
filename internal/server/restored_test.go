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

// epochOf returns the epoch of a store that no process has open.
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

// TestRestoreIntoADatabase: a process dies at any step of a restore. It leaves a schema without a
// store, or with all of it. The next process makes the store, or finds it there. It is not the same
// store as the one of the backup.
func TestRestoreIntoADatabase(t *testing.T) {
	t.Parallel()
	if at := os.Getenv("PAWL_RESTORE_DIES"); at != "" {
		dieRestoring(os.Getenv("PAWL_RESTORE_FROM"), os.Getenv("PAWL_RESTORE_TO"), at)
	}
	url, ctx := pgserver.Database(t), context.Background()
	dir := copyGolden(t, store.FormatVersion)
	source := RestoreFrom{Dir: t.TempDir()}
	if err := Backup(ctx, Data{Dir: dir}, BackupTo{Dir: source.Dir}, func(BackupDone) {}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"restored", "filled", "loaded", "compared"} {
		t.Run(step, func(t *testing.T) {
			to := Data{Database: Database{URL: dsn.Parse(url), Schema: "at_" + step}}
			child := exec.Command(os.Args[0], "-test.run", "^TestRestoreIntoADatabase$")
			child.Env = append(os.Environ(), "PAWL_RESTORE_FROM="+source.Dir, "PAWL_RESTORE_TO="+url, "PAWL_RESTORE_DIES="+step, "TMPDIR="+t.TempDir())
			var exit *exec.ExitError
			if out, err := child.CombinedOutput(); !errors.As(err, &exit) || exit.ExitCode() != crashStatus {
				t.Fatalf("%v: %s", err, out)
			}
			report, used, err := Restore(ctx, source, to)
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
	data := Data{Database: Database{URL: dsn.Parse(to), Schema: "at_" + at}}
	chains, err := chainsIn(context.Background(), RestoreFrom{Dir: from}, data, nil)
	if err == nil {
		_, err = restoreInto(context.Background(), chains, data, func(step string) {
			if step == at {
				os.Exit(crashStatus)
			}
		})
	}
	fmt.Println(err)
	os.Exit(1)
}
