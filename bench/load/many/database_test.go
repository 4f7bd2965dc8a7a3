package many

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/bench/load/stat"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/internal/store/pg/preflight"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// TestNothingStaysBehind: a place is a schema of its own, which goes with what is in it.
func TestNothingStaysBehind(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t)
	d, err := Inspect(t.Context(), dsn.Parse(server.URL("postgres")))
	if err != nil {
		t.Fatal(err)
	}
	place, drop := d.Fresh()
	opened, err := place.Engine()
	if err != nil {
		t.Fatal(err)
	}
	schemas := "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'pawl%'"
	if got := server.Query(t, "postgres", schemas); got != "1" {
		t.Errorf("%s schemas, want 1", got)
	}
	if err := opened.Close(); err != nil {
		t.Error(err)
	}
	drop()
	if got := server.Query(t, "postgres", schemas); got != "0" {
		t.Errorf("%s schemas stay", got)
	}
	took, err := d.RoundTrips(t.Context(), 3)
	if err != nil || len(took) != 3 || slices.Min(took) <= 0 {
		t.Errorf("round trips %v, %v", took, err)
	}
}

// TestTheReportNamesHowItSyncs, and the bars go by it.
func TestTheReportNamesHowItSyncs(t *testing.T) {
	t.Parallel()
	server := preflight.Server{Version: 150018, Fsync: "on", FullPages: "on", Commit: "on"}
	alone := &Database{url: dsn.Parse("postgres://u:geheim@127.0.0.1/x"), server: server}
	server.Standbys, server.Following = "s1", 1
	followed := &Database{url: dsn.Parse("postgres://u:geheim@db.example/x"), server: server}
	server.Following = 0
	lost := &Database{url: alone.url, server: server}
	for _, c := range []struct {
		d    *Database
		want []string
		bar  float64
	}{
		{alone, []string{"PostgreSQL 15", "fsync on", "synchronous_commit on", "no synchronous standby", "on this machine, whose cores"}, 0.7},
		{followed, []string{`synchronous standby (synchronous_standby_names "s1", 1 streaming)`, "on another machine: postgres://u@db.example/x"}, 0.45},
		{lost, []string{`"s1", which does not stream`}, 0.7},
	} {
		description := c.d.Sync()
		for _, want := range c.want {
			if !strings.Contains(description, want) {
				t.Errorf("%q says nothing of %q", description, want)
			}
		}
		if strings.Contains(description, "geheim") {
			t.Errorf("%q has the password", description)
		}
		if got := barOf(t, c.d, "store_emit_64_ratio"); got != stat.AtLeast(c.bar) {
			t.Errorf("bar %v, want %v", got, c.bar)
		}
	}
}

func barOf(t *testing.T, d *Database, key string) stat.Bar {
	t.Helper()
	for _, f := range d.Figures() {
		if f.Key == key {
			return *f.Bar
		}
	}
	t.Fatalf("no figure %s", key)
	return stat.Bar{}
}

// TestAPasswordIsInNoCommandLine: it goes by a file.
func TestAPasswordIsInNoCommandLine(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://u:geheim@db/x", "postgres://u@db/x?password=geheim"} {
		place := &Location{URL: url, Schema: "s"}
		flags, err := place.Flags(t.TempDir())
		if err != nil || strings.Contains(strings.Join(flags, " "), "geheim") {
			t.Errorf("%s: %v, %v", url, flags, err)
		}
		kept, err := os.ReadFile(flags[len(flags)-1])
		if err != nil || string(kept) != "geheim" {
			t.Errorf("%s: the file has %q, %v", url, kept, err)
		}
	}
	place := &Location{URL: "postgres://u@db/x", Schema: "s"}
	if flags, err := place.Flags(t.TempDir()); err != nil || slices.Contains(flags, "--store-password-file") {
		t.Errorf("without a password: %v, %v", flags, err)
	}
}

func TestAnAddressThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := Inspect(t.Context(), dsn.Parse("mysql://x")); err == nil || !strings.Contains(err.Error(), "--store begins with") {
		t.Errorf("%v", err)
	}
}
