package load

import "github.com/pawl-dev/pawl/bench/load/stat"

// figure is one line of the report.
type figure struct {
	// key of the JSON document's top level; see also derived.
	key   string
	title string
	unit  string
	bar   *stat.Bar
	// derived figures stand in the list of figures only, not at the top level.
	derived bool
	from    func(Samples) []float64
}

// measured takes a metric as it is.
func measured(name string) func(Samples) []float64 {
	return func(s Samples) []float64 { return s[name] }
}

// ratioOf compares two metrics round by round.
func ratioOf(num, den string) func(Samples) []float64 {
	return func(s Samples) []float64 { return s.ratio(num, den) }
}

// floorOf is an EmitEvent's p50 over the least that it can cost: one echo and
// one fsync.
func overFloor(s Samples) []float64 {
	s = Samples{"num": s["emit_p50_us_1"], "floor": s.sum("echo_p50_us", "fsync_p50_us")}
	return s.ratio("num", "floor")
}

func plainFigure(key, unit, title string) figure {
	return figure{key: key, title: title, unit: unit, from: measured(key)}
}

func figureWithBar(key, unit, title string, bar stat.Bar) figure {
	f := plainFigure(key, unit, title)
	f.bar = &bar
	return f
}

func compared(key, title string, bar stat.Bar, from func(Samples) []float64) figure {
	return figure{key: key, title: title, unit: "x", bar: &bar, from: from, derived: true}
}

// figures is the whole table, in the order in which it is printed.
func figures() []figure {
	list := yardsticks()
	list = append(list, throughput()...)
	list = append(list, overload()...)
	list = append(list, workers()...)
	list = append(list, drivers()...)
	list = append(list, agents()...)
	list = append(list, delegations()...)
	list = append(list, mcpTools()...)
	list = append(list, snapshots()...)
	list = append(list, millions()...)
	list = append(list, lists()...)
	list = append(list, models()...)
	return append(list, footprint()...)
}

func yardsticks() []figure {
	return []figure{
		plainFigure("fsync_p50_us", "us", "append + fsync, p50"),
		plainFigure("echo_rps", "/s", "gRPC health echo, 64 clients"),
		plainFigure("echo_p50_us", "us", "gRPC health echo alone, p50"),
		plainFigure("naive_tps", "/s", "naive: a synced transaction per transition, 64 writers"),
		plainFigure("bare_tps_256", "/s", "bare committer in process, 256 writers"),
		plainFigure("bare_emit_tps_64", "/s", "bare handler, 64 clients"),
		plainFigure("bare_emit_p50_us_1", "us", "bare handler alone, p50"),
	}
}

func throughput() []figure {
	echo := compared("emit_vs_echo", "EmitEvent against echo, 64", stat.AtLeast(0.38), ratioOf("emit_tps_64", "echo_rps"))
	return []figure{
		plainFigure("engine_tps_1", "/s", "engine in process, 1 run"),
		plainFigure("engine_tps_16", "/s", "engine in process, 16 runs"),
		plainFigure("engine_tps_64", "/s", "engine in process, 64 runs"),
		plainFigure("engine_tps_256", "/s", "engine in process, 256 runs"),
		compared("engine_vs_bare", "engine against bare, 256 runs", stat.AtLeast(0.85), ratioOf("engine_tps_256", "bare_tps_256")),
		compared("engine_vs_naive", "engine, 256 runs, against naive", stat.AtLeast(5), ratioOf("engine_tps_256", "naive_tps")),
		plainFigure("emit_tps_1", "/s", "EmitEvent, 1 run"),
		plainFigure("emit_tps_16", "/s", "EmitEvent, 16 runs"),
		plainFigure("emit_tps_64", "/s", "EmitEvent, 64 runs"),
		plainFigure("emit_tps_256", "/s", "EmitEvent, 256 runs"),
		compared("emit_vs_bare", "EmitEvent against the bare handler, 64", stat.AtLeast(0.8), ratioOf("emit_tps_64", "bare_emit_tps_64")),
		echo,
		plainFigure("emit_p50_us_1", "us", "EmitEvent alone, p50"),
		compared("emit_p50_vs_bare", "EmitEvent alone, p50, against the bare handler's", stat.AtMost(1.25), ratioOf("emit_p50_us_1", "bare_emit_p50_us_1")),
		compared("emit_p50_vs_floor", "EmitEvent alone, p50, against echo + fsync", stat.AtMost(1.5), overFloor),
		plainFigure("emit_p50_us_64", "us", "EmitEvent at 64 runs, p50"),
		plainFigure("emit_p99_us_64", "us", "EmitEvent at 64 runs, p99"),
		plainFigure("serve_tps_64", "/s", "turns of runs that one work stream serves, 64 runs"),
		compared("serve_vs_echo", "turns of runs that one work stream serves against echo, 64", stat.AtLeast(0.7), ratioOf("serve_tps_64", "echo_rps")),
		plainFigure("serve_p50_us_64", "us", "a turn of a run that a work stream serves, 64 runs, p50"),
		compared("emit_p99_vs_p50", "EmitEvent at 64 runs, p99 against p50", stat.AtMost(5), ratioOf("emit_p99_us_64", "emit_p50_us_64")),
	}
}

func workers() []figure {
	list := []figure{
		plainFigure("worker_emit_tps", "/s", "EmitEvent beside workers, 64 runs"),
		plainFigure("worker_emit_p50_us", "us", "EmitEvent beside workers, alone, p50"),
	}
	for _, lang := range []struct{ key, name string }{{"go", "Go"}, {"python", "Python"}, {"typescript", "TypeScript"}} {
		list = append(list,
			plainFigure("worker_turns_tps_"+lang.key, "/s", "turns through a "+lang.name+" worker, 64 runs"),
			plainFigure("worker_turn_p50_us_"+lang.key, "us", "turn round trip, "+lang.name+" worker, 1 run, p50"),
			plainFigure("worker_turn_p99_us_"+lang.key, "us", "turn round trip, "+lang.name+" worker, 1 run, p99"),
		)
	}
	return append(list,
		compared("worker_vs_emit", "Go worker's turns against EmitEvent, 64 runs", stat.AtLeast(0.4), ratioOf("worker_turns_tps_go", "worker_emit_tps")),
		figureWithBar("reassign_ms", "ms", "a killed worker's turn is on another worker", stat.AtMost(100)),
		figureWithBar("idle_workers_rss_mb", "MB", "RSS growth under idle workers", stat.AtMost(60)),
	)
}

func footprint() []figure {
	return []figure{
		figureWithBar("keys_per_transition", "", "keys per transition with one artifact, 256 runs", stat.AtMost(3)),
		figureWithBar("flat_ratio", "x", "a transition late in a run against early, p50", stat.AtMost(1.15)),
		figureWithBar("watcher_ratio", "x", "throughput with watchers that never read", stat.AtLeast(0.95)),
		figureWithBar("fanout_ratio", "x", "throughput with watchers that read everything", stat.AtLeast(0.8)),
		figureWithBar("telemetry_ratio", "x", "throughput with metrics and traces of 10 % of the runs", stat.AtLeast(0.95)),
		figureWithBar("fanout_lag_p99_ms", "ms", "lag of the reading watchers, p99", stat.AtMost(250)),
		figureWithBar("restart_ready_ms", "ms", "restart after SIGKILL among waiting runs, ready", stat.AtMost(3000)),
		figureWithBar("restart_rss_mb", "MB", "RSS after that restart", stat.AtMost(250)),
		figureWithBar("overdue_ready_ms", "ms", "restart with all deadlines passed, serving", stat.AtMost(3000)),
		figureWithBar("overdue_ended_tps", "/s", "overdue runs ended", stat.AtLeast(5000)),
		figureWithBar("overdue_live_p99_ms", "ms", "a live run's EmitEvent meanwhile, p99", stat.AtMost(100)),
		figureWithBar("storage_ratio", "x", "disk after compaction against bytes written by the caller", stat.AtMost(2)),
		figureWithBar("idle_ready_ms", "ms", "idle start to ready", stat.AtMost(60)),
		figureWithBar("idle_rss_mb", "MB", "RSS when idle", stat.AtMost(40)),
		figureWithBar("binary_mb", "MB", "stripped binary", stat.AtMost(45)),
	}
}
