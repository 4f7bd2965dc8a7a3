package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Nodes counts the work of a node of a cluster. A nil Nodes counts nothing.
type Nodes struct {
	parts     prometheus.Gauge
	living    prometheus.Gauge
	free      prometheus.Gauge
	taken     prometheus.Counter
	handovers *prometheus.CounterVec
	forwarded *prometheus.CounterVec
	retried   *prometheus.CounterVec
	ownerless *prometheus.CounterVec
}

// The ways in which a node stops owning a partition.
const (
	// OutcomeHandover means that this node handed the partition over.
	OutcomeHandover = "handed_over"
	// StoreLost means that another node took the partition, or that commits were no longer possible.
	StoreLost = "lost"
)

// Nodes adds the metrics of a node of a cluster, and returns them.
func (m *Metrics) Nodes() *Nodes {
	if m == nil {
		return nil
	}
	n := &Nodes{
		parts:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "pawl_node_partitions", Help: "Partitions that this sidecar owns; 0 on a standby."}),
		living: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pawl_cluster_nodes", Help: "Live sidecars in the cluster, this one included."}),
		free:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "pawl_cluster_partitions_unowned", Help: "Partitions without an owner that at least one live sidecar serves."}),
	}
	m.registry.MustRegister(n.parts, n.living, n.free)
	n.taken = m.counter("pawl_node_takeovers_total", "Partitions that this sidecar acquired.")
	n.handovers = m.counters("pawl_node_handovers_total", "Partitions that this sidecar released, by outcome: handed_over, lost.", "outcome")
	n.forwarded = m.counters("pawl_node_forwarded_total", "Calls that were forwarded to the owner of their partition, by method and outcome.", "method", "outcome")
	n.retried = m.counters("pawl_node_retried_total", "Calls that were retried because their partition had moved, by method.", "method")
	n.ownerless = m.counters("pawl_node_no_owner_total", "Calls that failed because their partition had no owner, by method.", "method")
	for _, outcome := range []string{OutcomeHandover, StoreLost} {
		n.handovers.WithLabelValues(outcome)
	}
	return n
}

// Took counts a partition that this node acquired.
func (n *Nodes) Took() {
	if n != nil {
		n.parts.Inc()
		n.taken.Inc()
	}
}

// Gave counts a partition that this node released or lost.
func (n *Nodes) Gave(outcome string) {
	if n != nil {
		n.parts.Dec()
		n.handovers.WithLabelValues(outcome).Inc()
	}
}

// Seen sets the number of alive nodes and of partitions without an owner.
func (n *Nodes) Seen(living, ownerless int) {
	if n != nil {
		n.living.Set(float64(living))
		n.free.Set(float64(ownerless))
	}
}

// Forwarded counts a call that was sent to another node. Methods and outcomes are constants of this program.
func (n *Nodes) Forwarded(method, outcome string) {
	if n != nil {
		n.forwarded.WithLabelValues(method, outcome).Inc()
	}
}

// Retried counts a call that is made again.
func (n *Nodes) Retried(method string) {
	if n != nil {
		n.retried.WithLabelValues(method).Inc()
	}
}

// NoOwner counts a call that found no owner of the store for too long.
func (n *Nodes) NoOwner(method string) {
	if n != nil {
		n.ownerless.WithLabelValues(method).Inc()
	}
}
