package preflight_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/internal/store/pg/preflight"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

func TestMain(m *testing.M) { pgserver.Main(m) }

// TestLook: a server says what it is set to, and why it cannot be used is one line with its
// reason, that has no password.
func TestLook(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := pgserver.Start(t, pgserver.Setting("fsync", "off"), pgserver.Setting("synchronous_commit", "local"))
	got, err := preflight.Inspect(ctx, server.URL("postgres"), "db", "pawl")
	if err != nil {
		t.Fatal(err)
	}
	if got.Fsync != "off" || got.FullPages != "on" || got.Commit != "local" || got.Standbys != "" || got.Following != 0 || got.Version < 150000 || got.Ahead != 0 || got.Schema != (preflight.Schema{}) {
		t.Errorf("%+v", got)
	}
	server.Query(t, "postgres", "CREATE SCHEMA other; CREATE TABLE other.part (id int); CREATE TABLE other.x (id int)")
	if got, err := preflight.Inspect(ctx, server.URL("postgres"), "db", "other"); err != nil || got.Schema != (preflight.Schema{Tables: 2}) {
		t.Errorf("another schema: %+v, %v", got.Schema, err)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	withPasswords(t, server)
	broken := filepath.Join(t.TempDir(), "root.pem")
	if err := os.WriteFile(broken, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := server.URL("postgres")
	for name, tt := range map[string]struct {
		url    string
		reason preflight.Reason
		words  string
	}{
		"wrong password": {strings.Replace(url, pgserver.Password, "s3cret", 1), preflight.NoPassword, "--store-password-file"},
		"no database":    {server.URL("absent"), preflight.NoDatabase, "CREATE DATABASE"},
		"nobody there":   {pgserver.URL("postgres", nobody), preflight.Unreachable, "connection refused"},
		"no such host":   {"postgres://u:s3cret@absent.invalid/x", preflight.Unreachable, "absent.invalid"},
		"no TLS":         {strings.Replace(url, "sslmode=disable", "sslmode=require", 1), preflight.NoTrust, "sslmode"},
		"no root":        {url + "&sslrootcert=" + broken, preflight.SchemaOpened, "file"},
		"no such file":   {strings.Replace(url, "sslmode=disable", "sslmode=verify-full&sslrootcert=/absent.pem", 1), preflight.SchemaOpened, "absent.pem"},
	} {
		_, err := preflight.Inspect(ctx, tt.url, "postgres://db/runs", "pawl")
		told, ok := errors.AsType[*preflight.Error](err)
		if !ok || told.Reason != tt.reason || !strings.Contains(err.Error(), tt.words) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		for _, secret := range []string{"s3cret", pgserver.Password} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the password is told: %v", name, err)
			}
		}
	}
}

// withPasswords has a server ask for the password of its user.
func withPasswords(t *testing.T, server *pgserver.Server) {
	t.Helper()
	server.Query(t, "postgres", "ALTER ROLE pawl PASSWORD '"+pgserver.Password+"'")
	file := server.Query(t, "postgres", "SHOW hba_file")
	server.Query(t, "postgres", "COPY (SELECT 'host all all 127.0.0.1/32 scram-sha-256') TO '"+file+"'")
	server.Set(t, nil)
}

// TestLookAtStandbys: a synchronous one that follows is seen, and one that is asked itself says
// that it is one.
func TestLookAtStandbys(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	primary, standby := pgserver.StartWithStandby(t, pgserver.Synchronous)
	got, err := preflight.Inspect(ctx, primary.URL("postgres"), "db", "pawl")
	if err != nil || got.Following != 1 || got.Standbys == "" || got.Recovering || got.Hidden {
		t.Errorf("%+v, %v", got, err)
	}
	primary.Query(t, "postgres", "CREATE ROLE plain LOGIN")
	if got, err := preflight.Inspect(ctx, strings.Replace(primary.URL("postgres"), "pawl:", "plain:", 1), "db", "pawl"); err != nil || got.Following != 0 || !got.Hidden {
		t.Errorf("by who may not see: %+v, %v", got, err)
	}
	if got, err := preflight.Inspect(ctx, standby.URL("postgres"), "db", "pawl"); err != nil || !got.Recovering {
		t.Errorf("the standby: %+v, %v", got, err)
	}
	standby.Stop(t)
	primary.Await(t, "postgres", "SELECT count(*) = 0 FROM pg_stat_replication")
	if got, err := preflight.Inspect(ctx, primary.URL("postgres"), "db", "pawl"); err != nil || got.Following != 0 {
		t.Errorf("without it: %+v, %v", got, err)
	}
}

// TestFindHindrance: a lock for which sessions of Pawl wait is found with the session and the table, and commits that wait
// for a standby are found with the setting. The result has the error that is explained. Without either there is nothing to
// find.
func TestFindHindrance(t *testing.T) {
	t.Parallel()
	primary, standby := pgserver.StartWithStandby(t, pgserver.Synchronous)
	url := primary.URL("postgres")
	primary.Query(t, "postgres", "CREATE SCHEMA pawl")
	primary.Query(t, "postgres", "CREATE TABLE pawl.part (id integer)")
	late := errors.New("the call was not answered")
	find := func() *preflight.Error { return preflight.FindHindrance(t.Context(), url, "here", "pawl", late) }
	await := func(reason preflight.Reason, words ...string) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			got := find()
			if got != nil && got.Reason == reason {
				if !errors.Is(got, late) || !strings.Contains(got.Error(), late.Error()) {
					t.Errorf("%v does not have its cause", got)
				}
				for _, word := range words {
					if !strings.Contains(got.Error(), word) {
						t.Errorf("%q does not have %q", got, word)
					}
				}
				return
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("%v after a minute, want %s", got, reason)
			}
		}
	}
	if got := find(); got != nil {
		t.Fatalf("without a fault: %v", got)
	}

	holder, err := pgx.Connect(t.Context(), url+"&application_name=editor")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.Background())
	if _, err := holder.Exec(t.Context(), "BEGIN; LOCK TABLE pawl.part"); err != nil {
		t.Fatal(err)
	}
	await(preflight.Locked, "editor", "pawl.part", "idle in transaction", "pg_terminate_backend(")
	exec := func(conn *pgx.Conn, text string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	exec(holder, "ROLLBACK")
	// A long reader, as a dump of the database, and a writer of other rows have no session wait.
	exec(holder, "BEGIN; INSERT INTO pawl.part VALUES (7); SELECT * FROM pawl.part")
	if got := find(); got != nil {
		t.Errorf("a lock for which nothing waits: %v", got)
	}
	exec(holder, "ROLLBACK")
	// A row is locked, and a session of Pawl waits for it. The owner of the schema may not see the state of other roles.
	primary.Query(t, "postgres", "INSERT INTO pawl.part VALUES (1)")
	primary.Query(t, "postgres", "CREATE ROLE plain LOGIN; GRANT ALL ON SCHEMA pawl TO plain; GRANT ALL ON pawl.part TO plain")
	plain := strings.Replace(url, "pawl:", "plain:", 1)
	waiter, err := pgx.Connect(t.Context(), plain+"&application_name=pawl")
	if err != nil {
		t.Fatal(err)
	}
	defer waiter.Close(context.Background())
	exec(holder, "BEGIN; UPDATE pawl.part SET id = 2")
	waited := make(chan error, 1)
	go func() {
		_, err := waiter.Exec(context.Background(), "UPDATE pawl.part SET id = 3")
		waited <- err
	}()
	url = plain
	await(preflight.Locked, "editor", "pawl.part", "pg_read_all_stats", "pg_terminate_backend(")
	url = primary.URL("postgres")
	exec(holder, "ROLLBACK")
	if err := <-waited; err != nil {
		t.Error(err)
	}
	// A lock of Pawl itself, for example of a migration, is no hindrance.
	exec(holder, "SET application_name = 'pawl'; BEGIN; LOCK TABLE pawl.part")
	if got := find(); got != nil {
		t.Errorf("a lock of Pawl: %v", got)
	}
	exec(holder, "ROLLBACK")

	standby.Kill(t)
	committed := make(chan error, 1)
	go func() {
		_, err := holder.Exec(context.Background(), "INSERT INTO pawl.part VALUES (1)")
		committed <- err
	}()
	await(preflight.NotFollowed, "standby1", "0 of these stream")
	primary.Set(t, map[string]string{"synchronous_standby_names": ""})
	if err := <-committed; err != nil {
		t.Error(err)
	}
}

// TestIsLate: only an answer that did not come in time is explained by a lock or a standby.
func TestIsLate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&pgconn.PgError{Code: "55P03"}, true},
		{&pgconn.PgError{Code: "57014"}, true},
		{fmt.Errorf("heartbeat: %w", context.DeadlineExceeded), true},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, true},
		{fmt.Errorf("no answer within 1s: %w", &net.OpError{Op: "read", Err: net.ErrClosed}), true},
		{&pgconn.PgError{Code: "53100"}, false},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, false},
		{context.Canceled, false},
	} {
		if got := preflight.IsLate(c.err); got != c.want {
			t.Errorf("%v: late is %v", c.err, got)
		}
	}
}
