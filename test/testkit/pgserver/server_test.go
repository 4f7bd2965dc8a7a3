package pgserver_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

func TestMain(m *testing.M) { pgserver.Main(m) }

// TestServerSurvivesKills: what was committed is there after each way of an end.
func TestServerSurvivesKills(t *testing.T) {
	t.Parallel()
	s := pgserver.Start(t, pgserver.Durable(), pgserver.Setting("max_connections", "20"))
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
	for _, kind := range []pgserver.Standby{pgserver.Synchronous, pgserver.Asynchronous} {
		primary, standby := pgserver.StartWithStandby(t, kind)
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
	s := pgserver.Start(t)
	s.Pause(t)
	s.Resume(t)
	if got := s.Query(t, "postgres", "SELECT 1"); got != "1" {
		t.Fatal(got)
	}
}

// TestDatabasesAreApart: each test has a database of its own on one server.
func TestDatabasesAreApart(t *testing.T) {
	t.Parallel()
	one, two := pgserver.Database(t), pgserver.Database(t)
	if one == two || !strings.Contains(one, pgserver.Password) {
		t.Fatal(one, two)
	}
	s := pgserver.Shared(t)
	if !strings.HasPrefix(one, strings.TrimSuffix(s.URL("test_"), "?sslmode=disable")) {
		t.Fatal(one)
	}
}

// TestBouncerStandsBetween: what is asked of it the server answers, and connections are
// shared as transactions end.
func TestBouncerStandsBetween(t *testing.T) {
	t.Parallel()
	s := pgserver.Start(t)
	addr := s.Bouncer(t)
	conn, err := pgconn.Connect(t.Context(), pgserver.URL("postgres", addr))
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
