package pg_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/internal/testkit/pg"
)

func TestMain(m *testing.M) { pg.Main(m) }

// TestServerSurvivesKills: what was committed is there after each way of an end.
func TestServerSurvivesKills(t *testing.T) {
	t.Parallel()
	s := pg.Start(t, pg.Durable(), pg.Setting("max_connections", "20"))
	s.Query(t, "postgres", "CREATE TABLE kept (n int)")
	for i, end := range []func(testing.TB){s.Kill, s.Stop, func(testing.TB) {}, s.Kill} {
		s.Query(t, "postgres", "INSERT INTO kept VALUES (1)")
		end(t)
		s.Restart(t)
		if got, want := s.Query(t, "postgres", "SELECT count(*) FROM kept"), string(rune('1'+i)); got != want {
			t.Fatalf("%s rows after %d ends", got, i+1)
		}
	}
	if got := s.Query(t, "postgres", "SHOW fsync") + s.Query(t, "postgres", "SHOW max_connections"); got != "on20" {
		t.Fatal(got)
	}
	s.Set(t, map[string]string{"work_mem": "5MB"})
	if got := s.Query(t, "postgres", "SHOW work_mem"); got != "5MB" {
		t.Fatal(got)
	}
}

// TestStandbyTakesOver: a synchronous standby has what was answered, and takes writes once it
// is promoted.
func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	for _, kind := range []pg.Standby{pg.Synchronous, pg.Asynchronous} {
		primary, standby := pg.StartWithStandby(t, kind)
		primary.Query(t, "postgres", "CREATE TABLE kept AS SELECT 7 AS n")
		standby.Await(t, "postgres", "SELECT pg_last_wal_replay_lsn() >= '"+primary.Query(t, "postgres", "SELECT pg_current_wal_lsn()")+"'")
		primary.Kill(t)
		standby.Promote(t)
		if got := standby.Query(t, "postgres", "INSERT INTO kept VALUES (8) RETURNING n"); got != "8" {
			t.Fatal(got)
		}
		if got := standby.Query(t, "postgres", "SELECT string_agg(n::text, ',' ORDER BY n) FROM kept"); got != "7,8" {
			t.Fatal(got)
		}
	}
}

// TestPauseIsNoEnd: a server that was stopped goes on where it was.
func TestPauseIsNoEnd(t *testing.T) {
	t.Parallel()
	s := pg.Start(t)
	s.Pause(t)
	s.Resume(t)
	if got := s.Query(t, "postgres", "SELECT 1"); got != "1" {
		t.Fatal(got)
	}
}

// TestDatabasesAreApart: each test has a database of its own on one server.
func TestDatabasesAreApart(t *testing.T) {
	t.Parallel()
	one, two := pg.Database(t), pg.Database(t)
	if one == two || !strings.Contains(one, pg.Password) {
		t.Fatal(one, two)
	}
	s := pg.Shared(t)
	if !strings.HasPrefix(one, strings.TrimSuffix(s.URL("test_"), "?sslmode=disable")) {
		t.Fatal(one)
	}
}

// TestBouncerStandsBetween: what is asked of it the server answers, and connections are
// shared as transactions end.
func TestBouncerStandsBetween(t *testing.T) {
	t.Parallel()
	s := pg.Start(t)
	addr := s.Bouncer(t)
	conn, err := pgconn.Connect(t.Context(), pg.URL("postgres", addr))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	results, err := conn.Exec(t.Context(), "SELECT inet_server_port()").ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if got := string(results[0].Rows[0][0]); !strings.HasSuffix(s.Addr(), ":"+got) || strings.HasSuffix(addr, ":"+got) {
		t.Fatal(got, s.Addr(), addr)
	}
}
