package load

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/bench/load/many"
	"github.com/pawl-dev/pawl/bench/load/stat"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// TestCommitsToADatabase are those of the engine on a schema of its own.
func TestCommitsToADatabase(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t)
	got, err := runCommits(t.Context(), commitJob{
		Kind: "engine", Dir: t.TempDir(), Writers: 4, Warm: time.Millisecond, Window: 100 * time.Millisecond, Bytes: artifactBytes,
		Place: &many.Location{URL: server.URL("postgres"), Schema: "pawl_bench_test"},
	})
	if err != nil || got.Count == 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if rows := server.Query(t, "postgres", "SELECT count(*) > 4 FROM pawl_bench_test.cold"); rows != "t" {
		t.Error("nothing is in the database")
	}
}

// TestBothStoresAreMeasured in one run, over the wire too, and nothing of it stays.
func TestBothStoresAreMeasured(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t)
	report, err := Run(t.Context(), Options{
		Sizes: tinySizes(), Self: self(t), Dir: t.TempDir(), Parts: []string{"store", "store-million"},
		Store: dsn.Parse(server.URL("postgres")),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range report.Faults {
		t.Error(fault)
	}
	measured := 0
	for _, f := range report.Figures {
		if strings.HasPrefix(f.Key, "store_") {
			measured++
			if f.Verdict == stat.NotMeasured || !(f.Median > 0) {
				t.Errorf("%s is %v: %s", f.Key, f.Median, f.Verdict)
			}
		}
	}
	if measured == 0 || !strings.Contains(report.Sync, "fsync off") || strings.Contains(report.Sync, pgserver.Password) {
		t.Errorf("%d figures of stores; %s", measured, report.Sync)
	}
	if left := server.Query(t, "postgres", "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'pawl%'"); left != "0" {
		t.Errorf("%s schemas stay", left)
	}
}

// TestAClusterIsMeasured: three sidecars on a database, of which owners end and are killed.
func TestAClusterIsMeasured(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t)
	report, err := Run(t.Context(), Options{
		Sizes: tinySizes(), Self: self(t), Dir: t.TempDir(), Parts: []string{"cluster"}, Store: dsn.Parse(server.URL("postgres")),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range report.Faults {
		t.Error(fault)
	}
	doc := document(t, report)
	for _, key := range clusterKeys {
		if value, ok := doc[key].(float64); !ok || value <= 0 {
			t.Errorf("%s is %v", key, doc[key])
		}
	}
	if left := server.Query(t, "postgres", "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'pawl%'"); left != "0" {
		t.Errorf("%s schemas stay", left)
	}
}

// clusterKeys are the keys that scripts read of a cluster.
var clusterKeys = strings.Fields(`
cluster_local_emit_p50_us cluster_forward_emit_p50_us cluster_forward_emit_ratio
cluster_local_get_p50_us cluster_forward_get_p50_us cluster_forward_get_ratio
cluster_owner_emit_tps_64 cluster_spread_emit_tps_64 cluster_spread_64_ratio
cluster_owner_emit_tps_256 cluster_spread_emit_tps_256 cluster_spread_256_ratio
cluster_shared_emit_tps_64 cluster_shared_64_ratio cluster_shared_emit_tps_256 cluster_shared_256_ratio cluster_balance_p50_ms cluster_balance_most_ms
cluster_lag_p50_ms cluster_lag_p99_ms cluster_handover_p50_ms cluster_handover_most_ms cluster_failover_p50_ms cluster_failover_most_ms`)

func TestPartsOfStoresNeedADatabase(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"store", "store-million", "cluster"} {
		_, err := Run(t.Context(), Options{Self: self(t), Dir: t.TempDir(), Parts: []string{part}})
		if want := fmt.Sprintf("part %q needs a database: --store", part); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
