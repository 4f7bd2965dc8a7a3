package pg_test

import (
	"errors"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// newer returns the migrations of a program that has one more migration.
func newer(t *testing.T, text string) fs.FS {
	t.Helper()
	files := fstest.MapFS{"migrations/5_later.sql": {Data: []byte(text)}}
	for _, name := range names(t) {
		data, err := fs.ReadFile(pg.Migrations, name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: data}
	}
	return files
}

func names(t *testing.T) []string {
	t.Helper()
	found, err := fs.Glob(pg.Migrations, "migrations/*.sql")
	if err != nil || len(found) < 4 {
		t.Fatalf("%v, %v", found, err)
	}
	return found
}

// olderMigrations returns the migrations of a program that has only the first ones.
func olderMigrations(t *testing.T, last int) fs.FS {
	t.Helper()
	files := fstest.MapFS{}
	for _, name := range names(t)[:last] {
		data, err := fs.ReadFile(pg.Migrations, name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: data}
	}
	return files
}

// adds is a migration that only adds tables or columns.
const adds = `-- oldest: 4
ALTER TABLE {schema}.part ADD COLUMN later text NOT NULL DEFAULT 'x';
ALTER TABLE {schema}.node ADD COLUMN later text;
CREATE TABLE {schema}.later (id bigint PRIMARY KEY);`

// TestOlderProgramsLiveOn: after a newer program has only added something to the schema, an older program
// continues to commit, and it can be started again.
func TestOlderProgramsLiveOn(t *testing.T) {
	t.Parallel()
	w := newWay(t, pgserver.Shared(t))
	db, err := pg.Open(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	kvtest.Commit(t, db, map[string][]byte{"a": []byte("1")})
	for range 2 {
		if err := pg.MigrateWith(w.cfg, newer(t, adds)); err != nil {
			t.Fatal(err)
		}
	}
	kvtest.Commit(t, db, map[string][]byte{"a": []byte("2")})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	kvtest.Commit(t, open(t, w.cfg), map[string][]byte{"a": []byte("3")})
	if found := w.query(t, "SELECT count(*) FROM pawl.later"); found != "0" {
		t.Error(found)
	}
}

// TestOlderProgramsAreOutdated: a migration that does more than add something is refused while an older
// program lives. After the migration, older programs are refused with an error that has all version numbers.
func TestOlderProgramsAreOutdated(t *testing.T) {
	t.Parallel()
	w := newWay(t, pgserver.Shared(t))
	db, err := pg.Open(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	via, err := pg.Connect(t.Context(), w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer via.Close()
	changes := newer(t, "-- oldest: 5\nALTER TABLE {schema}.part RENAME COLUMN address TO place;")
	err = pg.MigrateWith(w.cfg, changes)
	if living, ok := errors.AsType[*pg.LivingError](err); !ok || living.Version != 5 || living.Address != "first:1" {
		t.Errorf("while one lives: %v", err)
	}
	kvtest.Commit(t, db, map[string][]byte{"a": []byte("1")})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := pg.MigrateWith(w.cfg, changes); err != nil {
		t.Fatal(err)
	}
	standing := w.cfg
	standing.Pool = via
	for name, cfg := range map[string]pg.Config{"started anew": w.cfg, "it stood by": standing} {
		_, err := pg.Open(cfg)
		refused, ok := errors.AsType[*pg.SchemaError](err)
		if !ok || *refused != (pg.SchemaError{Schema: "pawl", Found: 5, Oldest: 5, Want: 4}) || !strings.Contains(err.Error(), "version 5") || !strings.Contains(err.Error(), "knows 4") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOneStoreBecomesAPartition: the store of a program without partitions becomes partition 0, with the same
// format. That program is refused afterwards.
func TestOneStoreBecomesAPartition(t *testing.T) {
	t.Parallel()
	w := newWay(t, pgserver.Shared(t))
	if err := pg.MigrateWith(w.cfg, olderMigrations(t, 3)); err != nil {
		t.Fatal(err)
	}
	w.query(t, `INSERT INTO pawl.part (id, epoch, commit_no, format) VALUES (0, 4, 9, 3);
		INSERT INTO pawl.hot VALUES (0, 'b', '1', 8); INSERT INTO pawl.cold VALUES (0, 'a', '2', 9); INSERT INTO pawl.run_keys VALUES (0, 0, 'k');
		INSERT INTO pawl.node (id, address, key, leaving, lease_until, since) VALUES ('gone', 'gone:1', '', false, now(), now())`)
	db := open(t, w.cfg)
	mustShow(t, db, map[string]string{"a": "2", "b": "1"})
	if db.LastKey() != 9 || db.Format() != 3 {
		t.Errorf("group %d in format %d", db.LastKey(), db.Format())
	}
	kvtest.Commit(t, db, map[string][]byte{"a": []byte("3")})
	mustShow(t, db, map[string]string{"a": "3", "b": "1"})
	if got := w.query(t, "SELECT parts || ' ' || (SELECT count(*) FROM pawl.namespace) FROM pawl.node"); got != "1 0" {
		t.Errorf("partitions of a node and namespaces are %s", got)
	}
	err := pg.MigrateWith(w.cfg, olderMigrations(t, 3))
	if refused, ok := errors.AsType[*pg.SchemaError](err); !ok || *refused != (pg.SchemaError{Schema: "pawl", Found: 4, Oldest: 4, Want: 3}) {
		t.Errorf("the older program: %v", err)
	}
}

// TestARefusedUpgradeMigratesNothing: an upgrade of several migrations, of which the last one works with no older
// program, is refused before the first one while a program of any older version lives. This program starts again.
func TestARefusedUpgradeMigratesNothing(t *testing.T) {
	t.Parallel()
	for has := 1; has <= 4; has++ {
		t.Run(strconv.Itoa(has), func(t *testing.T) {
			t.Parallel()
			w := newWay(t, pgserver.Shared(t))
			older := olderMigrations(t, has)
			next := newer(t, adds).(fstest.MapFS)
			next["migrations/6_changes.sql"] = &fstest.MapFile{Data: []byte("-- oldest: 6\nALTER TABLE {schema}.part RENAME COLUMN address TO place;")}
			if err := pg.MigrateWith(w.cfg, older); err != nil {
				t.Fatal(err)
			}
			// From the second migration on, a sidecar without a partition is in a table of its own.
			leases := map[bool]string{
				false: "INSERT INTO pawl.part (id, owner, address, lease_until) VALUES (7, 'old', 'old:1', now() + interval '50 s')",
				true:  "INSERT INTO pawl.node (id, address, key, leaving, lease_until, since) VALUES ('old', 'old:1', '', false, now() + interval '50 s', now())",
			}
			w.query(t, leases[has > 1])
			err := pg.MigrateWith(w.cfg, next)
			if living, ok := errors.AsType[*pg.LivingError](err); !ok || living.Version != 6 || living.Address != "old:1" {
				t.Fatalf("while one lives: %v", err)
			}
			if found := w.query(t, "SELECT max(version_id) FROM pawl.schema_version"); found != strconv.Itoa(has) {
				t.Errorf("the schema has version %s, want %d", found, has)
			}
			if err := pg.MigrateWith(w.cfg, older); err != nil {
				t.Errorf("the older program starts again: %v", err)
			}
			w.query(t, map[bool]string{false: "DELETE FROM pawl.part", true: "DELETE FROM pawl.node"}[has > 1])
			if err := pg.MigrateWith(w.cfg, next); err != nil {
				t.Fatal(err)
			}
			if found := w.query(t, "SELECT max(version_id) FROM pawl.schema_version"); found != "6" {
				t.Errorf("the schema has version %s", found)
			}
		})
	}
}

// TestAMigrationHoldsNobodyUp: a migration that waits for a reader does not block commits in the meantime.
func TestAMigrationHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	w := newWay(t, pgserver.Shared(t))
	db := open(t, w.cfg)
	kvtest.Commit(t, db, map[string][]byte{"a": []byte("1")})
	reader, err := pgx.Connect(t.Context(), w.server.URL(w.name))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close(t.Context())
	if _, err := reader.Exec(t.Context(), "BEGIN; SELECT * FROM pawl.part"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- pg.MigrateWith(w.cfg, newer(t, adds)) }()
	w.server.Await(t, w.name, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock' AND relation = 'pawl.part'::regclass")
	// A migration that waited for the lock of the table without a limit would block these commits.
	for range 20 {
		kvtest.Commit(t, db, map[string][]byte{"a": []byte("2")})
	}
	select {
	case err := <-done:
		t.Fatalf("it was not in the way: %v", err)
	default:
	}
	if _, err := reader.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// added are the statements that a migration may have that only adds something. None of them reads a whole
// table, or prevents older programs from writing rows as before.
var added = []*regexp.Regexp{
	regexp.MustCompile(`^CREATE TABLE `),
	regexp.MustCompile(`^ALTER TABLE \S+ ADD COLUMN \S+ [a-z]+( NOT NULL DEFAULT '?[\w-]*'?| DEFAULT '?[\w-]*'?)?$`),
}

func onlyAdds(text string) bool {
	for statement := range strings.SplitSeq(regexp.MustCompile(`(?m)--.*$`).ReplaceAllString(text, ""), ";") {
		statement = strings.Join(strings.Fields(statement), " ")
		fits := statement == ""
		for _, form := range added {
			fits = fits || form.MatchString(statement)
		}
		if !fits {
			return false
		}
	}
	return true
}

// TestMigrationsSayWhoWorksWithThem: each migration names the oldest program that works with it. A migration
// that names an older program than its own only adds something.
func TestMigrationsSayWhoWorksWithThem(t *testing.T) {
	t.Parallel()
	if !onlyAdds(adds) || onlyAdds("DROP TABLE x;") || onlyAdds("ALTER TABLE {schema}.part ADD COLUMN a text NOT NULL;") || onlyAdds("CREATE INDEX i ON {schema}.cold (g);") {
		t.Error("the test itself is wrong")
	}
	for _, name := range names(t) {
		text, err := fs.ReadFile(pg.Migrations, name)
		if err != nil {
			t.Fatal(err)
		}
		number := strings.TrimPrefix(strings.SplitN(name, "_", 2)[0], "migrations/")
		oldest := regexp.MustCompile(`^-- oldest: (\d+)\n`).FindSubmatch(text)
		if oldest == nil {
			t.Errorf("%s does not say so", name)
			continue
		}
		own, _ := strconv.Atoi(number)
		if from, _ := strconv.Atoi(string(oldest[1])); from > own || from < own && !onlyAdds(string(text)) {
			t.Errorf("%s works with programs from %d on, it says", name, from)
		}
	}
	if err := pg.MigrateWith(configOf(t, pgserver.Database(t), "first"), newer(t, "CREATE TABLE {schema}.x ();")); err == nil || !strings.Contains(err.Error(), "5_later.sql") {
		t.Errorf("one that does not say so: %v", err)
	}
}
