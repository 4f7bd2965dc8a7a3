package pg_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// TestCommitsReadWhatTheyWrite: a commit reads only the rows that it writes. This holds for a plan that was
// made while the tables were empty, and for a plan that a session behind a pooler makes for each commit. With
// an earlier statement, a list of deleted keys made each commit read all pairs.
func TestCommitsReadWhatTheyWrite(t *testing.T) {
	t.Parallel()
	raw := pgserver.Database(t)
	db := open(t, configOf(t, raw, "first"))
	kvtest.Commit(t, db, map[string][]byte{"a": []byte("1")})
	conn, err := pgx.Connect(t.Context(), raw)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	explain := func(when string) {
		for _, text := range pg.CommitTexts("pawl") {
			for _, setting := range []string{"force_generic_plan", "force_custom_plan"} {
				plan := explainCommit(t, conn, text, setting)
				for _, bad := range []string{"Seq Scan", "Index Cond: (part = ", "Join Filter"} {
					if strings.Contains(plan, bad) {
						t.Errorf("%s, %s: %s in\n%s", when, setting, bad, plan)
					}
				}
			}
		}
	}
	const fill = `INSERT INTO pawl.cold SELECT 0, decode(md5(i::text), 'hex'), repeat('v', 300)::bytea, 1 FROM generate_series(1, 20000) AS i`
	for _, step := range []struct{ when, sql string }{{"fresh", "SELECT 1"}, {"filled", fill}, {"analyzed", "ANALYZE pawl.cold"}} {
		if _, err := conn.Exec(t.Context(), step.sql); err != nil {
			t.Fatal(err)
		}
		explain(step.when)
	}
}

// explainCommit returns the plan of a commit with three keys of each kind.
func explainCommit(t *testing.T, conn *pgx.Conn, text, setting string) string {
	t.Helper()
	keys := `'{"\\x61","\\x62","\\x63"}'`
	args := "0, '', 1, 1, 1" + strings.Repeat(", "+keys, 6)
	script := "SET plan_cache_mode = " + setting + "; SET enable_seqscan = off; DEALLOCATE ALL; PREPARE x (int, text, bigint, bigint, bigint" + strings.Repeat(", bytea[]", 6) + ") AS " + text
	if _, err := conn.PgConn().Exec(t.Context(), script).ReadAll(); err != nil {
		t.Fatal(err)
	}
	answers, err := conn.PgConn().Exec(t.Context(), "EXPLAIN EXECUTE x ("+args+")").ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var plan strings.Builder
	for _, row := range answers[0].Rows {
		plan.WriteString(string(row[0]) + "\n")
	}
	return plan.String()
}

// TestColdPairsMayBeWrittenOver: one group can overwrite cold pairs and write other pairs.
func TestColdPairsMayBeWrittenOver(t *testing.T) {
	t.Parallel()
	db := open(t, configOf(t, pgserver.Database(t), "first"))
	kvtest.Commit(t, db, map[string][]byte{"a": []byte("1"), "b": []byte("1")})
	kvtest.Commit(t, db, map[string][]byte{"a": []byte("2"), "b": []byte("2"), "c": []byte("2"), "d": []byte("2")})
	for key, want := range map[string]string{"a": "2", "b": "2", "c": "2", "d": "2"} {
		view := db.View(2)
		if got, err := view.Get([]byte(key)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", key, got, err)
		}
		view.Close()
	}
}
