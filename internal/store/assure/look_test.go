package assure_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/store/assure"
	"github.com/pawl-dev/pawl/internal/testkit/pg"
)

func TestMain(m *testing.M) { pg.Main(m) }

// TestLook: a server says what it is set to, and why it cannot be used is one line with its
// reason, that has no password.
func TestLook(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := pg.Start(t, pg.Setting("fsync", "off"), pg.Setting("synchronous_commit", "local"))
	got, err := assure.Look(ctx, server.URL("postgres"), "db", "pawl")
	if err != nil {
		t.Fatal(err)
	}
	if got.Fsync != "off" || got.FullPages != "on" || got.Commit != "local" || got.Standbys != "" || got.Following != 0 || got.Version < 150000 || got.Ahead != 0 || got.Schema != (assure.Schema{}) {
		t.Errorf("%+v", got)
	}
	server.Query(t, "postgres", "CREATE SCHEMA other; CREATE TABLE other.part (id int); CREATE TABLE other.x (id int)")
	if got, err := assure.Look(ctx, server.URL("postgres"), "db", "other"); err != nil || got.Schema != (assure.Schema{Tables: 2}) {
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
		reason assure.Reason
		words  string
	}{
		"wrong password": {strings.Replace(url, pg.Password, "s3cret", 1), assure.NoPassword, "--store-password-file"},
		"no database":    {server.URL("absent"), assure.NoDatabase, "CREATE DATABASE"},
		"nobody there":   {pg.URL("postgres", nobody), assure.Unreachable, "connection refused"},
		"no such host":   {"postgres://u:s3cret@absent.invalid/x", assure.Unreachable, "absent.invalid"},
		"no TLS":         {strings.Replace(url, "sslmode=disable", "sslmode=require", 1), assure.NoTrust, "sslmode"},
		"no root":        {url + "&sslrootcert=" + broken, assure.SchemaOpened, "file"},
		"no such file":   {strings.Replace(url, "sslmode=disable", "sslmode=verify-full&sslrootcert=/absent.pem", 1), assure.SchemaOpened, "absent.pem"},
	} {
		_, err := assure.Look(ctx, tt.url, "postgres://db/runs", "pawl")
		told, ok := errors.AsType[*assure.Error](err)
		if !ok || told.Reason != tt.reason || !strings.Contains(err.Error(), tt.words) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		for _, secret := range []string{"s3cret", pg.Password} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the password is told: %v", name, err)
			}
		}
	}
}

// withPasswords has a server ask for the password of its user.
func withPasswords(t *testing.T, server *pg.Server) {
	t.Helper()
	server.Query(t, "postgres", "ALTER ROLE pawl PASSWORD '"+pg.Password+"'")
	file := server.Query(t, "postgres", "SHOW hba_file")
	server.Query(t, "postgres", "COPY (SELECT 'host all all 127.0.0.1/32 scram-sha-256') TO '"+file+"'")
	server.Set(t, nil)
}

// TestLookAtStandbys: a synchronous one that follows is seen, and one that is asked itself says
// that it is one.
func TestLookAtStandbys(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	primary, standby := pg.StartWithStandby(t, pg.Synchronous)
	got, err := assure.Look(ctx, primary.URL("postgres"), "db", "pawl")
	if err != nil || got.Following != 1 || got.Standbys == "" || got.Recovering || got.Hidden {
		t.Errorf("%+v, %v", got, err)
	}
	primary.Query(t, "postgres", "CREATE ROLE plain LOGIN")
	if got, err := assure.Look(ctx, strings.Replace(primary.URL("postgres"), "pawl:", "plain:", 1), "db", "pawl"); err != nil || got.Following != 0 || !got.Hidden {
		t.Errorf("by who may not see: %+v, %v", got, err)
	}
	if got, err := assure.Look(ctx, standby.URL("postgres"), "db", "pawl"); err != nil || !got.Recovering {
		t.Errorf("the standby: %+v, %v", got, err)
	}
	standby.Stop(t)
	primary.Await(t, "postgres", "SELECT count(*) = 0 FROM pg_stat_replication")
	if got, err := assure.Look(ctx, primary.URL("postgres"), "db", "pawl"); err != nil || got.Following != 0 {
		t.Errorf("without it: %+v, %v", got, err)
	}
}
