package many

import (
	"fmt"

	"github.com/pawl-dev/pawl/bench/load/stat"
)

// Figure is one line of the report: a metric, or the quotient of two.
type Figure struct {
	Key, Title, Unit string
	Bar              *stat.Bar
	// Num and Den are the metrics of a quotient; empty: Key is the metric.
	Num, Den string
}

// Runs are how many are driven at once, without a wire and over it.
var (
	Runs      = []int{256, 64, 16, 1}
	WiredRuns = []int{64, 1, 256}
)

// Figures of both stores, PostgreSQL's first; bars depend on how many machines have a commit
// before it is acknowledged.
func (d *Database) Figures() []Figure {
	least := stat.AtLeast(0.7)
	if d.Synced() {
		least = stat.AtLeast(0.45)
	}
	var list []Figure
	for _, runs := range []int{1, 16, 64, 256} {
		list = append(list, pair("engine", fmt.Sprintf("engine in process, %d runs", runs), runs, nil)...)
	}
	for _, runs := range []int{1, 64, 256} {
		bar := &least
		if runs == 1 {
			bar = nil
		}
		list = append(list, pair("emit", fmt.Sprintf("EmitEvent, %d runs", runs), runs, bar)...)
	}
	restart, over, million := stat.AtMost(RestartMs), stat.AtMost(1), "PostgreSQL, start over a million waiting runs after SIGKILL, "
	return append(list,
		Figure{Key: "store_alone_p50_us", Unit: "us", Title: "PostgreSQL, EmitEvent alone, p50"},
		Figure{Key: "store_embedded_alone_p50_us", Unit: "us", Title: "embedded, EmitEvent alone, p50"},
		Figure{Key: "store_roundtrip_p50_us", Unit: "us", Title: "SELECT 1 on one connection, p50"},
		Figure{Key: "store_alone_ms_over_roundtrip", Unit: "ms", Title: "PostgreSQL, EmitEvent alone, p50, over that round trip", Bar: &over},
		Figure{Key: "store_emit_p99_us_64", Unit: "us", Title: "PostgreSQL, EmitEvent at 64 runs, p99"},
		Figure{Key: "store_embedded_emit_p99_us_64", Unit: "us", Title: "embedded, EmitEvent at 64 runs, p99"},
		Figure{Key: "store_million_ready_ms", Unit: "ms", Title: million + "ready", Bar: &restart},
		Figure{Key: "store_million_rss_mb", Unit: "MB", Title: million + "RSS"},
		Figure{Key: "store_million_emit_p50_us", Unit: "us", Title: "PostgreSQL, EmitEvent alone among them, p50"},
	)
}

// RestartMs is what a start after SIGKILL may take: the lease of who was killed, and 5 s.
const RestartMs = 3000 + 5000

// pair is a throughput of both stores and its quotient.
func pair(kind, title string, runs int, bar *stat.Bar) []Figure {
	own, embedded := fmt.Sprintf("store_%s_tps_%d", kind, runs), fmt.Sprintf("store_embedded_%s_tps_%d", kind, runs)
	return []Figure{
		{Key: own, Unit: "/s", Title: "PostgreSQL, " + title},
		{Key: embedded, Unit: "/s", Title: "embedded, " + title},
		{
			Key: fmt.Sprintf("store_%s_%d_ratio", kind, runs), Unit: "x", Title: "PostgreSQL against embedded, " + title,
			Bar: bar, Num: own, Den: embedded,
		},
	}
}
