package telemetry

import (
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// figure is one of a house.
type figure struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	value  float64
	labels []string
}

// largest are the figures of which several houses have together what the one has that has most; of
// all others they have the sum.
var largest = map[*prometheus.Desc]bool{
	ageDesc: true, lagDesc: true, quotaDesc: true, accountLimitDesc: true,
	// Partitions of a database lie in the same tables.
	sizeDesc: true,
}

// runtimes is the collector of what is in all houses of the process.
type runtimes struct {
	mu sync.Mutex
	of []*gauges
	// gone is what those counted last that are gone: no counter falls.
	gone []figure
}

func (h *runtimes) add(g *gauges) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of = append(h.of, g)
}

func (h *runtimes) remove(g *gauges) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, one := range h.of {
		if one == g {
			h.of = append(h.of[:i:i], h.of[i+1:]...)
			h.keep(g)
			return
		}
	}
}

// keep adds up what a house counted that goes. The mutex is held.
func (h *runtimes) keep(g *gauges) {
	for _, f := range g.read() {
		if f.kind != prometheus.CounterValue {
			continue
		}
		i := slices.IndexFunc(h.gone, func(one figure) bool { return one.desc == f.desc && slices.Equal(one.labels, f.labels) })
		if i < 0 {
			h.gone = append(h.gone, f)
			continue
		}
		h.gone[i].value += f.value
	}
}

// figures are those of all, with what is kept of those that are gone.
func (h *runtimes) figures() []figure {
	h.mu.Lock()
	of, all := h.of, slices.Clone(h.gone)
	h.mu.Unlock()
	for _, g := range of {
		all = append(all, g.read()...)
	}
	return all
}

// Describe implements [prometheus.Collector].
func (h *runtimes) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{runsDesc, workersDesc, heldDesc, waitingDesc, unservedDesc, depthDesc, ageDesc, watchersDesc, lagDesc, sizeDesc, quotaDesc, heldOfDesc, overDesc, limitOpen, limitWaiting, limitStarted, limitWaited} {
		out <- d
	}
	for _, d := range accountDescs {
		out <- d
	}
}

// series names a figure with its labels.
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
		default:
			sum.value += f.value
		}
	}
	for _, f := range sums {
		out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value, f.labels...)
	}
}
