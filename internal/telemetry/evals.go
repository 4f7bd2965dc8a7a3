package telemetry

import (
	"regexp"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// maxEvalSeries bounds the time series of all metrics that packs declare.
const maxEvalSeries = 1000

// evalBuckets is the number of buckets into which a histogram divides the range of scores that the pack declares.
const evalBuckets = 10

// evalMetrics are the metrics that packs declare for their evals. The first result of a metric name fixes its kind
// and range. A result that does not fit, or that needs more than maxEvalSeries, is dropped and counted. It is a
// Prometheus collector without fixed descriptions.
type evalMetrics struct {
	dropped prometheus.Counter

	mu       sync.Mutex
	families map[string]*evalFamily
	series   int
}

// evalFamily is one declared metric.
type evalFamily struct {
	machine.EvalMetric
	desc   *prometheus.Desc
	bounds []float64
	series map[evalLabels]*evalSeries
}

// evalLabels are the label values of one time series.
type evalLabels struct{ pack, eval string }

// evalSeries is one time series. The kind of the metric determines which fields are used.
type evalSeries struct {
	value   float64
	sum     float64
	count   uint64
	buckets []uint64
}

// metricName matches the metric names that Prometheus's exposition format allows.
var metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)

// evalResults counts the eval results in a record. A result for which the pack declares a metric also becomes a value
// of this metric.
func (m *Metrics) evalResults(pack string, results []machine.EvalResult) {
	for i := range results {
		r := &results[i]
		outcome := "failed"
		switch {
		case r.Error != "":
			outcome = "error"
		case r.Passed:
			outcome = "passed"
		}
		m.evals.WithLabelValues(r.Trigger, outcome).Inc()
		if r.Metric != nil && r.Error == "" {
			m.packs.observe(pack, r)
		}
	}
}

// observe adds one result to the time series of its metric, or counts the result as dropped.
func (e *evalMetrics) observe(pack string, r *machine.EvalResult) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.family(r.Metric)
	if f == nil {
		e.dropped.Inc()
		return
	}
	labels := evalLabels{pack, r.ID}
	s := f.series[labels]
	if s == nil {
		if e.series == maxEvalSeries {
			e.dropped.Inc()
			return
		}
		s = &evalSeries{buckets: make([]uint64, len(f.bounds))}
		f.series[labels] = s
		e.series++
	}
	score := float64(r.Score) / machine.ScoreFull
	s.count++
	s.sum += score
	for i, bound := range f.bounds {
		if score <= bound {
			s.buckets[i]++
		}
	}
	switch f.Kind {
	case "gauge":
		s.value = score
	case "counter":
		s.value++
	case "boolean":
		s.value = 0
		if r.Passed {
			s.value = 1
		}
	}
}

// family returns the Prometheus family for a metric that a pack declares. It returns nil if the declaration
// does not fit the metrics that already exist, if the name is invalid or taken, or if there are too many
// metrics.
func (e *evalMetrics) family(m *machine.EvalMetric) *evalFamily {
	if f := e.families[m.Name]; f != nil {
		if f.EvalMetric == *m {
			return f
		}
		return nil
	}
	if len(e.families) == maxEvalSeries || !metricName.MatchString(m.Name) || e.taken(m) {
		return nil
	}
	f := &evalFamily{
		EvalMetric: *m, series: map[evalLabels]*evalSeries{},
		desc: prometheus.NewDesc(m.Name, "Scores of an eval that a pack declares.", []string{"pack", "eval"}, nil),
	}
	if m.Kind == "histogram" {
		low, high := 0.0, 1.0
		if m.Ranged && m.Min < m.Max {
			low, high = float64(m.Min)/machine.ScoreFull, float64(m.Max)/machine.ScoreFull
		}
		for i := 1; i <= evalBuckets; i++ {
			f.bounds = append(f.bounds, low+(high-low)*float64(i)/evalBuckets)
		}
	}
	e.families[m.Name] = f
	return f
}

// taken reports whether the name is already used by the sidecar, or by a series of a histogram. Two equal names would make the whole page
// of metrics invalid.
func (e *evalMetrics) taken(m *machine.EvalMetric) bool {
	for _, prefix := range machine.ReservedMetrics {
		if strings.HasPrefix(m.Name, prefix) {
			return true
		}
	}
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if base, cut := strings.CutSuffix(m.Name, suffix); cut && e.families[base] != nil {
			return true
		}
		if e.families[m.Name+suffix] != nil {
			return true
		}
	}
	return false
}

// Describe implements [prometheus.Collector]. It has no descriptions, because the names are known only when results
// arrive.
func (e *evalMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (e *evalMetrics) Collect(out chan<- prometheus.Metric) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range e.families {
		for labels, s := range f.series {
			out <- f.metric(labels, s)
		}
	}
}

// metric returns the current value of a time series for Prometheus.
func (f *evalFamily) metric(labels evalLabels, s *evalSeries) prometheus.Metric {
	switch f.Kind {
	case "histogram":
		buckets := make(map[float64]uint64, len(f.bounds))
		for i, bound := range f.bounds {
			buckets[bound] = s.buckets[i]
		}
		return prometheus.MustNewConstHistogram(f.desc, s.count, s.sum, buckets, labels.pack, labels.eval)
	case "counter":
		return prometheus.MustNewConstMetric(f.desc, prometheus.CounterValue, s.value, labels.pack, labels.eval)
	}
	return prometheus.MustNewConstMetric(f.desc, prometheus.GaugeValue, s.value, labels.pack, labels.eval)
}
