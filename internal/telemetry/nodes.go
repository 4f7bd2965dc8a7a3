package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Nodes counts what a sidecar does as one of several on a database. Nil counts nothing.
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

// Ways in which a partition goes to another sidecar.
const (
	// OutcomeHandover: this one gave it back.
	OutcomeHandover = "handed_over"
	// StoreLost: another one took it, or nothing could be stored any more.
	StoreLost = "lost"
)

// Nodes adds the metrics of one sidecar of several.
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

// Took counts that a partition is this sidecar's.
func (n *Nodes) Took() {
	if n != nil {
		n.parts.Inc()
		n.taken.Inc()
	}
}

// Gave counts that one is not any more.
func (n *Nodes) Gave(outcome string) {
	if n != nil {
		n.parts.Dec()
		n.handovers.WithLabelValues(outcome).Inc()
	}
}

// Seen is how many sidecars live, and how many partitions nobody has.
func (n *Nodes) Seen(living, ownerless int) {
	if n != nil {
		n.living.Set(float64(living))
		n.free.Set(float64(ownerless))
	}
}

// Forwarded counts a call that went to another sidecar. Methods and outcomes are words of this
// program.
func (n *Nodes) Forwarded(method, outcome string) {
	if n != nil {
		n.forwarded.WithLabelValues(method, outcome).Inc()
	}
}

// Retried counts a call that is made once more.
func (n *Nodes) Retried(method string) {
	if n != nil {
		n.retried.WithLabelValues(method).Inc()
	}
}

// NoOwner counts a call that found nobody with the store for too long.
func (n *Nodes) NoOwner(method string) {
	if n != nil {
		n.ownerless.WithLabelValues(method).Inc()
	}
}
