package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Nodes counts the work of a node of a cluster. A nil Nodes does not count.
type Nodes struct {
	registry  *prometheus.Registry
	taken     prometheus.Counter
	handovers *prometheus.CounterVec
	forwarded *prometheus.CounterVec
	retried   *prometheus.CounterVec
	ownerless *prometheus.CounterVec
}

// These are the ways in which a node of a cluster stops owning a partition of the store.
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
	n := &Nodes{registry: m.registry}
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

// ClusterState is what a node knows about the cluster at the time of a scrape.
type ClusterState struct {
	// Owned is the number of partitions whose calls this node accepts. A partition whose lease has
	// ended is not counted.
	Owned int
	// Living is the number of live nodes. Unowned is the number of partitions without an owner. A node that
	// cannot read the database knows no live node, and it treats every partition of another node as unowned.
	Living, Unowned int
}

// Watch adds the gauges of the cluster. Each scrape calls read once for each gauge.
func (n *Nodes) Watch(read func() ClusterState) {
	if n == nil {
		return
	}
	add := func(name, help string, value func(ClusterState) int) {
		n.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value(read())) }))
	}
	add("pawl_node_partitions", "Partitions that this sidecar owns; 0 on a standby, and after its leases have ended.", func(s ClusterState) int { return s.Owned })
	add("pawl_cluster_nodes", "Live sidecars in the cluster, this one included; 0 while the database cannot be read.", func(s ClusterState) int { return s.Living })
	add("pawl_cluster_partitions_unowned", "Partitions without an owner that at least one live sidecar serves; all while the database cannot be read.", func(s ClusterState) int { return s.Unowned })
}

// CountAcquired counts a partition that this node acquired.
func (n *Nodes) CountAcquired() {
	if n != nil {
		n.taken.Inc()
	}
}

// CountReleased counts a partition that this node released or lost.
func (n *Nodes) CountReleased(outcome string) {
	if n != nil {
		n.handovers.WithLabelValues(outcome).Inc()
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

// NoOwner counts a call that was refused because its partition of the store had no owner for too long.
func (n *Nodes) NoOwner(method string) {
	if n != nil {
		n.ownerless.WithLabelValues(method).Inc()
	}
}
