package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/internal/store/pg/preflight"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// newSplitStore returns a stopped store with a partition for each tenant, and what its namespaces have.
func newSplitStore(t *testing.T) (c config.Config, residents []resident) {
	t.Helper()
	c = sharedSettings(t)
	c.Packs, c.Namespaces, c.A2A = []string{packFile}, tenants, false
	residents = newStandaloneStore(t, c)
	if _, err := SplitPartitions(t.Context(), databaseOf(c), func(string) {}); err != nil {
		t.Fatal(err)
	}
	return c, residents
}

// addSchema is another schema of the same database.
func addSchema(t *testing.T, d Database) Database {
	t.Helper()
	d.Schema = pgserver.Schema(t.TempDir())
	return d
}

// TestAdded adds every count.
func TestAdded(t *testing.T) {
	t.Parallel()
	var one CheckReport
	fields := reflect.ValueOf(&one).Elem()
	for i := range fields.NumField() {
		fields.Field(i).SetInt(int64(i + 1))
	}
	sum := reflect.ValueOf(added(one, one))
	for i := range sum.NumField() {
		if got := sum.Field(i).Int(); got != 2*int64(i+1) {
			t.Errorf("%s is %d", sum.Type().Field(i).Name, got)
		}
	}
}

// TestCommandsSeeAllPartitions: commands count and verify all partitions. An error says in
// which partition the fault is.
func TestCommandsSeeAllPartitions(t *testing.T) {
	t.Parallel()
	c, residents := newSplitStore(t)
	data, ctx := Data{Database: databaseOf(c)}, t.Context()
	proven, err := VerifyData(ctx, data, "")
	byPart := map[int32]int{}
	for _, v := range proven {
		byPart[v.Part]++
	}
	if err != nil || !maps.Equal(byPart, map[int32]int{0: 2, 1: 2, 2: 3, 3: 2}) {
		t.Errorf("%v, %v", byPart, err)
	}
	if proven, err = VerifyData(ctx, data, residents[3].open); err != nil || len(proven) != 1 || proven[0].Part != 3 || !proven[0].OK() {
		t.Errorf("%v, %v", proven, err)
	}
	if _, err := VerifyData(ctx, data, noData.run); !errors.Is(err, machine.ErrNoRun) {
		t.Errorf("%v", err)
	}
	stats, err := StatsOf(ctx, data)
	var names []string
	for _, space := range stats.GetNamespaces() {
		names = append(names, fmt.Sprint(space.GetPartition(), " ", space.GetName(), " ", space.GetRuns()[0].GetRuns()+space.GetRuns()[1].GetRuns() > 0, " ", space.GetBlobs()))
	}
	if err != nil || !slices.Equal(names, []string{"0 default true 1", "1 blue true 1", "2 green true 1", "3 red true 1"}) || stats.GetTreeBytes() == 0 {
		t.Errorf("%v, %v", names, err)
	}
	for _, rows := range stats.GetShared() {
		if rows.GetKind() == "namespace" && rows.GetRows() != 3 {
			t.Errorf("%v", rows)
		}
	}
	var repaired []int32
	told := func(part int32, done CheckRepair) {
		if repaired = append(repaired, part); len(done.Rows) > 0 || len(done.Broken) > 0 {
			t.Errorf("%d: %+v", part, done)
		}
	}
	if err := Repair(ctx, data, told); err != nil || !slices.Equal(repaired, []int32{0, 1, 2, 3}) {
		t.Errorf("%v, %v", repaired, err)
	}
	faulty(t, c, residents)
}

// faulty checks that the error about a fault names its partition, as does the error that another
// process has the partition.
func faulty(t *testing.T, c config.Config, residents []resident) {
	t.Helper()
	data, ctx := Data{Database: databaseOf(c)}, t.Context()
	pgserver.Shared(t).Query(t, "postgres", fmt.Sprintf("UPDATE %s.cold SET v = substr(v, 1, length(v) - 1) WHERE part = 2 AND k >= 'j'::bytea AND k < 'k'::bytea AND position('%s'::bytea IN k) > 0", c.StoreSchema, residents[2].ended))
	_, err := Check(ctx, data)
	if fault, ok := errors.AsType[*CheckFault](err); !ok || PartOf(err) != 2 || fault.Run != residents[2].ended || !strings.HasPrefix(err.Error(), "partition 2: run ") {
		t.Errorf("%v", err)
	}
	proven, err := VerifyData(ctx, data, "")
	for _, v := range proven {
		if v.OK() != (v.RunID != residents[2].ended || v.Part != 2) {
			t.Errorf("%+v", v)
		}
	}
	if err != nil || len(proven) != 9 {
		t.Errorf("%v, %v", proven, err)
	}
	s, err := openExisting(Data{Database: data.Database.part(1)}, false)
	if err != nil {
		t.Fatal(err)
	}
	_, counted := StatsOf(ctx, data)
	_, checked := Check(ctx, data)
	kept := t.TempDir()
	backed := Backup(ctx, data, BackupTo{Dir: kept}, func(done BackupDone) {
		if done.Part < 2 {
			t.Errorf("%+v", done)
		}
	})
	for what, err := range map[string]error{"stats": counted, "check": checked, "backup": backed} {
		if reasonOf(err) != preflight.SchemaOwned || PartOf(err) != 1 || !errors.Is(err, ErrUnusable) || !strings.HasPrefix(err.Error(), "partition 1: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if files, err := backupsIn(kept); err != nil || len(files) > 0 {
		t.Errorf("the first partition is the last one: %v, %v", files, err)
	}
}

// erasableIn starts a run that can be erased in a namespace, which has a partition of its own.
func erasableIn(t *testing.T, c config.Config, namespace string) {
	t.Helper()
	node := begin(t, c)
	at := clientsOf(dial(t, node.ready.GRPC))
	pack := strings.NewReplacer(`"engine": {`, `"engine": {"x_pawl": {"erasable": true}, `, `"id": "team"`, `"id": "erasable"`).Replace(teamPack)
	_, err := at.packs.RegisterPack(t.Context(), &pawlv1.RegisterPackRequest{Namespace: namespace, Content: []byte(pack)})
	if err == nil {
		_, err = at.runs.StartRun(t.Context(), &pawlv1.StartRunRequest{Namespace: namespace, Pack: "erasable", Execution: pawlv1.Execution_EXECUTION_CALLER})
	}
	if err != nil {
		t.Fatal(err)
	}
	end(t, node)
}

// backedUpIn returns the backups in a directory, by partition.
func backedUpIn(t *testing.T, data Data, dir string) (follows map[int32]bool) {
	t.Helper()
	follows = map[int32]bool{}
	var order []int32
	err := Backup(t.Context(), data, BackupTo{Dir: dir}, func(done BackupDone) {
		follows[done.Part] = done.BasedOn != ""
		order = append(order, done.Part)
		if keys, err := os.Stat(filepath.Join(partDir(dir, done.Part), keyring.Name)); done.RunKeys != (err == nil && keys.Size() > 0) {
			t.Errorf("%+v", done)
		}
		if filepath.Dir(done.File) != partDir(dir, done.Part) {
			t.Errorf("%+v", done)
		}
	})
	if err != nil || !slices.Equal(order, []int32{3, 2, 1, 0}) {
		t.Fatalf("%v, %v", order, err)
	}
	return follows
}

// TestBackupsOfPartitions: a restore of backups makes all partitions again, with everything that was
// in each. It does not restore into a directory, and refuses options that are for a single partition.
func TestBackupsOfPartitions(t *testing.T) {
	t.Parallel()
	c, residents := newSplitStore(t)
	erasableIn(t, c, "green")
	data, dir, ctx := Data{Database: databaseOf(c)}, t.TempDir(), t.Context()
	before := mustCheck(t, data.Database)
	if follows := backedUpIn(t, data, dir); !maps.Equal(follows, map[int32]bool{0: false, 1: false, 2: false, 3: false}) {
		t.Errorf("%v", follows)
	}
	if follows := backedUpIn(t, data, dir); !maps.Equal(follows, map[int32]bool{0: true, 1: true, 2: true, 3: true}) {
		t.Errorf("%v", follows)
	}
	none, place := Data{Database: addSchema(t, data.Database)}, filepath.Join(t.TempDir(), "d")
	_, _, err := Restore(ctx, RestoreFrom{Dir: dir}, Data{Dir: place})
	if parts, ok := errors.AsType[*PartsError](err); !ok || !errors.Is(err, ErrUnusable) || !slices.Equal(parts.Parts, []int32{0, 1, 2, 3}) {
		t.Errorf("into a directory: %v", err)
	}
	for _, from := range []RestoreFrom{{Dir: dir, UpTo: "000001.pawlbackup"}, {Dir: dir, RunKeys: filepath.Join(dir, "RUNKEYS")}} {
		if _, _, err := Restore(ctx, from, none); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "one partition") {
			t.Errorf("%+v: %v", from, err)
		}
	}
	if _, err := os.Stat(place); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, err := Check(ctx, none); reasonOf(err) != preflight.SchemaNone {
		t.Errorf("%v", err)
	}
	report, used, err := Restore(ctx, RestoreFrom{Dir: dir}, none)
	if err != nil || report != before || len(used) != 8 {
		t.Fatalf("%+v, %v, %v; want %+v", report, used, err, before)
	}
	if keys := pgserver.Shared(t).Query(t, "postgres", "SELECT min(part) || ' ' || max(part) FROM "+none.Database.Schema+".run_keys"); keys != "2 2" {
		t.Errorf("partitions %s have keys of runs", keys)
	}
	if _, _, err := Restore(ctx, RestoreFrom{Dir: dir}, none); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "has a store already") {
		t.Errorf("%v", err)
	}
	c.StoreSchema = none.Database.Schema
	node := begin(t, c)
	for _, r := range residents {
		// The cursors are of another store, except those of consumers.
		at := clientsOf(dial(t, node.ready.GRPC))
		if waiting, _ := at.read(t, r.namespace, "", "reader"); len(waiting) < len(r.waiting) || !slices.Equal(waiting[:len(r.waiting)], r.waiting) {
			t.Errorf("%s: the consumer has %v, want %v first", r.namespace, waiting, r.waiting)
		}
	}
	end(t, node)
}

// TestBackupsOfHalves: backups of two partitions that both have the same namespace are not
// restored. A directory with the backups of another store takes no backup.
func TestBackupsOfHalves(t *testing.T) {
	t.Parallel()
	c := sharedSettings(t)
	c.Packs, c.Namespaces, c.A2A = []string{packFile}, tenants, false
	newStandaloneStore(t, c)
	data, dir, ctx := Data{Database: databaseOf(c)}, t.TempDir(), t.Context()
	if err := Backup(ctx, data, BackupTo{Dir: dir}, func(BackupDone) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := SplitPartitions(ctx, data.Database, func(string) {}); err != nil {
		t.Fatal(err)
	}
	// This backup breaks off before it reaches the first partition.
	last, err := openExisting(Data{Database: data.Database.part(0)}, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := Backup(ctx, data, BackupTo{Dir: dir}, func(BackupDone) {}); reasonOf(err) != preflight.SchemaOwned {
		t.Errorf("%v", err)
	}
	if err := last.Close(); err != nil {
		t.Error(err)
	}
	to := Data{Database: addSchema(t, data.Database)}
	if _, _, err := Restore(ctx, RestoreFrom{Dir: dir}, to); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "before and after it moved") {
		t.Errorf("%v", err)
	}
	if _, err := Check(ctx, to); reasonOf(err) != preflight.SchemaNone {
		t.Errorf("%v", err)
	}
	// The first partition has no record of its backups any more, because it differs from the one before.
	if err := Backup(ctx, data, BackupTo{Dir: dir}, func(BackupDone) {}); err == nil || !strings.Contains(err.Error(), "BACKUP_FOREIGN") {
		t.Errorf("%v", err)
	}
	if err := Backup(ctx, data, BackupTo{Dir: dir, Full: true}, func(BackupDone) {}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Restore(ctx, RestoreFrom{Dir: dir}, to); err != nil {
		t.Error(err)
	}
	if err := Backup(ctx, Data{Dir: copyGolden(t, 2)}, BackupTo{Dir: dir, Full: true}, func(BackupDone) {}); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "no partition 1") {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"partition-64", "partition-00"} {
		odd := t.TempDir()
		if err := os.Mkdir(filepath.Join(odd, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Restore(ctx, RestoreFrom{Dir: odd}, to); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v", err)
		}
	}
}

// TestMovesAreOfOnePartition: a store with several partitions cannot be moved into a directory, and
// no store can be moved into it.
func TestMovesAreOfOnePartition(t *testing.T) {
	t.Parallel()
	c, _ := newSplitStore(t)
	data, dir := Data{Database: databaseOf(c)}, filepath.Join(t.TempDir(), "d")
	rows := rowsOf(t, c)
	for what, places := range map[string][2]Data{"out of it": {data, {Dir: dir}}, "into it": {{Dir: copyGolden(t, 2)}, data}} {
		_, err := Move(t.Context(), places[0], places[1], func(string) { t.Errorf("%s: it begins", what) })
		if parts, ok := errors.AsType[*PartsError](err); !ok || !errors.Is(err, ErrUnusable) || !slices.Equal(parts.Parts, []int32{0, 1, 2, 3}) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) || rowsOf(t, c) != rows {
		t.Errorf("something was made: %v", err)
	}
}

// TestRestoreOfPartitionsBrokenOff: a process dies at any step of a restore. It leaves a schema
// without a store, or with all partitions. The next process makes them, or finds them.
func TestRestoreOfPartitionsBrokenOff(t *testing.T) {
	t.Parallel()
	if at := os.Getenv("PAWL_PARTS_DIE"); at != "" {
		dieRestoringInto(os.Getenv("PAWL_PARTS_FROM"), Database{URL: dsn.Parse(os.Getenv("PAWL_PARTS_TO")), Schema: os.Getenv("PAWL_PARTS_SCHEMA")}, at)
	}
	c, _ := newSplitStore(t)
	data, dir := Data{Database: databaseOf(c)}, t.TempDir()
	before := mustCheck(t, data.Database)
	backedUpIn(t, data, dir)
	for _, step := range []string{"restored", "filled", "loaded", "compared"} {
		to := Data{Database: addSchema(t, data.Database)}
		child := exec.Command(os.Args[0], "-test.run", "^TestRestoreOfPartitionsBrokenOff$")
		child.Env = append(os.Environ(), "PAWL_PARTS_FROM="+dir, "PAWL_PARTS_TO="+to.Database.URL.Secret(), "PAWL_PARTS_SCHEMA="+to.Database.Schema, "PAWL_PARTS_DIE="+step, "TMPDIR="+t.TempDir())
		var exit *exec.ExitError
		if out, err := child.CombinedOutput(); !errors.As(err, &exit) || exit.ExitCode() != crashStatus {
			t.Fatalf("%v: %s", err, out)
		}
		report, err := Check(t.Context(), to)
		if whole := step == "loaded" || step == "compared"; !whole {
			if reasonOf(err) != preflight.SchemaNone {
				t.Errorf("%s: %+v, %v", step, report, err)
			}
			report, _, err = Restore(t.Context(), RestoreFrom{Dir: dir}, to)
		}
		if err != nil || report != before {
			t.Errorf("%s: %+v, %v; want %+v", step, report, err, before)
		}
		placed := pgserver.Shared(t).Query(t, "postgres", "SELECT string_agg(name || part, ' ' ORDER BY name) FROM "+to.Database.Schema+".namespace")
		if placed != "blue1 green2 red3" {
			t.Errorf("%s: %s", step, placed)
		}
	}
}

// dieRestoringInto ends the process at a step.
func dieRestoringInto(from string, to Database, at string) {
	data := Data{Database: to}
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
