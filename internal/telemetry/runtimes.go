package telemetry

import (
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// figure is the value of one metric that was read from one runtime.
type figure struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	value  float64
	labels []string
}

// largest are the metrics that report the maximum over all runtimes. backupDesc reports the minimum of those that
// have a backup, because the store is as old as the oldest backup of a partition. All other metrics report the sum.
var largest = map[*prometheus.Desc]bool{
	ageDesc: true, lagDesc: true, subscriptionLagDesc: true, quotaDesc: true, accountLimitDesc: true,
	// Partitions of a database share their tables.
	sizeDesc: true,
}

// runtimes is a Prometheus collector. It combines the metric values of all runtimes in the process.
type runtimes struct {
	mu      sync.Mutex
	current []*gauges
	// removedTotals contains the last values of the counters of removed runtimes, because the sum of a counter
	// must not decrease.
	removedTotals []figure
}

func (h *runtimes) add(g *gauges) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current = append(h.current, g)
}

func (h *runtimes) remove(g *gauges) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, one := range h.current {
		if one == g {
			h.current = append(h.current[:i:i], h.current[i+1:]...)
			h.keep(g)
			return
		}
	}
}

// keep adds the counters of a runtime that is being removed to h.removedTotals. The caller must hold the mutex.
func (h *runtimes) keep(g *gauges) {
	for _, f := range g.read() {
		if f.kind != prometheus.CounterValue {
			continue
		}
		i := slices.IndexFunc(h.removedTotals, func(one figure) bool { return one.desc == f.desc && slices.Equal(one.labels, f.labels) })
		if i < 0 {
			h.removedTotals = append(h.removedTotals, f)
			continue
		}
		h.removedTotals[i].value += f.value
	}
}

// figures returns the metric values of all runtimes, and the counters of removed runtimes.
func (h *runtimes) figures() []figure {
	h.mu.Lock()
	of, all := h.current, slices.Clone(h.removedTotals)
	h.mu.Unlock()
	for _, g := range of {
		all = append(all, g.read()...)
	}
	return all
}

// Describe implements [prometheus.Collector].
func (h *runtimes) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{runsDesc, workersDesc, heldDesc, waitingDesc, unservedDesc, depthDesc, ageDesc, watchersDesc, lagDesc, subscriptionLagDesc, backupDesc, sizeDesc, quotaDesc, heldOfDesc, overDesc, limitOpen, limitWaiting, limitStarted, limitWaited} {
		out <- d
	}
	for _, d := range accountDescs {
		out <- d
	}
}

// series identifies a metric value by its name and labels.
type series struct {
	desc   *prometheus.Desc
	labels string
}

// Collect implements [prometheus.Collector].
func (h *runtimes) Collect(out chan<- prometheus.Metric) {
	sums := map[series]*figure{}
	for _, f := range h.figures() {
		at := series{f.desc, strings.Join(f.labels, "\x00")}
		switch sum := sums[at]; {
		case sum == nil:
			sums[at] = &f
		case largest[f.desc]:
			sum.value = max(sum.value, f.value)
		case f.desc == backupDesc && (f.value == 0 || sum.value == 0): // A new partition does not hide the age of the others.
			sum.value = max(sum.value, f.value)
		case f.desc == backupDesc:
			sum.value = min(sum.value, f.value)
		default:
			sum.value += f.value
		}
	}
	for _, f := range sums {
		out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value, f.labels...)
	}
}
