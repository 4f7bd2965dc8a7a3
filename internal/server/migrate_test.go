package server

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
	"github.com/pawl-dev/pawl/internal/runtime/query"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// goldenFormat makes the test write the directory of the current format again. The programs of
// older formats wrote the directories of those formats.
var goldenFormat = flag.Bool("golden-format", false, "write testdata/format-N of the current format")

// goldenFiles are the directories of each format: the same seven runs.
func goldenFiles(format uint32) string { return fmt.Sprintf("testdata/format-%d", format) }

// copyGolden copies a golden directory to one of the test's own.
func copyGolden(t *testing.T, format uint32) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(dir, os.DirFS(goldenFiles(format))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// inOrder checks a directory that has the golden runs.
func inOrder(t *testing.T, dir string) {
	t.Helper()
	ctx := context.Background()
	report, err := Check(ctx, Data{Dir: dir})
	if err != nil || report.Runs != 7 || report.Records != 62 || report.Entries != 53 || report.Timers != 4 {
		t.Fatalf("%+v, %v", report, err)
	}
	proven, err := VerifyData(ctx, Data{Dir: dir}, "")
	if err != nil || len(proven) != 7 {
		t.Fatalf("%d runs, %v", len(proven), err)
	}
	for _, p := range proven {
		if !p.OK() {
			t.Errorf("run %s: %+v", p.RunID, p)
		}
	}
	r := openGolden(t, dir)
	defer r.close()
	page, err := r.ListRuns(ctx, query.ListRunsRequest{Call: r.call()})
	if err != nil || len(page.Runs) != 7 {
		t.Fatalf("%d runs listed, %v", len(page.Runs), err)
	}
	r.run = page.Runs[0].RunID
	seen, err := r.GetRun(ctx, query.GetRunRequest{RunRef: r.ref(), Artifacts: true})
	if err != nil || len(seen.Artifacts) != 2 || string(seen.Artifacts[1].Value) != "note 20" {
		t.Fatalf("%+v, %v", seen.Artifacts, err)
	}
}

// TestGoldenDirectories: a directory of the current format opens, passes its checks and can be used.
// A directory of an older format is refused by name and migrated, and has the same content then.
func TestGoldenDirectories(t *testing.T) {
	t.Parallel()
	if *goldenFormat {
		writeGoldenDirectory(t)
	}
	inOrder(t, copyGolden(t, store.FormatVersion))
	old := copyGolden(t, store.FormatVersion-1)
	var format *store.FormatError
	_, err := store.Open(store.Options{Dir: old})
	if !errors.As(err, &format) || format.Found != store.FormatVersion-1 || !strings.Contains(err.Error(), "pawl migrate") {
		t.Fatalf("an older directory: %v", err)
	}
	if _, err := Check(context.Background(), Data{Dir: old}); !errors.Is(err, ErrUnusable) {
		t.Fatalf("check of an older directory: %v", err)
	}
	if err := os.WriteFile(filepath.Join(old, "traces.cursor"), []byte("7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	done, err := Migrate(context.Background(), Data{Dir: old}, "")
	if err != nil || done.From != 1 || done.To != store.FormatVersion || done.Dir != old || done.Old != old+".format1" || done.Repair.Entries != 53 {
		t.Fatalf("%+v, %v", done, err)
	}
	if beside, err := os.ReadFile(filepath.Join(old, "traces.cursor")); err != nil || string(beside) != "7\n" {
		t.Errorf("a file beside the store: %q, %v", beside, err)
	}
	inOrder(t, old)
	again, err := Migrate(context.Background(), Data{Dir: old + ".format1"}, filepath.Join(t.TempDir(), "again"))
	if err != nil || again.Rows != done.Rows {
		t.Fatalf("the old directory once more: %+v, %v", again, err)
	}
	inOrder(t, again.Dir)
	if none, err := Migrate(context.Background(), Data{Dir: again.Dir}, ""); err != nil || none.From != none.To {
		t.Fatalf("nothing to do: %+v, %v", none, err)
	}
}

// TestMigrationIsCalledAgain: a process dies at any step of a migration. The next call ends the
// migration, and nothing is served in between.
func TestMigrationIsCalledAgain(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv("PAWL_MIGRATE_DIR"); dir != "" {
		dieMigrating(dir, os.Getenv("PAWL_MIGRATE_DIES"))
	}
	for _, step := range []string{"cleared", "copied", "repaired", "proven", "complete", "moved", "placed"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			dir := copyGolden(t, store.FormatVersion-1)
			child := exec.Command(os.Args[0], "-test.run", "^TestMigrationIsCalledAgain$")
			child.Env = append(os.Environ(), "PAWL_MIGRATE_DIR="+dir, "PAWL_MIGRATE_DIES="+step)
			var exit *exec.ExitError
			if out, err := child.CombinedOutput(); !errors.As(err, &exit) || exit.ExitCode() != crashStatus {
				t.Fatalf("%v: %s", err, out)
			}
			if _, err := Check(context.Background(), Data{Dir: dir}); !errors.Is(err, ErrUnusable) {
				t.Errorf("a migration under way is served: %v", err)
			}
			if _, err := Migrate(context.Background(), Data{Dir: dir}, ""); err != nil {
				t.Fatal(err)
			}
			inOrder(t, dir)
		})
	}
}

const crashStatus = 9

// dieMigrating ends the process at a step.
func dieMigrating(dir, at string) {
	opts := store.Options{Dir: dir}
	opts.Hooks.Migrating = func(step string) {
		if step == at {
			os.Exit(crashStatus)
		}
	}
	_, err := store.Migrate(context.Background(), opts, "", func(s *store.Store) check.Graphs { return graphsOf(context.Background(), s) })
	fmt.Println(err)
	os.Exit(1)
}

// TestMigrationTidies: data of an import that was in progress at a crash is removed, as at the
// start of any store, and does not disturb the migration.
func TestMigrationTidies(t *testing.T) {
	t.Parallel()
	const unborn = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	dir := copyGolden(t, store.FormatVersion-1)
	db, err := badger.OpenManaged(badger.DefaultOptions(dir).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	txn := db.NewTransactionAt(db.MaxVersion(), true)
	err = errors.Join(
		txn.Set(layout.RunKey(nil, layout.KindImport, 0, unborn), codec.Mark),
		txn.Set(layout.EntryKey(0, unborn, 1), someEntry(t, txn)),
		txn.CommitAt(db.MaxVersion()+1, nil), db.Close(),
	)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Migrate(context.Background(), Data{Dir: dir}, ""); err != nil {
		t.Fatal(err)
	}
	inOrder(t, dir)
}

// someEntry is the value of the first entry of the database.
func someEntry(t *testing.T, txn *badger.Txn) []byte {
	t.Helper()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{layout.KindEntry}})
	defer it.Close()
	it.Rewind()
	value, err := it.Item().ValueCopy(nil)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestRepairOfADirectory: a directory without a fault stays as it is.
func TestRepairOfADirectory(t *testing.T) {
	t.Parallel()
	dir := copyGolden(t, store.FormatVersion)
	var done CheckRepair
	err := Repair(context.Background(), Data{Dir: dir}, func(_ int32, one CheckRepair) { done = one })
	if err != nil || done.Runs != 7 || len(done.Rows) > 0 || len(done.Broken) > 0 {
		t.Fatalf("a directory in order: %+v, %v", done, err)
	}
	if err := Repair(context.Background(), Data{Dir: t.TempDir()}, func(int32, CheckRepair) {}); !errors.Is(err, ErrUnusable) {
		t.Fatalf("no store: %v", err)
	}
}

// writeGoldenDirectory makes the runs that every golden directory has.
func writeGoldenDirectory(t *testing.T) {
	t.Helper()
	dir, ctx := goldenFiles(store.FormatVersion), context.Background()
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o750)); err != nil {
		t.Fatal(err)
	}
	r := openGolden(t, dir)
	_, err := r.RegisterPack(ctx, packs.RegisterRequest{Call: r.call(), Document: []byte(goldenPack)})
	r.check(err)
	start := func(id string) {
		answer, err := r.StartRun(ctx, runtime.StartRequest{
			Call: r.call(), Pack: "golden", Execution: machine.Caller, Variables: []byte(`{"goal":"g"}`),
			Input: goldenParts("begin"), Labels: []machine.Label{{Key: "kind", Value: "golden"}}, RequestID: id,
		})
		r.check(err)
		r.run = answer.RunID
	}
	for n, name := range []string{"retries", "steps", "timeout", "max_visits", "fork"} {
		start(fmt.Sprint("start-", n))
		goldenRuns[name](r)
	}
	start("start-100")
	for n := range 21 {
		_, err := r.SetArtifacts(ctx, runtime.ArtifactsRequest{RunRef: r.ref(), WriteID: fmt.Sprint("set-", n), TurnToken: r.turn().TurnToken, Artifacts: []machine.ArtifactWrite{
			{Name: "note", Value: fmt.Appendf(nil, "note %d", n)}, {Name: "log", Value: fmt.Appendf(nil, "[%d]", n)},
		}})
		r.check(err)
	}
	r.request("run_tests", `{"a":9}`)
	r.close()
	// Badger creates this file again.
	r.check(os.Remove(filepath.Join(dir, "DISCARD")))
}
