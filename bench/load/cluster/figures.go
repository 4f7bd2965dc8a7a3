package cluster

import (
	"fmt"

	"github.com/pawl-dev/pawl/bench/load/many"
	"github.com/pawl-dev/pawl/bench/load/stat"
)

// Bars of sidecars that share a database.
const (
	// ForwardRatio is what a call through another node may take of one at the owner.
	ForwardRatio = 1.6
	// HandOverMs and FailoverMs are how long callers may stand still.
	HandOverMs, FailoverMs = 500, 5000
	// LagMs is how long after it was made a transition is read at another node, at the 99th percentile.
	LagMs = 500
	// BalanceMs is how long after it serves a node may wait for its share of the partitions.
	BalanceMs = 10_000
)

// Figures of a cluster.
func Figures() []many.Figure {
	ratio, handOver, failover := stat.AtMost(ForwardRatio), stat.AtMost(HandOverMs), stat.AtMost(FailoverMs)
	lag, balance := stat.AtMost(LagMs), stat.AtMost(BalanceMs)
	var list []many.Figure
	for _, call := range []struct{ key, name string }{{"emit", "EmitEvent"}, {"get", "GetRun"}} {
		local, through := "cluster_local_"+call.key+"_p50_us", "cluster_forward_"+call.key+"_p50_us"
		list = append(list,
			many.Figure{Key: local, Unit: "us", Title: "cluster, " + call.name + " alone at the owner, p50"},
			many.Figure{Key: through, Unit: "us", Title: "cluster, " + call.name + " alone through another node, p50"},
			many.Figure{Key: "cluster_forward_" + call.key + "_ratio", Unit: "x", Bar: &ratio, Num: through, Den: local,
				Title: "cluster, " + call.name + " through another node against at the owner"},
		)
	}
	for _, runs := range loads {
		owner, others, each := keyOf(runs, atOwner), keyOf(runs, spread), keyOf(runs, shared)
		list = append(list,
			many.Figure{Key: owner, Unit: "/s", Title: fmt.Sprintf("cluster, EmitEvent, %d runs, all calls at the owner", runs)},
			many.Figure{Key: others, Unit: "/s", Title: fmt.Sprintf("cluster, EmitEvent, %d runs, calls at three nodes", runs)},
			many.Figure{Key: fmt.Sprintf("cluster_spread_%d_ratio", runs), Unit: "x", Num: others, Den: owner,
				Title: fmt.Sprintf("cluster, EmitEvent, %d runs, at three nodes against at the owner", runs)},
			many.Figure{Key: each, Unit: "/s", Title: fmt.Sprintf("cluster, EmitEvent, %d runs in three namespaces, each at its owner", runs)},
			// It has no bar: where nodes, database and load are on one machine, more owners have no more cores.
			many.Figure{Key: fmt.Sprintf("cluster_shared_%d_ratio", runs), Unit: "x", Num: each, Den: owner,
				Title: fmt.Sprintf("cluster, EmitEvent, %d runs, three owners against one, on the same cores", runs)},
		)
	}
	return append(list,
		many.Figure{Key: "cluster_lag_p50_ms", Unit: "ms", Title: "cluster, from a transition's stamp to a reader of all runs at another node, p50"},
		many.Figure{Key: "cluster_lag_p99_ms", Unit: "ms", Title: "cluster, the same, p99", Bar: &lag},
		many.Figure{Key: "cluster_handover_p50_ms", Unit: "ms", Title: "cluster, standstill at another node, owner ends (SIGTERM), p50"},
		many.Figure{Key: "cluster_handover_most_ms", Unit: "ms", Title: "cluster, the same, most", Bar: &handOver},
		many.Figure{Key: "cluster_failover_p50_ms", Unit: "ms", Title: "cluster, standstill at another node, owner killed, p50"},
		many.Figure{Key: "cluster_failover_most_ms", Unit: "ms", Title: "cluster, the same, most", Bar: &failover},
		many.Figure{Key: "cluster_balance_p50_ms", Unit: "ms", Title: "cluster, a new node's start to an even share of the partitions, p50"},
		many.Figure{Key: "cluster_balance_most_ms", Unit: "ms", Title: "cluster, the same, most", Bar: &balance},
		many.Figure{Key: "store_million_takeover_ms", Unit: "ms", Bar: &failover,
			Title: "cluster, owner of a million waiting runs killed, first commit at another node"},
		many.Figure{Key: "store_million_takeover_start_ms", Unit: "ms", Title: "cluster, the same, first StartRun"},
	)
}
